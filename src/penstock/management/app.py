"""The HTTP application: addresses to handlers and pages, logins, errors, and security headers."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

from prometheus_client.core import Metric
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.base.errors import OperatorError
from penstock.management import missing
from penstock.management.broker_link import BrokerGone
from penstock.management.errors import HttpFault
from penstock.management.metrics import CONTENT_TYPE, Metrics, written
from penstock.management.openapi import BASE, document
from penstock.management.pages.routes import Pages
from penstock.management.requests import Call, Handler, Services, address_of, json
from penstock.management.resources import (
    connections,
    exchanges,
    flow,
    health,
    limits,
    overview,
    policies,
    queues,
    users,
)

HEADERS: Final = (
    (b"cache-control", b"no-cache"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
INTERNAL: Final = "internal error"
"""How the broker begins what it says of a fault of its own."""
SAFE: Final = ("GET", "HEAD")
"""Methods that change nothing."""
REALM: Final = 'Basic realm="Penstock Management"'

Routes = dict[tuple[str, str], Handler]


def all_routes() -> Routes:
    """Method and address of every handler."""
    found: Routes = {}
    for module in (
        overview,
        connections,
        queues,
        exchanges,
        users,
        limits,
        policies,
        health,
        flow,
    ):
        found |= module.ROUTES
    found["GET", "/openapi.json"] = described
    return found


async def described(_call: Call) -> Response:
    """This description, as OpenAPI 3.1."""
    return json(document(all_routes()))


class DecodedRoute(Route):
    """A route whose variables may hold `%2F`: the virtual host `/` is one segment of an address.

    Servers hand the path on decoded, where that slash would part two segments, so it is matched as
    it came and its variables are decoded afterwards."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw = scope.get("raw_path")
        if raw is not None:
            # A slash at the end is none, as in RabbitMQ: Flower asks for `/api/queues/`.
            path = raw.decode("latin-1").partition("?")[0].removesuffix("/")
            scope = {**scope, "path": path, "root_path": ""}
        match, child = super().matches(scope)
        variables: dict[str, Any] = child.get("path_params", {})
        for name, value in variables.items():
            if isinstance(value, str):
                variables[name] = unquote(value)
        return match, child


def api_routes(services: Services) -> list[BaseRoute]:
    """One route an address, that knows which methods it has."""
    by_path: dict[str, dict[str, Handler]] = {}
    for (method, path), handler in all_routes().items():
        by_path.setdefault(path, {})[method] = handler
    # Addresses without variables go before those that would take their last word for one.
    order = sorted(by_path, key=lambda path: (path.count("{"), path))
    return [
        DecodedRoute(
            BASE + path,
            partial(answer, services, by_path[path]),
            methods=["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"],
        )
        for path in order
    ]


async def answer(services: Services, handlers: dict[str, Handler], request: Request) -> Response:
    """One request: who asks, and what he is told. Faults are JSON objects."""
    method = "GET" if request.method == "HEAD" else request.method
    allowed = ", ".join([*handlers, "HEAD", "OPTIONS"])
    if method == "OPTIONS":
        return Response(status_code=200, headers={"allow": allowed})
    handler = handlers.get(method)
    if handler is None:
        fault = json({"error": "Method Not Allowed", "reason": f"one of: {allowed}"}, 405)
        fault.headers["allow"] = allowed
        return fault
    return await faults_told(partial(_handled, services, handler, request))


async def _handled(services: Services, handler: Handler, request: Request) -> Response:
    if request.method not in SAFE:
        need_own_site(request)
    header = request.headers.get("authorization", "")
    missing.begin()
    visitor = await services.logins.visitor(header, address_of(request))
    done = await handler(Call(services, visitor, request))
    if lacking := missing.header_text():
        done.headers[missing.HEADER] = lacking
    return done


def need_own_site(request: Request) -> None:
    """A browser sends a password that it has been given for this address with forms of other sites,
    too; programs say nothing of sites. Raises: HttpFault 403 for a request from another one."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        is_own = site in ("same-origin", "none")
    else:
        # Over HTTP from afar browsers say only this.
        host = request.headers.get("host", "")
        is_own = origin is None or origin.partition("://")[2] == host
    if not is_own:
        raise HttpFault(403, "forbidden", "this request came from another site")


async def faults_told(work: Callable[[], Awaitable[Response]]) -> Response:
    """What `work` answers, or what has gone wrong in it as JSON."""
    try:
        return await work()
    except HttpFault as fault:
        told = json({"error": fault.error, "reason": fault.reason}, fault.status)
        if fault.status == 401:
            told.headers["www-authenticate"] = REALM
        return told
    except BrokerGone as error:
        return json({"error": "service_unavailable", "reason": str(error)}, 503)
    except OperatorError as error:
        is_ours = str(error).startswith(INTERNAL)
        said = "internal_server_error" if is_ours else "bad_request"
        return json({"error": said, "reason": str(error)}, 500 if is_ours else 400)


async def _missing(_request: Request, _error: Exception) -> Response:
    return json({"error": "Object Not Found", "reason": "Not Found"}, 404)


class SecurityHeaders:
    """Adds HEADERS to every answer that does not say otherwise. A client that goes in the middle of
    its request is no fault: nobody is left to be told."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(pair for pair in HEADERS if pair[0] not in there),
                ]
            await send(message)

        with suppress(ClientDisconnect):
            await self.app(scope, receive, sending)


def metrics_routes(metrics: Metrics) -> list[BaseRoute]:
    """What Prometheus reads; nobody logs in there, as in RabbitMQ."""

    def route(path: str, work: Callable[[Request], Awaitable[list[Metric]]]) -> Route:
        async def handler(request: Request) -> Response:
            async def told() -> Response:
                families = await work(request)
                # Of very many queues that takes seconds, in which others are answered.
                text = await asyncio.to_thread(written, families)
                return Response(text, media_type=CONTENT_TYPE)

            return await faults_told(told)

        return Route(path, handler, methods=["GET"])

    async def aggregated(_request: Request) -> list[Metric]:
        return await metrics.node("aggregated")

    async def per_object(_request: Request) -> list[Metric]:
        return await metrics.per_object()

    async def detailed(request: Request) -> list[Metric]:
        families = request.query_params.getlist("family")
        return await metrics.detailed(families, request.query_params.getlist("vhost"))

    async def flow_rows(_request: Request) -> list[Metric]:
        return await metrics.flow_rows()

    return [
        route("/metrics", aggregated),
        route("/metrics/per-object", per_object),
        route("/metrics/detailed", detailed),
        route("/metrics/flow", flow_rows),
    ]


def make_metrics_app(metrics: Metrics) -> ASGIApp:
    """The metrics alone, for a port of their own."""
    routes = metrics_routes(metrics)
    return SecurityHeaders(Starlette(routes=routes, exception_handlers={404: _missing}))


def make_app(services: Services) -> ASGIApp:
    """The API, and the pages."""
    routes = [*api_routes(services), *Pages(services).routes()]
    app = Starlette(routes=routes, exception_handlers={404: _missing})
    return SecurityHeaders(app)
