"""What clients do to topology, and what they are refused, for a log that says who did what, when
and from where."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from penstock.base.errors import PeerError
from penstock.base.limits import REFUSAL_LINES, REFUSALS_REMEMBERED
from penstock.protocol import methods as m

MINUTE_NS: Final = 60_000_000_000
QUEUE: Final = ("queue",)
EXCHANGE: Final = ("exchange",)
QUEUE_BINDING: Final = ("queue", "exchange", "routing_key")
EXCHANGE_BINDING: Final = ("destination", "source", "routing_key")

AUDITED: Final[Mapping[type[m.Method], tuple[str, tuple[str, ...]]]] = MappingProxyType(
    {
        m.ExchangeDeclare: ("exchange.declare", (*EXCHANGE, "type", "durable")),
        m.ExchangeDelete: ("exchange.delete", EXCHANGE),
        m.ExchangeBind: ("exchange.bind", EXCHANGE_BINDING),
        m.ExchangeUnbind: ("exchange.unbind", EXCHANGE_BINDING),
        m.QueueDeclare: ("queue.declare", (*QUEUE, "durable", "exclusive")),
        m.QueueDelete: ("queue.delete", QUEUE),
        m.QueuePurge: ("queue.purge", QUEUE),
        m.QueueBind: ("queue.bind", QUEUE_BINDING),
        m.QueueUnbind: ("queue.unbind", QUEUE_BINDING),
    }
)
"""What it is called, and which of its fields are written down."""


class Audit:
    """Keeps nothing. Nominal base; the server's writes to a file."""

    __slots__ = ()

    def note(
        self, user: str, address: str, did: str, vhost: str, what: Mapping[str, object]
    ) -> None:
        """`user` has done it, from `address`. vhost: "" for none."""


NO_AUDIT: Final = Audit()


def note_method(
    audit: Audit, user: str, address: str, vhost: str, method: m.Method, last_queue: str
) -> None:
    """A client's method was carried out; passive declarations change nothing. last_queue: the one
    that is meant where the method leaves the name to the broker."""
    found = AUDITED.get(type(method))
    if found is None or audit is NO_AUDIT or getattr(method, "passive", False):
        return
    did, fields = found
    what = {name: getattr(method, name) for name in fields}
    if what.get("queue") == "":
        what["queue"] = last_queue
    audit.note(user, address, did, vhost, what)


class Refusals:
    """What users were refused for want of a right: of one thing the first time, and then every one
    that doubles their number; at most REFUSAL_LINES a minute of one user, whatever names it makes
    up, the rest counted. Bound: REFUSALS_REMEMBERED. Owner: the broker."""

    __slots__ = ("_counts", "_minutes")

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str], int] = {}
        self._minutes: dict[str, _Minute] = {}

    def note(
        self, audit: Audit, user: str, address: str, vhost: str, fault: PeerError, now_ns: int
    ) -> None:
        """`user` was refused something by `fault`, which says what. now_ns: monotonic."""
        if audit is NO_AUDIT:
            return
        operation = f"{fault.class_id}.{fault.method_id}"
        key = (user, operation, fault.text)
        count = self._counts.pop(key, 0) + 1
        self._counts[key] = count
        if len(self._counts) > REFUSALS_REMEMBERED.default:
            del self._counts[next(iter(self._counts))]
        if count & (count - 1) != 0:
            return
        minute = self._minutes.pop(user, None) or _Minute(now_ns)
        self._minutes[user] = minute
        if len(self._minutes) > REFUSALS_REMEMBERED.default:
            del self._minutes[next(iter(self._minutes))]
        if not minute.may_say(now_ns):
            return
        what: dict[str, object] = {
            "code": fault.code, "text": fault.text, "method": operation, "count": count,
        }  # fmt: skip
        if minute.left_out > 0:
            what["left_out"] = minute.left_out
            minute.left_out = 0
        audit.note(user, address, "access refused", vhost, what)


class _Minute:
    """Of one user. began_ns: monotonic; lines: in it; left_out: since the last line."""

    __slots__ = ("began_ns", "left_out", "lines")

    def __init__(self, now_ns: int) -> None:
        self.began_ns = now_ns
        self.lines = 0
        self.left_out = 0

    def may_say(self, now_ns: int) -> bool:
        if now_ns - self.began_ns >= MINUTE_NS:
            self.began_ns = now_ns
            self.lines = 0
        if self.lines >= REFUSAL_LINES.default:
            self.left_out += 1
            return False
        self.lines += 1
        return True
