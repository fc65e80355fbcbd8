"""Addresses of the pages: logging in and out, what is shown, what forms change, and static files.

A form changes something only with a live session, the token that was written into the form, and a
browser that does not say that it comes from another site. Faults are pages with the API's texts.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from penstock.base.errors import OperatorError
from penstock.management import missing
from penstock.management.broker_link import BrokerGone
from penstock.management.errors import HttpFault, not_found
from penstock.management.pages import admin_views, flow_views, record_views, views
from penstock.management.pages.actions import ACTIONS, SPECIAL, act
from penstock.management.pages.html import STATIC, address, render, static_file
from penstock.management.pages.opened_records import OPENED_BYTES_MAX, Records
from penstock.management.pages.samples import History, Pace, Samples
from penstock.management.pages.sessions import COOKIE, Session, Sessions
from penstock.management.pages.visit import (
    Form,
    Shared,
    View,
    Visit,
    file_form_of,
    form_of,
    goto,
    is_local,
    local_address,
    theme_of,
)
from penstock.management.requests import Services, address_of

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": CSP,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
FOR_EVER: Final = "public, max-age=31536000, immutable"
NAME_MAX: Final = 1_024
"""Letters of a user's name or password that a login takes."""
TITLES: Final = {
    400: "This did not work",
    403: "You may not do this",
    404: "There is no such thing",
    413: "This is too large",
    500: "Something went wrong here",
    503: "The broker does not answer",
}


class Pages:
    """The pages of one broker."""

    def __init__(self, services: Services) -> None:
        self.sessions = Sessions()
        link = services.link
        samples = Samples(link)
        self.shared = Shared(services, samples, History(samples), Records(link))
        self.pace = Pace()

    def routes(self) -> list[BaseRoute]:
        """All of them; whatever is no page is not found."""
        found: list[BaseRoute] = [
            Route("/login", self._guarded(self._login_form), methods=["GET"]),
            Route("/login", self._guarded(self._login), methods=["POST"]),
            Route("/logout", self._guarded(self._logout), methods=["POST"]),
            Route("/static/{name}", _static, methods=["GET"]),
            Route("/open-record", self._guarded(self._open_record), methods=["POST"]),
            Route("/do/{action}", self._guarded(self._do), methods=["POST"]),
        ]
        rooms = (views, flow_views, record_views, admin_views)
        for path, view in (pair for room in rooms for pair in room.VIEWS.items()):
            found.append(Route(path, self._guarded(partial(self._show, view)), methods=["GET"]))
        return found

    # -- sessions --------------------------------------------------------------------------------

    async def _login_form(self, request: Request) -> Response:
        return _login_page(request, request.query_params.get("next", "/"))

    async def _login(self, request: Request) -> Response:
        need_same_site(request)
        form = await form_of(request)
        user, password = form.get("user", ""), form.get("password", "")
        wanted = form.get("next", "/")
        if len(user) > NAME_MAX or len(password) > NAME_MAX:
            return _login_page(request, wanted, "Login failed", 401)
        logins = self.shared.services.logins
        try:
            await logins.login(user, password, address_of(request))
        except HttpFault as fault:
            said = fault.reason
            if said.startswith("Not management"):
                said = f"user {user} has no tag that lets people in here; an administrator can add "
                said += "the tag management, monitoring, policymaker or administrator"
            return _login_page(request, wanted, said, 401)
        old = request.cookies.get(COOKIE)
        if old is not None:
            self.sessions.close(old)
        answer = goto(wanted)
        is_https = request.url.scheme == "https"
        answer.set_cookie(
            COOKIE,
            self.sessions.open(user, password),
            path="/",
            secure=is_https,
            httponly=True,
            samesite="strict",
        )
        return answer

    async def _logout(self, request: Request) -> Response:
        session = self._session(request)
        if session is not None:
            need_own(request, session, await form_of(request))
            self.sessions.close(request.cookies.get(COOKIE, ""))
        answer = goto("/login")
        answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return answer

    def _session(self, request: Request) -> Session | None:
        return self.sessions.find(request.cookies.get(COOKIE, ""))

    async def _visit(self, request: Request) -> Visit | None:
        """None where nobody has logged in, or may no longer."""
        session = self._session(request)
        if session is None:
            return None
        missing.begin()
        logins = self.shared.services.logins
        try:
            visitor = await logins.login(session.user, session.password, address_of(request))
        except HttpFault:
            # The user is gone, or has another password or no tag any more.
            self.sessions.close(request.cookies.get(COOKIE, ""))
            return None
        return Visit(self.shared, session, visitor, request)

    # -- pages and forms -------------------------------------------------------------------------

    async def _show(self, view: View, request: Request) -> Response:
        visit = await self._visit(request)
        if visit is None:
            return _to_login(request, local_address(request))
        answer = await self._told(visit, partial(view, visit))
        if visit.is_live:
            answer.headers["x-wait"] = self.pace.told()
        return answer

    async def _do(self, request: Request) -> Response:
        need_same_site(request)
        visit = await self._visit(request)
        if visit is None:
            return _to_login(request, "/")
        form = await form_of(request)
        need_own(request, visit.session, form)
        name = str(request.path_params["action"])
        if name in SPECIAL:
            return await self._told(visit, partial(SPECIAL[name], visit, form))
        if name not in ACTIONS:
            raise not_found()
        return await self._told(visit, partial(act, visit, name, form))

    async def _open_record(self, request: Request) -> Response:
        """The one form with a file: it is larger than others may be, so it is read only for those
        who have a session."""
        need_same_site(request)
        visit = await self._visit(request)
        if visit is None:
            return _to_login(request, "/records")
        return await self._told(visit, partial(self._opened, visit))

    async def _opened(self, visit: Visit) -> Response:
        form, data = await file_form_of(visit.request, "record", OPENED_BYTES_MAX)
        need_own(visit.request, visit.session, form)
        return await record_views.open_record(visit, data)

    async def _told(self, visit: Visit, work: Callable[[], Awaitable[Response]]) -> Response:
        """The page, or one that says what is wrong, in the frame of the others."""
        try:
            return await work()
        except BrokerGone:
            raise
        except HttpFault as fault:
            status, said = _status(fault), fault.reason
        except OperatorError as error:
            status, said = 400, str(error)
        title = TITLES.get(status, TITLES[400])
        return await visit.page("fault.html", status, status=status, title=title, said=said)

    def _guarded(
        self, work: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """`work`, with the headers of pages, and faults as pages."""

        async def handler(request: Request) -> Response:
            try:
                answer = await work(request)
            except HttpFault as fault:
                answer = _bare_fault(request, _status(fault), fault.reason)
            except OperatorError as error:
                answer = _bare_fault(request, 503, str(error))
            for name, value in HEADERS.items():
                answer.headers.setdefault(name, value)
            return answer

        return handler


def need_same_site(request: Request) -> None:
    """Raises: HttpFault 403 for a form that another site sends."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HttpFault(403, "forbidden", "this form came from another site; open the page here")


def need_own(request: Request, session: Session, form: Form) -> None:
    """Raises: HttpFault 403 for a form that was not made for the login that sends it."""
    need_same_site(request)
    if not session.is_own(form.get("csrf", "")):
        said = "this form is not from your session; load the page again and send it once more"
        raise HttpFault(403, "forbidden", said)


def _status(fault: HttpFault) -> int:
    """RabbitMQ says 401 to those it knows and refuses; browsers would ask for a password."""
    return 403 if fault.status == 401 else fault.status


def _to_login(request: Request, wanted: str) -> Response:
    if request.headers.get("x-live") == "1":
        # The script loads the page anew, and gets there.
        return Response("the session is over", 401, media_type="text/plain")
    return RedirectResponse(address("/login", next="" if wanted == "/" else wanted), 303)


def _login_page(request: Request, wanted: str, said: str = "", status: int = 200) -> Response:
    html = render(
        "login.html",
        wanted=wanted if is_local(wanted) else "/",
        said=said,
        theme=theme_of(request),
    )
    return Response(html, status, media_type="text/html")


def _bare_fault(request: Request, status: int, said: str) -> Response:
    """A fault without a visitor, or without a broker."""
    title = TITLES.get(status, "This did not work")
    html = render("bare_fault.html", title=title, said=said, theme=theme_of(request))
    return Response(html, status, media_type="text/html")


async def _static(request: Request) -> Response:
    name = str(request.path_params["name"])
    if name not in STATIC:
        return Response("no such file", 404, media_type="text/plain")
    headers = {"cache-control": FOR_EVER}
    return Response(static_file(name), media_type=STATIC[name], headers=headers)
