"""Where publishes with the same method bytes go. COMPILED."""

from mypy_extensions import i64

from penstock.base.errors import ConnectionFault
from penstock.broker.actors.lane import Lane
from penstock.protocol.content import Address
from penstock.routing.exchange import Exchange


class Route:
    """Where publishes with the method payload of `address` go, while the router's epoch is `epoch`.

    needs_headers: each publish is routed for itself, by its headers or by who consumes."""

    __slots__ = (
        "address",
        "epoch",
        "exchange",
        "is_immediate",
        "is_mandatory",
        "lanes",
        "needs_headers",
    )

    def __init__(self, address: Address, exchange: Exchange) -> None:
        self.address = address
        self.exchange = exchange
        self.lanes: list[Lane] = []
        self.epoch: i64 = -1
        self.is_immediate = False
        self.is_mandatory = False
        self.needs_headers = False


def short_text(data: bytes, at: i64) -> str:
    """The short string at `at` of a basic.publish. Raises: ConnectionFault 502."""
    end: i64 = len(data)
    start: i64 = at + 1
    stop: i64 = end + 1
    if start <= end:
        stop = start + i64(data[at])
    if stop >= end:
        raise ConnectionFault(502, "malformed arguments of basic.publish", 60, 40)
    try:
        return data[start:stop].decode()
    except UnicodeDecodeError:
        raise ConnectionFault(502, "short string is not valid UTF-8", 60, 40) from None
