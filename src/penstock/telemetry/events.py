"""What happened inside the broker: the event kinds and the records that carry them.

One event per transition (a gate closed, an alarm was set), never one per message. Actors are named
readably: `conn:NAME`, `chan:NAME/1`, `queue:/orders` (vhost and name), `consumer:TAG@conn:NAME`,
`alarm:memory`, `alarm:disk`, `store:/`, `socket:NAME`. This module is compiled.

Events hold only numbers and strings, so they can be in no reference cycle: `acyclic` keeps the ring
of tens of thousands out of the garbage collector's rounds.
"""

from typing import Final

from mypy_extensions import mypyc_attr

GATE_CLOSED: Final = 0
GATE_OPENED: Final = 1
GRANT_DEFERRED: Final = 2
ACTOR_UP: Final = 3
ACTOR_DOWN: Final = 4
ALARM_SET: Final = 5
ALARM_CLEARED: Final = 6
ESCAPE: Final = 7
"""Publishes were admitted past a closed gate so that the acks behind them can be read."""
HOP_STUCK: Final = 8
TIME_SAMPLE: Final = 9
QUEUE_SAMPLE: Final = 10
CONNECTION_SAMPLE: Final = 11
DROPPED: Final = 12
"""Events the reader will never see, because the ring overtook its cursor."""
PARKED: Final = 13
UNPARKED: Final = 14
SETTING_CHANGED: Final = 15
"""A setting was changed while the broker ran; the reason is `BEFORE -> AFTER`."""

KIND_NAMES: Final = (
    "gate_closed",
    "gate_opened",
    "grant_deferred",
    "actor_up",
    "actor_down",
    "alarm_set",
    "alarm_cleared",
    "escape",
    "hop_stuck",
    "time_sample",
    "queue_sample",
    "connection_sample",
    "dropped",
    "parked",
    "unparked",
    "setting_changed",
)
"""The name of each kind, indexed by kind; the names are what event files carry."""

TIME_FIELDS: Final = ("idle_ns", "busy_ns", "blocked_ns", "waiting_ns")
COUNT_FIELDS: Final = (
    "ready", "unacked", "bytes", "published", "delivered", "acked", "consumers"
)  # fmt: skip
"""What a TimeSample and a CountSample have besides, in the order of event files."""


@mypyc_attr(acyclic=True)
class Event:
    """One thing that happened to one actor.

    seq: place in the recorder's order, 0..; t_ns: monotonic nanoseconds; kind: an index into
    KIND_NAMES; actor: whom it happened to; peer: who holds it, or the other end, or "";
    reason: the gate's reason, or ""; amount: by kind, GATE_OPENED nanoseconds this reason was
    closed, GRANT_DEFERRED messages, ESCAPE and PARKED messages, DROPPED events, otherwise 0.
    Never changed after it was recorded.
    """

    __slots__ = ("actor", "amount", "kind", "peer", "reason", "seq", "t_ns")

    def __init__(
        self, seq: int, t_ns: int, kind: int, actor: str, peer: str, reason: str, amount: int
    ) -> None:
        self.seq = seq
        self.t_ns = t_ns
        self.kind = kind
        self.actor = actor
        self.peer = peer
        self.reason = reason
        self.amount = amount

    def plain(self) -> dict[str, int | str]:
        """The event as the object that stands on its line of an event file."""
        return {
            "seq": self.seq,
            "t": self.t_ns,
            "kind": KIND_NAMES[self.kind],
            "actor": self.actor,
            "peer": self.peer,
            "reason": self.reason,
            "amount": self.amount,
        }


@mypyc_attr(acyclic=True)
class TimeSample(Event):
    """TIME_SAMPLE: where the actor's time went since it came up, cumulative nanoseconds."""

    __slots__ = ("blocked_ns", "busy_ns", "idle_ns", "waiting_ns")

    def __init__(
        self,
        seq: int,
        t_ns: int,
        actor: str,
        idle_ns: int,
        busy_ns: int,
        blocked_ns: int,
        waiting_ns: int,
    ) -> None:
        super().__init__(seq, t_ns, TIME_SAMPLE, actor, "", "", 0)
        self.idle_ns = idle_ns
        self.busy_ns = busy_ns
        self.blocked_ns = blocked_ns
        self.waiting_ns = waiting_ns

    def plain(self) -> dict[str, int | str]:
        return _with_numbers(super().plain(), self, TIME_FIELDS)


@mypyc_attr(acyclic=True)
class CountSample(Event):
    """QUEUE_SAMPLE or CONNECTION_SAMPLE: what the actor holds now, and what passed through it.

    ready, unacked: messages now; bytes: of those messages now; published, delivered, acked:
    messages since the actor came up; consumers: now; paged: of the ready messages now, those that
    are on the disk and not in memory.
    """

    __slots__ = (
        "acked", "bytes", "consumers", "delivered", "paged", "published", "ready", "unacked"
    )  # fmt: skip

    def __init__(
        self,
        seq: int,
        t_ns: int,
        kind: int,
        actor: str,
        ready: int,
        unacked: int,
        bytes_held: int,
        published: int,
        delivered: int,
        acked: int,
        consumers: int,
        paged: int = 0,
    ) -> None:
        super().__init__(seq, t_ns, kind, actor, "", "", 0)
        assert kind in (QUEUE_SAMPLE, CONNECTION_SAMPLE), "not a sample of counts"
        self.ready = ready
        self.unacked = unacked
        self.bytes = bytes_held
        self.published = published
        self.delivered = delivered
        self.acked = acked
        self.consumers = consumers
        self.paged = paged

    def plain(self) -> dict[str, int | str]:
        answer = _with_numbers(super().plain(), self, COUNT_FIELDS)
        if self.paged:
            answer["paged"] = self.paged
        return answer


def _with_numbers(
    plain: dict[str, int | str], event: Event, names: tuple[str, ...]
) -> dict[str, int | str]:
    for name in names:
        plain[name] = getattr(event, name)
    return plain


def kind_named(name: str) -> int:
    """The kind called `name` in event files; -1 when there is none."""
    if name in KIND_NAMES:
        return KIND_NAMES.index(name)
    return -1
