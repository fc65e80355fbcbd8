"""Puts consumers on record, and when they are given nothing: they have no gate that would do it.

A gate writes an event when it closes. A consumer only shows in its snapshot that its window is full
or its socket is not taken, and for how long that has been so in all. What is written here follows
from two snapshots of one consumer: lengths are exact, and the place of a hold that began and ended
between the two is known as exactly as rounds are frequent, once a second in a running broker. The
event of a beginning is dated back to it. The peer is the consumer's socket, or its application.
"""

from typing import Final

from penstock.base.limits import CONNECTIONS_MAX
from penstock.telemetry.events import ACTOR_DOWN, ACTOR_UP, GATE_CLOSED, GATE_OPENED
from penstock.telemetry.recorder import Recorder
from penstock.telemetry.snapshots import ActorSnapshot

REASONS: Final = {
    "prefetch": "prefetch",
    "channel prefetch": "prefetch",
    "unsent": "socket",
    "socket": "socket",
    "client_flow": "client_flow",
}
"""Why a consumer is held, as its snapshot says it -> as events say it. Standing by is no hold."""

KNOWN_MAX: Final = CONNECTIONS_MAX.default
"""Consumers that are remembered from round to round; holds of those beyond are not on record."""


class Known:
    """What the round before said of one consumer. reason: "" while it is not held; since_ns: of the
    hold that runs; held_ns: in all; taken_ns: when it was looked at; is_seen: this round."""

    __slots__ = ("held_ns", "is_seen", "reason", "since_ns", "taken_ns")

    def __init__(self) -> None:
        self.reason = ""
        self.since_ns = 0
        self.held_ns = 0
        self.taken_ns = 0
        self.is_seen = True


class ConsumerHolds:
    """Compares each round of snapshots with the one before. Owner: the event file."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: dict[str, Known] = {}

    def take(self, one: ActorSnapshot) -> None:
        """One snapshot of a round; the node's is the last of each."""
        if one.kind == "node":
            self._end_round(one.taken_ns)
        elif one.actor.startswith("consumer:"):
            known = self._known.get(one.actor)
            if known is None:
                if len(self._known) == KNOWN_MAX:
                    return
                known = self._known[one.actor] = Known()
                # Says whose consumer it is: those who hold a queue are found by it.
                self._recorder.record_at(
                    one.taken_ns, ACTOR_UP, one.actor, one.labels.get("queue", ""), "", 0
                )
            known.is_seen = True
            self._compare(one, known)

    def _end_round(self, now_ns: int) -> None:
        gone = [actor for actor, known in self._known.items() if not known.is_seen]
        for actor in gone:
            del self._known[actor]
            self._recorder.record_at(now_ns, ACTOR_DOWN, actor, "", "", 0)
        for known in self._known.values():
            known.is_seen = False

    def _compare(self, one: ActorSnapshot, known: Known) -> None:
        reason = REASONS.get(one.labels.get("held_by", ""), "")
        held_ns = int(one.numbers.get("held_ns", 0.0))
        fresh_ns = max(0, held_ns - known.held_ns)
        ended_ns = min(one.taken_ns, known.taken_ns + fresh_ns)
        known.held_ns, known.taken_ns = held_ns, one.taken_ns
        if known.reason == reason:
            if reason == "" and fresh_ns > 0:
                # Why is not known any more; nearly always it is the window.
                self._close(one, known, "prefetch", one.taken_ns - fresh_ns)
                self._open(one, known, one.taken_ns)
            return
        if known.reason:
            self._open(one, known, ended_ns)
            fresh_ns = one.taken_ns - ended_ns
        if reason:
            self._close(one, known, reason, one.taken_ns - fresh_ns)

    def _close(self, one: ActorSnapshot, known: Known, reason: str, since_ns: int) -> None:
        actor = one.actor
        known.reason, known.since_ns = reason, since_ns
        self._recorder.record_at(since_ns, GATE_CLOSED, actor, _peer(actor, reason), reason, 0)

    def _open(self, one: ActorSnapshot, known: Known, ended_ns: int) -> None:
        actor, reason = one.actor, known.reason
        known.reason = ""
        self._recorder.record_at(
            ended_ns,
            GATE_OPENED,
            actor,
            _peer(actor, reason),
            reason,
            max(0, ended_ns - known.since_ns),
        )


def _peer(actor: str, reason: str) -> str:
    """`consumer:TAG@conn:NAME` -> `client:NAME` or `socket:NAME`; a tag may contain an @."""
    kind = "socket:" if reason == "socket" else "client:"
    return kind + actor.rpartition("@conn:")[2]
