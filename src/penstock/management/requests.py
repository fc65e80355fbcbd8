"""What every handler gets, and how its answer is written."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from penstock.base.limits import MANAGEMENT_BODY_BYTES
from penstock.management.access import Logins, Visitor
from penstock.management.amqp_writes import AmqpWrites
from penstock.management.broker_link import BrokerLink, Row
from penstock.management.errors import HttpFault, bad_request
from penstock.management.listing import columns_of, field_at, only, shaped

JSON: Final = "application/json"
PIECE_ROWS: Final = 500
"""Of a listing that are written at a time."""


@dataclass(frozen=True, slots=True)
class Services:
    """link: to the broker; logins: who may come in; writes: changes over AMQP; rabbitmq_version:
    what clients that look at versions are told; cluster: to this node's member, None for a broker
    without a cluster."""

    link: BrokerLink
    logins: Logins
    writes: AmqpWrites
    rabbitmq_version: str
    cluster: BrokerLink | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One request of a visitor. path: its variables, decoded."""

    services: Services
    visitor: Visitor
    request: Request

    @property
    def link(self) -> BrokerLink:
        return self.services.link

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query_params

    @property
    def address(self) -> str:
        """Of the client."""
        return address_of(self.request)

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    def vhost(self) -> str:
        """The virtual host of the path, which the visitor sees. Raises: HttpFault 401."""
        vhost = self.path("vhost")
        self.visitor.need_vhost(vhost)
        return vhost

    def visible(self, rows: list[Row], field: str = "vhost") -> list[Row]:
        """Those of virtual hosts that the visitor sees. field: where rows name theirs, a path."""
        if self.visitor.sees_all:
            return rows
        return [row for row in rows if self.visitor.sees(str(field_at(row, field)))]

    async def body(self) -> Row:
        """The JSON object that was sent, {} for nothing. Raises: HttpFault 400, 413."""
        parts = bytearray()
        async for part in self.request.stream():
            parts += part
            if len(parts) > MANAGEMENT_BODY_BYTES.default:
                raise HttpFault(
                    413,
                    "request_too_large",
                    f"the body has more than {MANAGEMENT_BODY_BYTES.default} bytes",
                )
        if not parts.strip():
            return {}
        try:
            found = msgspec.json.decode(bytes(parts))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise HttpFault(400, "not_json", f"the body is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise HttpFault(400, "not_json", "the body is no JSON object")
        return found

    async def change(self, op: str, do: str, **fields: object) -> Row:
        """Ask the broker for a change that operators make; it is in the audit log under the
        visitor's name."""
        answer = await self.link.ask(
            {"op": op, "do": do, **fields, "who": f"{self.visitor.name} over HTTP, {self.address}"}
        )
        self.services.logins.forget()
        self.link.forget()
        return answer

    async def shown(self, rows: list[Row], order: tuple[str, ...] = ("vhost", "name")) -> Response:
        """A listing as the query wants it, in this order unless it names another."""
        return json(await shaped(rows, self.query, order))

    def one(self, row: Row) -> Response:
        """One object, with the columns that are wanted."""
        wanted = columns_of(self.query)
        return json(only(row, wanted) if wanted else row)


Handler = Callable[[Call], Awaitable[Response]]


def json(value: Any, status: int = 200) -> Response:
    """`value` as the answer. A long list is written piece by piece, so that others are answered in
    between and only one piece of it lies in memory as text."""
    if isinstance(value, list) and len(value) > PIECE_ROWS:
        return StreamingResponse(_pieces(value), status, media_type=JSON)
    return Response(msgspec.json.encode(value), status, media_type=JSON)


async def _pieces(rows: list[Any]) -> AsyncIterator[bytes]:
    for start in range(0, len(rows), PIECE_ROWS):
        yield b"," if start else b"["
        yield msgspec.json.encode(rows[start : start + PIECE_ROWS])[1:-1]
        await asyncio.sleep(0)
    yield b"]"


def made(is_new: bool) -> Response:
    """After a PUT: 201 for what is new, 204 for what was there."""
    return Response(status_code=201 if is_new else 204)


def gone() -> Response:
    """After a DELETE."""
    return Response(status_code=204)


def address_of(request: Request) -> str:
    """The address that `request` comes from."""
    return "" if request.client is None else request.client.host


def need_keys(body: Row, *keys: str) -> None:
    """Raises: HttpFault 400 that names every one of `keys` that is not there."""
    missing = [f"{{key_missing,{key}}}" for key in keys if body.get(key) is None]
    if missing:
        raise bad_request("[" + ",".join(missing) + "]")


def text_of(body: Row, key: str, default: str | None = None) -> str:
    """The text `key` of a body. Raises: HttpFault 400."""
    value = body.get(key, default)
    if value is None:
        raise bad_request(f"[{{key_missing,{key}}}]")
    if not isinstance(value, str):
        raise bad_request(f"{key} must be a string, not {msgspec.json.encode(value)[:60]!r}")
    return value


def flag_of(body: Row, key: str, default: bool = False) -> bool:
    """The truth `key` of a body; texts are read as RabbitMQ does. Raises: HttpFault 400."""
    value = body.get(key, default)
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise bad_request(f"not_boolean: {key} must be true or false, not {value!r}")


def number_of(body: Row, key: str, default: int, lowest: int, highest: int) -> int:
    """The number `key` of a body, which may be a text. Raises: HttpFault 400."""
    value = body.get(key, default)
    # Of thousands of digits Python makes no number.
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise bad_request(f"{key} = {str(value)[:40]!r}: must be {lowest}..{highest}")
    return value


def table_of(body: Row, key: str) -> dict[str, Any]:
    """The object `key` of a body, {} for none. Raises: HttpFault 400."""
    value = body.get(key)
    if value is None or value == []:
        return {}
    if not isinstance(value, dict):
        raise bad_request(f"{key} must be an object")
    return value
