"""A person with a browser, without the browser: cookies, redirects as they come, and forms."""

import html
import re
import time
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPResponse
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import urlencode
from urllib.request import (
    HTTPCookieProcessor,
    HTTPErrorProcessor,
    OpenerDirector,
    Request,
    build_opener,
)

from tests.patience import PATIENCE_S


@dataclass(frozen=True, slots=True)
class Page:
    """What came. text: as it was sent, with markup."""

    status: int
    headers: Message
    text: str

    @property
    def data(self) -> bytes:
        """A file, as it was sent."""
        return self.text.encode("utf-8", "surrogateescape")

    @property
    def location(self) -> str:
        return str(self.headers.get("location", ""))

    @property
    def flash(self) -> str:
        """What the page says of what was just done."""
        found = re.findall(r'<p class="flash[^>]*>(.*?)</p>', self.text, re.S)
        return html.unescape(" ".join(found))

    @property
    def csrf(self) -> str:
        """What its forms carry."""
        return str(re.findall(r'name="csrf" value="([^"]*)"', self.text)[0])


class _AsItComes(HTTPErrorProcessor):
    """Redirects and errors are answers like others."""

    def http_response(self, request: Request, response: HTTPResponse) -> HTTPResponse:
        return response

    https_response: Any = http_response


class Person:
    """base: address of the pages."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.cookies = CookieJar()
        self._opener: OpenerDirector = build_opener(HTTPCookieProcessor(self.cookies), _AsItComes())

    def get(self, path: str, **headers: str) -> Page:
        return self._ask(path, None, headers)

    def wait_for(self, path: str, text: str) -> Page:
        """The page once `text` stands on it; what it shows is a second old at most."""
        end = time.monotonic() + PATIENCE_S
        while text not in (page := self.get(path)).text:
            assert time.monotonic() < end, f"no {text!r} on {path}: {page.text}"
            time.sleep(0.05)
        return page

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Page:
        return self._ask(path, urlencode(fields).encode(), headers)

    def raw(self, path: str, body: bytes) -> Page:
        """A form that is none, perhaps."""
        return self._ask(path, body, {})

    def send(self, path: str, body: bytes, kind: str) -> Page:
        """A form of another kind, as one with a file."""
        return self._ask(path, body, {"content-type": kind})

    def _ask(self, path: str, body: bytes | None, headers: dict[str, str]) -> Page:
        said = {key.replace("_", "-"): value for key, value in headers.items()}
        request = Request(self.base + path, body, said)
        with self._opener.open(request, timeout=PATIENCE_S) as answer:
            return Page(
                answer.status, answer.headers, answer.read().decode("utf-8", "surrogateescape")
            )

    def log_in(self, user: str = "guest", password: str = "guest", **more: str) -> Page:
        return self.post("/login", {"user": user, "password": password, **more})

    def do(self, action: str, **fields: str) -> Page:
        """Send a form as it stands on a page, and go where it leads."""
        token = self.get("/").csrf
        answer = self.post(f"/do/{action}", {"csrf": token, **fields})
        return self.get(answer.location) if answer.status == 303 else answer
