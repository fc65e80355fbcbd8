"""The record that dead letters carry: how often, why and where a message died before.

    x-death: newest first, one entry for each (queue, reason)
        count reason queue time exchange routing-keys [original-expiration]
    x-first-death-queue, -reason, -exchange     of the first death, never changed
    x-last-death-queue, -reason, -exchange      of the newest
A second death in the same queue for the same reason moves its entry to the front and counts it up;
its time stays that of the first. Source: RabbitMQ's rabbit_dead_letter and mc (3.13).
A count goes out as a 64-bit integer, as RabbitMQ's does: Java programs cast it to Long.
"""

from typing import Final

from penstock.protocol.long_integer import LongInteger
from penstock.protocol.timestamp import Timestamp
from penstock.protocol.values import Table, Value

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
