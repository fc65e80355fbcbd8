"""What a client session reports: one small class per thing that can happen."""

from dataclasses import dataclass
from typing import TypeAlias

from penstock.base.wire import read_i32_be, read_i64_be
from penstock.protocol.content import Message
from penstock.protocol.methods import Method
from penstock.protocol.properties import Properties, decode_properties
from penstock.protocol.values import Table

_PROPERTIES_AT = 12


class Delivery:
    """A message for a consumer, or the answer to basic.get; decoded only as far as it is asked for.

    channel: its number; delivery_tag: 1..2**63-1; method: payload of basic.deliver or get-ok;
    tag_at: offset of the delivery tag in it, which in a basic.deliver follows the consumer tag.
    """

    __slots__ = ("channel", "delivery_tag", "message", "method", "tag_at")

    def __init__(self, message: Message, tag_at: int) -> None:
        self.channel = int(message.channel)
        self.message = message
        self.method = message.address.method
        self.tag_at = tag_at
        self.delivery_tag = int(read_i64_be(self.method, tag_at))

    @property
    def redelivered(self) -> bool:
        """Whether another consumer may have had it before."""
        return self.method[self.tag_at + 8] & 1 == 1

    @property
    def consumer_tag(self) -> str:
        """The consumer it is for; empty for the answer to basic.get."""
        return self.method[5 : self.tag_at].decode("utf-8", "replace")

    @property
    def exchange(self) -> str:
        """Where it was published; empty for the default exchange."""
        return _short(self.method, self.tag_at + 9)[0]

    @property
    def routing_key(self) -> str:
        """The key it was published with."""
        return _short(self.method, _short(self.method, self.tag_at + 9)[1])[0]

    @property
    def message_count(self) -> int:
        """Messages left in the queue, of the answer to basic.get."""
        return int(read_i32_be(self.method, len(self.method) - 4))

    @property
    def body(self) -> bytes:
        """The body, 0.. bytes."""
        return self.message.body()

    @property
    def properties(self) -> Properties:
        """The properties. Raises: ConnectionFault 502 where they are malformed."""
        return decode_properties(self.message.header(), _PROPERTIES_AT)


@dataclass(frozen=True, slots=True)
class Opened:
    """The connection is open."""

    server_properties: Table


@dataclass(frozen=True, slots=True)
class Replied:
    """The broker answered `request`. `delivery`: only for a basic.get that found a message."""

    channel: int
    request: Method
    reply: Method
    delivery: Delivery | None = None


@dataclass(frozen=True, slots=True)
class ReturnedPublish:
    """A mandatory publish reached no queue and came back."""

    channel: int
    code: int
    text: str
    exchange: str
    routing_key: str
    message: Message


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Publishes were settled. `marks`: what the publisher attached to each of `sequences`."""

    channel: int
    sequences: list[int]
    marks: list[int]
    is_accepted: bool


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The broker ended a consumer: its queue has gone."""

    channel: int
    consumer_tag: str


@dataclass(frozen=True, slots=True)
class FlowChanged:
    """The broker asked to stop or resume publishing on a channel; it has been told yes."""

    channel: int
    is_active: bool


@dataclass(frozen=True, slots=True)
class Blocked:
    """The broker reads no publishes for now, and says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unblocked:
    """The broker reads publishes again."""


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """A channel was closed by the broker, or here because of what it sent; close-ok is not this."""

    channel: int
    code: int
    text: str


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """Nothing more will happen on this connection."""

    code: int
    text: str
    is_by_broker: bool


ClientEvent: TypeAlias = (
    Opened
    | Replied
    | Delivery
    | ReturnedPublish
    | Confirmed
    | Cancelled
    | FlowChanged
    | Blocked
    | Unblocked
    | ChannelClosed
    | ConnectionClosed
)


def _short(data: bytes, at: int) -> tuple[str, int]:
    """The short string at `at` and the offset behind it."""
    stop = at + 1 + (data[at] if at < len(data) else 0)
    return data[at + 1 : stop].decode("utf-8", "replace"), stop
