"""From a message that died to the one that is published in its stead, whose headers say how.

Only the headers that tell of deaths are decoded and written anew; every other property and header
stays as the publisher encoded it, to the byte. A record of deaths counts where the broker wrote it:
what a publisher says of deaths is not believed, and goes with the first true one (RabbitMQ 4). A
profile of an older RabbitMQ counts on from it.
Source: RabbitMQ's rabbit_dead_letter (make_msg) and mc (3.13).

    x-death: newest first, one entry for each (queue, reason)
        count reason queue time exchange routing-keys [original-expiration]
    x-first-death-queue, -reason, -exchange     of the first death, never changed
    x-last-death-queue, -reason, -exchange      of the newest
A second death in the same queue for the same reason moves its entry to the front and counts it up;
its time stays that of the first. A count goes out as a 64-bit integer, as RabbitMQ's does: Java
programs cast it to Long.
"""

from typing import Final

from mypy_extensions import i64

from penstock.protocol.content import Message, dead_letter, is_dead_letter
from penstock.protocol.integers import LongInteger, Timestamp
from penstock.protocol.property_lookup import (
    EXPIRATION,
    HEADERS,
    PROPERTIES_OFFSET,
    expiration,
    headers_table_span,
    replace_property,
)
from penstock.protocol.values import Table, Value, encode_table, read_field, remove_field
from penstock.queues.rules import DROP_NAMES

NO_HEADERS: Final = b"\x00\x00\x00\x00"
CC: Final = "CC"


class Obituary:
    """A dead letter with what its way depends on. keys: its routing keys, CC's behind the first;
    deaths: the headers that tell of deaths, this one included. A delayed message that is released
    has one without deaths, and is a dead letter only if it was one before."""

    __slots__ = ("deaths", "keys", "message")

    def __init__(self, message: Message, keys: list[str], deaths: Table) -> None:
        self.message = message
        self.keys = keys
        self.deaths = deaths


def obituary(
    message: Message,
    queue: str,
    reason: str,
    time_s: int,
    routing_key: str | None,
    believes_all: bool = False,
) -> Obituary:
    """What to publish for `message`, which died in `queue` for `reason` (rules.DROP_NAMES).

    time_s: wall clock; routing_key: the queue's dead-letter-routing-key, which takes the place of
    all its keys and of CC; None keeps them. The expiration goes, so that it does not die at once
    where it comes to. Its address is not set. believes_all: deaths that a publisher tells of count,
    not only those that the broker wrote. Raises: ConnectionFault 502 on headers that were
    never sound."""
    header = message.header()
    span = headers_table_span(header, PROPERTIES_OFFSET)
    table = NO_HEADERS if span is None else header[span[0] : span[1]]
    copies = read_field(table, 0, len(table), CC) if table.find(b"\x02CC") >= 0 else None
    keys = [message.address.routing_key]
    if isinstance(copies, list):
        keys.extend(one for one in copies if isinstance(one, str))
    lifetime = expiration(header, PROPERTIES_OFFSET)
    death = Death(
        queue, reason, time_s, message.address.exchange, keys, "" if lifetime is None else lifetime
    )
    before: Table = {}
    if table.find(b"-death") >= 0:
        for name in DEATH_HEADERS:
            if believes_all or is_dead_letter(message):
                value = read_field(table, 0, len(table), name)
                if value is not None:
                    before[name] = value
            table = remove_field(table, name)
    deaths = with_death(before, death)
    if routing_key is not None:
        keys = [routing_key]
        if copies is not None:
            table = remove_field(table, CC)
    fields = table[4:] + encode_table(deaths)[4:]
    header = replace_property(header, HEADERS, len(fields).to_bytes(4, "big") + fields)
    if lifetime is not None:
        header = replace_property(header, EXPIRATION, None)
    return Obituary(_with_header(message, header), keys, deaths)


def _with_header(message: Message, header: bytes) -> Message:
    """The body frames of `message` behind another header payload."""
    letter = dead_letter(reframed(message, header), message.body_bytes)
    letter.origin = message.origin
    return letter


def reframed(message: Message, header: bytes) -> bytes:
    """The frames of `message` with the payload `header` in place of its content header's."""
    raw = message.raw
    return b"".join(
        (
            raw[:3],
            len(header).to_bytes(4, "big"),
            header,
            b"\xce",
            raw[int(message.header_bytes) + 8 :],
        )
    )


DEATHS: Final = "x-death"
DEATH_HEADERS: Final = (
    DEATHS,
    "x-first-death-queue",
    "x-first-death-reason",
    "x-first-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
    "x-last-death-exchange",
)
REJECTED: Final = "rejected"
COUNT_MIN: Final = -(1 << 63)
COUNT_MAX: Final = (1 << 63) - 1


class Death:
    """One death. queue: where; reason: rules.DROP_NAMES; time_s: wall clock, seconds since 1970;
    exchange, keys: what the message was published to, CC included; expiration: its own lifetime as
    the publisher wrote it, "" for none."""

    __slots__ = ("exchange", "expiration", "keys", "queue", "reason", "time_s")

    def __init__(
        self,
        queue: str,
        reason: str,
        time_s: int,
        exchange: str,
        keys: list[str],
        expiration: str,
    ) -> None:
        self.queue = queue
        self.reason = reason
        self.time_s = time_s
        self.exchange = exchange
        self.keys = keys
        self.expiration = expiration


def with_death(headers: Table, death: Death) -> Table:
    """`headers` with `death` on record; the argument is not changed."""
    entry: Table = {
        "count": LongInteger(1),
        "reason": death.reason,
        "queue": death.queue,
        "time": Timestamp(death.time_s),
        "exchange": death.exchange,
        "routing-keys": list[Value](death.keys),
    }
    if death.expiration != "":
        entry["original-expiration"] = death.expiration
    others: list[Value] = []
    for old in deaths_of(headers):
        if old.get("queue") == death.queue and old.get("reason") == death.reason:
            entry = dict(old)
            entry["count"] = _counted(old.get("count"), 1)
        else:
            # A count was read as a plain int.
            kept = dict(old)
            if "count" in old:
                kept["count"] = _counted(old["count"], 0)
            others.append(kept)
    answer = dict(headers)
    answer[DEATHS] = [entry, *others]
    for name, value in (
        ("queue", death.queue),
        ("reason", death.reason),
        ("exchange", death.exchange),
    ):
        if DEATHS not in headers:
            answer.setdefault(f"x-first-death-{name}", value)
        answer[f"x-last-death-{name}"] = value
    return answer


def _counted(count: Value, more: int) -> LongInteger:
    """`count` and `more`. A publisher may have written it: what is no number counts as none."""
    before = count if isinstance(count, int) else 0
    return LongInteger(max(COUNT_MIN, min(COUNT_MAX, before + more)))


def deaths_of(headers: Table) -> list[Table]:
    """The entries of x-death, newest first; what is not one is passed over."""
    value = headers.get(DEATHS)
    if not isinstance(value, list):
        return []
    return [one for one in value if isinstance(one, dict)]


def is_cycle(queue: str, headers: Table) -> bool:
    """Whether a dead letter with `headers` has been in `queue` before and got round to it by
    itself: no death since, nor the one in `queue`, was a consumer's rejection."""
    for death in deaths_of(headers):
        if death.get("reason") == REJECTED:
            return False
        if death.get("queue") == queue:
            return True
    return False


LOST_CYCLE: Final = 0
LOST_NO_EXCHANGE: Final = 1
LOST_NO_ROUTE: Final = 2
LOST_REFUSED: Final = 3
LOST_OVERFLOW: Final = 4
LOST_MALFORMED: Final = 5
LOST_DELETED: Final = 6
LOST_NAMES: Final = (
    "cycle",
    "no exchange",
    "no route",
    "refused",
    "overflow",
    "malformed",
    "deleted",
)
"""Why a dead letter went nowhere: it came back to where it had died; it found no way; one copy of
it was refused by a queue that was full or has gone; too many waited; its headers were never sound;
the queue where it waited for confirms was deleted."""


class LetterCounts:
    """sent: dead letters that some queue has or will have, by rules.REASON_*; lost: by LOST_*;
    escapes: that went into a queue that did not want them, to break a ring."""

    __slots__ = ("escapes", "lost", "sent")

    def __init__(self) -> None:
        self.sent: list[int] = [0] * len(DROP_NAMES)
        self.lost: list[int] = [0] * len(LOST_NAMES)
        self.escapes: i64 = 0

    def numbers(self) -> dict[str, float]:
        """By name, those that are 0 left out."""
        found: dict[str, float] = {}
        for prefix, names, counts in (
            ("dead_lettered:", DROP_NAMES, self.sent),
            ("dead_letter_dropped:", LOST_NAMES, self.lost),
        ):
            for index in range(len(counts)):
                if counts[index] > 0:
                    found[prefix + names[index]] = float(counts[index])
        if self.escapes > 0:
            found["dead_letter_escapes"] = float(self.escapes)
        return found
