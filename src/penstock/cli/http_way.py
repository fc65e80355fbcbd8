"""The way to a broker over HTTP: its address, who logs in, and one request after the other.

User and password: --login, PENSTOCK_USER and PENSTOCK_PASSWORD, or ~/.config/penstock/client.toml,
readable by its owner alone; a password that is nowhere is asked for.

    ["https://broker.example:15672"]
    user = "anna"    password = "..."    ca = "/etc/ssl/company.pem"
"""

import os
import ssl
import tomllib
from base64 import b64encode
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import click
import msgspec

from penstock.base.errors import OperatorError
from penstock.cli.prompts import secret_from
from penstock.cli.way import MissingError
from penstock.server.control.control_client import not_utf8

TIMEOUT_S: Final = 130.0
PORT: Final = 15_672
NOT_FOUND: Final = 404
UNAUTHORISED: Final = 401
NOUNS: Final = {
    "bindings": "binding",
    "connections": "connection",
    "exchanges": "exchange",
    "operator-policies": "operator policy",
    "permissions": "permissions of user",
    "policies": "policy",
    "queues": "queue",
    "topic-permissions": "topic permissions of user",
    "users": "user",
    "vhosts": "vhost",
}
OF_VHOSTS: Final = frozenset(NOUNS) - {"connections", "users", "vhosts"}
"""What is asked for by virtual host, and by name in it."""


class HttpWay:
    """scheme: http or https; host, port: where; user, password: who; ca: PEM file, "" for the
    system's authorities."""

    def __init__(
        self, scheme: str, host: str, port: int, user: str, password: str, ca: str = ""
    ) -> None:
        self.url = f"{scheme}://{host}:{port}"
        self._connection = HTTPConnection(host, port, timeout=TIMEOUT_S)
        if scheme == "https":
            try:
                context = ssl.create_default_context(cafile=ca or None)
            except OSError as error:
                raise OperatorError(f"cannot read --ca {ca}: {error.strerror or error}") from error
            self._connection = HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
        pair = b64encode(f"{user}:{password}".encode()).decode()
        self._headers = {"authorization": f"Basic {pair}", "content-type": "application/json"}
        self._user = user

    def call(
        self,
        method: str,
        path: tuple[str, ...],
        query: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
        reason: str = "",
    ) -> Any:
        """What it answers, None for nothing. path: segments below /api, as they are; reason: sent
        as x-reason. Raises: OperatorError with the broker's words."""
        if "" in path:
            raise OperatorError("a name is empty, and there is nothing without a name")
        try:
            where = "/api/" + "/".join(quote(one, safe="") for one in path)
            if query:
                where += f"?{urlencode(query)}"
            data = None if body is None else msgspec.json.encode(body)
            # As bytes: text in a header may have Latin-1 only.
            said = " ".join(reason.split()).encode()
            headers = self._headers | ({"x-reason": said} if said else {})
        except UnicodeEncodeError as error:
            raise OperatorError(not_utf8(error)) from error
        try:
            self._connection.request(method, where, data, headers)
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, HTTPException, UnicodeError) as error:
            self._connection.close()
            raise OperatorError(self._why_not(error)) from error
        if answer.status >= 400:
            raise OperatorError(self._refusal(answer.status, text, path))
        try:
            return msgspec.json.decode(text) if text.strip() else None
        except msgspec.DecodeError as error:
            raise OperatorError(f"{self.url} does not answer as Penstock does") from error

    def close(self) -> None:
        """No more requests."""
        self._connection.close()

    def is_there(self, *path: str) -> bool:
        """Whether there is something at `path`. Raises: OperatorError."""
        try:
            self.call("GET", path)
        except MissingError:
            return False
        return True

    def _refusal(self, status: int, text: bytes, path: tuple[str, ...]) -> str:
        try:
            said = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError:
            said = {}
        reason = str(said.get("reason", ""))
        if status == UNAUTHORISED:
            return f"{self.url} refuses user '{self._user}': {reason or 'login refused'}"
        if status == NOT_FOUND:
            if reason not in ("", "Not Found"):
                raise MissingError(reason)
            if path[0] == "flow":
                raise MissingError(
                    f"{self.url} has no /api/{'/'.join(path)}: it is another broker than Penstock"
                )
            raise MissingError(_missing(path))
        return reason or f"{self.url} answers with status {status}"

    def _why_not(self, error: Exception) -> str:
        why = str(getattr(error, "strerror", "") or error or type(error).__name__)
        if isinstance(error, ssl.SSLCertVerificationError):
            why = f"its certificate is not accepted: {error.verify_message}; give --ca FILE"
        elif isinstance(error, ssl.SSLError):
            why = f"TLS failed ({error.reason}); is it http:// there?"
        elif isinstance(error, ConnectionRefusedError):
            why = "connection refused; is `penstock serve --management` running there?"
        return f"no broker answers at {self.url}: {why}"


def _missing(path: tuple[str, ...]) -> str:
    """What is not there, as the control socket says it."""
    kind = NOUNS.get(path[0], path[0].replace("-", " "))
    if path[0] not in OF_VHOSTS:
        return f"no {kind} '{path[1]}'" if len(path) > 1 else f"no {kind}"
    if len(path) == 2:
        return f"no vhost '{path[1]}'"
    return f"no {kind} '{path[2]}' in vhost '{path[1]}', or no such vhost"


def way_to(url: str, login: str, ca: str) -> HttpWay:
    """Raises: OperatorError."""
    try:
        parts = urlsplit(url if "//" in url else f"https://{url}")
        port = parts.port
    except ValueError as error:
        raise OperatorError(f"--url {url!r}: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OperatorError(f"--url {url!r} is no address; write https://HOST:15672")
    if parts.password is not None:
        raise OperatorError(
            "a password in --url can be read by everybody on this machine; leave it out, and set "
            "PENSTOCK_PASSWORD, write ~/.config/penstock/client.toml, or type it"
        )
    port = PORT if port is None else port
    known = _known(f"{parts.scheme}://{parts.hostname}:{port}")
    user = login or parts.username or os.environ.get("PENSTOCK_USER", "") or known.get("user", "")
    if not user:
        user = _typed_user()
    password = os.environ.get("PENSTOCK_PASSWORD", "")
    if not password and known.get("user", user) == user:
        password = known.get("password", "")
    if not password:
        password = secret_from(f"password of {user}")
    ca = ca or known.get("ca", "")
    way = HttpWay(parts.scheme, parts.hostname, port, user, password, ca)
    click.get_current_context().call_on_close(way.close)
    return way


def _typed_user() -> str:
    """Raises: OperatorError where nobody is there to type it."""
    try:
        return str(click.prompt("user", err=True))
    except click.Abort as error:
        raise OperatorError(
            "nobody is named who logs in there: give --login USER, set PENSTOCK_USER, or write "
            "~/.config/penstock/client.toml"
        ) from error


def _known(address: str) -> dict[str, str]:
    """What client.toml has about `address`. Raises: OperatorError."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    path = Path(base) / "penstock" / "client.toml"
    try:
        data = path.read_bytes()
        mode = path.stat().st_mode
    except OSError:
        return {}
    try:
        rows = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OperatorError(f"{path} is not TOML: {error}") from error
    for key, row in rows.items():
        if key.rstrip("/") == address and isinstance(row, dict):
            if "password" in row and mode & 0o077:
                raise OperatorError(
                    f"{path} holds a password, and others may read it: chmod 600 {path}"
                )
            return {name: str(value) for name, value in row.items()}
    return {}
