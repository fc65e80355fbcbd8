"""When the flight recorder keeps a copy by itself: an alarm, or many publishers throttled.

    alarm       it was not set in the round before
    throttled   more than THROTTLED_MANY of the publishers are throttled, in every round for LASTING
A trouble is copied once: it must have been over in between, and COOL_DOWN must have passed since
the last copy, or a broker that is always on the edge would do nothing else.
"""

from typing import Final

from penstock.explain.explanation import THROTTLED_SHARE
from penstock.telemetry.snapshots import ActorSnapshot

THROTTLED_MANY: Final = 0.3
LASTING_NS: Final = 10_000_000_000
COOL_DOWN_NS: Final = 60_000_000_000


class Freezer:
    """Sees every snapshot of every round, and says at its end whether to keep a copy."""

    def __init__(self) -> None:
        self._before: dict[str, ActorSnapshot] = {}
        self._now: dict[str, ActorSnapshot] = {}
        self._publishers = 0
        self._throttled = 0
        self._alarms: set[str] = set()
        self._alarms_before: set[str] = set()
        self._many_since_ns: int | None = None
        self._is_many_copied = False
        self._copied_ns: int | None = None

    def take(self, snapshot: ActorSnapshot) -> None:
        """One actor of this round."""
        if snapshot.kind == "alarm":
            self._alarms.add(snapshot.actor)
        elif snapshot.kind == "conn":
            self._now[snapshot.actor] = snapshot
            # Here and not at the end, which is one step however many connections there are.
            self._count(self._before.pop(snapshot.actor, None), snapshot)

    def end(self, now_ns: int) -> str:
        """The round that began at `now_ns` is complete: why to keep a copy, "" for not."""
        rung = sorted(self._alarms - self._alarms_before)
        publishers, throttled = self._publishers, self._throttled
        self._publishers = self._throttled = 0
        self._before, self._now = self._now, {}
        self._alarms_before, self._alarms = self._alarms, set()
        why = self._long_throttled(now_ns, publishers, throttled)
        if rung:
            why = f"{rung[0].removeprefix('alarm:')} alarm"
        is_cooling = self._copied_ns is not None and now_ns - self._copied_ns < COOL_DOWN_NS
        if why == "" or is_cooling:
            return ""
        self._copied_ns = now_ns
        self._is_many_copied = self._many_since_ns is not None
        return why

    def _count(self, before: ActorSnapshot | None, now: ActorSnapshot) -> None:
        """Count a connection that published or was held since the round before, and whether it was
        throttled."""
        if before is None or before.taken_ns >= now.taken_ns:
            return
        held_ns = now.blocked.blocked_ns - before.blocked.blocked_ns
        if held_ns < 0 or (held_ns == 0 and _published(now) <= _published(before)):
            return
        self._publishers += 1
        if held_ns >= THROTTLED_SHARE * (now.taken_ns - before.taken_ns):
            self._throttled += 1

    def _long_throttled(self, now_ns: int, publishers: int, throttled: int) -> str:
        if publishers == 0 or throttled <= THROTTLED_MANY * publishers:
            self._many_since_ns = None
            self._is_many_copied = False
            return ""
        if self._many_since_ns is None:
            self._many_since_ns = now_ns
        if self._is_many_copied or now_ns - self._many_since_ns < LASTING_NS:
            return ""
        return f"{throttled} of {publishers} publishers throttled for 10 s"


def _published(connection: ActorSnapshot) -> float:
    return connection.numbers.get("published", 0.0)
