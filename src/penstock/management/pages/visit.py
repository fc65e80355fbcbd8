"""One request of a browser: who asks, what the API answers him, and the page that is made of it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.types import Message

from penstock.management import missing
from penstock.management.access import Visitor
from penstock.management.broker_link import Row
from penstock.management.errors import HttpFault, bad_request, not_found
from penstock.management.pages.html import render
from penstock.management.pages.opened_records import Records
from penstock.management.pages.samples import History, Samples
from penstock.management.pages.sessions import Session
from penstock.management.requests import Call, Handler, Services

FORM_BYTES_MAX: Final = 1_048_576
FORM_FIELDS_MAX: Final = 64
THEME_COOKIE: Final = "penstock_theme"
LISTED: Final = ("page", "page_size", "name", "use_regex", "sort", "sort_reverse")
"""What the address of a listing may say, as the API's."""
Form = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Shared:
    """What all pages share."""

    services: Services
    samples: Samples
    history: History
    records: Records


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of somebody who has logged in."""

    shared: Shared
    session: Session
    visitor: Visitor
    request: Request

    def asked(self, name: str, default: str = "") -> str:
        """A field of the address."""
        return self.request.query_params.get(name, default)

    async def api(
        self,
        handler: Handler,
        path: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        body: Row | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """What the API's `handler` answers this user, with its checks. path: variables of the
        address, decoded. Raises: HttpFault, OperatorError."""
        # No address of the API has an empty part; to the broker it would mean all of them.
        if any(value == "" for key, value in (path or {}).items() if key != "exchange"):
            raise not_found()
        request = inner_request(self.request, path or {}, query or {}, body, headers or {})
        answer = await handler(Call(self.shared.services, self.visitor, request))
        if isinstance(answer, StreamingResponse):
            pieces = [
                piece.encode() if isinstance(piece, str) else piece
                async for piece in answer.body_iterator
            ]
            return msgspec.json.decode(b"".join(pieces))
        return msgspec.json.decode(answer.body) if answer.body else None

    async def listed(self, handler: Handler, **query: str) -> Row:
        """A page of a listing, as the address of the page wants it."""
        said = {key: self.asked(key) for key in LISTED if self.asked(key) != ""}
        wanted = {"page": "1", "page_size": "100", **said, **query}
        try:
            found: Row = await self.api(handler, query=wanted)
        except HttpFault as fault:
            if fault.error != "page_out_of_range":
                raise
            # Rows went meanwhile.
            found = await self.api(handler, query=wanted | {"page": "1"})
        return found

    async def page(self, template: str, code: int = 200, /, **context: Any) -> Response:
        """A page with the frame that all of them have. code: of HTTP."""
        node = await self.shared.services.link.node()
        html = render(
            template,
            visitor=self.visitor,
            csrf=self.session.csrf,
            flashes=[] if self.is_live else self.session.take_flashes(),
            node=node,
            asked=dict(self.request.query_params),
            here=self.request.url.path,
            theme=theme_of(self.request),
            missing=missing.noted(),
            **context,
        )
        return Response(html, code, media_type="text/html")

    @property
    def is_live(self) -> bool:
        """Whether the script asks for a page that is shown already."""
        return self.request.headers.get("x-live") == "1"


View = Callable[[Visit], Awaitable[Response]]


def inner_request(
    outer: Request,
    path: Mapping[str, str],
    query: Mapping[str, str],
    body: Row | None,
    headers: Mapping[str, str],
) -> Request:
    """A request as the API's handlers want it, from the client of `outer`."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "query_string": urlencode(query).encode(),
        "headers": [
            (key.encode("latin-1"), value.encode("utf-8", "replace"))
            for key, value in headers.items()
        ],
        "path_params": dict(path),
        "client": outer.scope.get("client"),
    }
    content = b"" if body is None else msgspec.json.encode(body)

    async def receive() -> Message:
        return {"type": "http.request", "body": content, "more_body": False}

    return Request(scope, receive)


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form; of one that is there twice, the last. Raises: HttpFault 400, 413."""
    parts = bytearray()
    async for part in request.stream():
        parts += part
        if len(parts) > FORM_BYTES_MAX:
            raise HttpFault(413, "request_too_large", f"a form has at most {FORM_BYTES_MAX} bytes")
    try:
        return dict(
            parse_qsl(
                parts.decode("ascii"),
                keep_blank_values=True,
                max_num_fields=FORM_FIELDS_MAX,
                errors="strict",
            )
        )
    except ValueError as error:
        raise bad_request("this is no form") from error


async def file_form_of(request: Request, name: str, most: int) -> tuple[dict[str, str], bytes]:
    """The fields of a form, and the file `name` in it, of `most` bytes. Raises: HttpFault 400,
    411, 413."""
    length = request.headers.get("content-length", "")
    if not length.isascii() or not length.isdecimal():
        raise HttpFault(411, "length_required", "a form with a file says how long it is")
    if int(length) > most + FORM_BYTES_MAX:
        raise HttpFault(413, "request_too_large", f"{name}: a file has at most {most} bytes")
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise bad_request("this is no form with a file")
    try:
        async with request.form(max_files=1, max_fields=FORM_FIELDS_MAX) as form:
            fields = {key: value for key, value in form.items() if isinstance(value, str)}
            file = form.get(name)
            data = b"" if file is None or isinstance(file, str) else await file.read(most + 1)
    except HTTPException as error:
        raise bad_request(f"this is no form: {error.detail}") from error
    if len(data) > most:
        raise HttpFault(413, "request_too_large", f"{name}: a file has at most {most} bytes")
    return fields, data


def object_in(form: Form, key: str) -> Row:
    """A JSON object that was written into a field, {} for an empty one. Raises: HttpFault 400."""
    text = form.get(key, "").strip()
    if text == "":
        return {}
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"{key} {text[:80]!r} is no JSON object: {error}") from error
    if not isinstance(found, dict):
        raise bad_request(f'{key} {text[:80]!r} is no JSON object; write {{"KEY": VALUE}}')
    return found


def whole_in(form: Form, key: str) -> int:
    """A whole number in a field. Raises: HttpFault 400."""
    text = form.get(key, "").strip()
    try:
        return int(text)
    except ValueError as error:
        raise bad_request(f"{key} {text[:40]!r} is no whole number") from error


def theme_of(request: Request) -> str:
    """What the person has chosen: light, dark, or "" for what the system says."""
    found = request.cookies.get(THEME_COOKIE, "")
    return found if found in ("light", "dark") else ""


def local_address(request: Request) -> str:
    """The address of this page, without the host."""
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def is_local(address: str) -> bool:
    """Whether `address` leads to a page of ours, and to no other host."""
    return (
        address.startswith("/")
        and not address.startswith("//")
        and "\\" not in address
        and address.isprintable()
        and address.isascii()
    )


def goto(address: str) -> Response:
    """After a form: the browser gets `address`."""
    return RedirectResponse(address if is_local(address) else "/", status_code=303)
