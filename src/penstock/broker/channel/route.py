"""A resolved route, and what publishing asks of its surroundings: properties and the channel."""

from mypy_extensions import i64, mypyc_attr

from penstock.base.errors import ConnectionFault
from penstock.broker.actors.lane import Lane
from penstock.protocol.content import Address, Message
from penstock.protocol.values import Table
from penstock.routing.exchange import Exchange


class Route:
    """Where publishes with one method payload go, while the router's epoch is `epoch`.

    needs_headers: each publish is routed for itself, by its headers or by who consumes."""

    __slots__ = (
        "address",
        "epoch",
        "exchange",
        "is_immediate",
        "is_mandatory",
        "lanes",
        "method",
        "needs_headers",
    )

    def __init__(self, method: bytes, address: Address, exchange: Exchange) -> None:
        self.method = method
        self.address = address
        self.exchange = exchange
        self.lanes: list[Lane] = []
        self.epoch: i64 = -1
        self.is_immediate = False
        self.is_mandatory = False
        self.needs_headers = False


@mypyc_attr(allow_interpreted_subclasses=True)
class ContentRules:
    """What a publish's properties ask for beyond routing; see broker/channel/content_rules."""

    __slots__ = ()

    def routing_keys(self, message: Message, key: str) -> list[str]:
        """`key` and the keys of CC and BCC. Raises: ChannelFault 406 on malformed ones."""
        raise NotImplementedError

    def headers(self, message: Message) -> Table:
        """The headers table, empty when there is none. Raises: ConnectionFault 502."""
        raise NotImplementedError

    def checked(self, message: Message) -> Message:
        """`message`, or the one to publish in its stead (direct reply-to).
        Raises: ChannelFault 406 on a bad user-id or expiration."""
        raise NotImplementedError

    def without_bcc(self, message: Message) -> Message:
        """`message` with the BCC header cut out, itself if it has none."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class PublisherHost:
    """What a publisher asks of its channel. Nominal base."""

    __slots__ = ()

    def returned(self, message: Message, code: int, text: str) -> None:
        """Give an unroutable mandatory message back."""
        raise NotImplementedError

    def must_answer(self) -> None:
        """Some publishes can be confirmed."""
        raise NotImplementedError

    def timed(self, queued_ns: i64, joined_ns: i64, sent_ns: i64, done_ns: i64) -> None:
        """How long what is confirmed next took on its way to the disk, see AnswerTimes.synced."""

    def may_resume(self) -> None:
        """A hop opened that something waits for."""
        raise NotImplementedError


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
