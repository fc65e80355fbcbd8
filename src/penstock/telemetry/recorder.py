"""The flight recorder: a bounded ring of events that drops the oldest and counts the drops.

The ring never holds anybody up: recording is one object and one store. Readers keep their own
cursors and are told exactly how many events they missed. One event loop owns the recorder; it is
not meant for several threads. This module is compiled.
"""

from penstock.base.clock import Clock
from penstock.telemetry.events import DROPPED, Event


class Recorder:
    """The last `capacity` events of one broker.

    clock: gives each event its monotonic time; capacity: events, 0.. (limit `recorder_events`);
    with 0 nothing is recorded or counted.
    next_seq: the sequence the next event will get, which is also how many were ever recorded;
    dropped: how many of those have left the ring. Both are for reading only.
    """

    __slots__ = ("_capacity", "_clock", "_position", "_ring", "dropped", "next_seq")

    def __init__(self, clock: Clock, capacity: int) -> None:
        assert capacity >= 0, "a recorder holds events or none"
        blank = Event(0, 0, DROPPED, "", "", "", 0)
        self._clock = clock
        self._ring: list[Event] = [blank] * capacity
        self._capacity = capacity
        self._position = 0
        self.next_seq = 0
        self.dropped = 0

    def record(self, kind: int, actor: str, peer: str, reason: str, amount: int) -> None:
        """Keep one event, stamped with the clock's time now. Fields as in Event."""
        if self._capacity == 0:
            return
        self._keep(
            Event(self.next_seq, self._clock.monotonic_ns(), kind, actor, peer, reason, amount)
        )

    def record_at(
        self, t_ns: int, kind: int, actor: str, peer: str, reason: str, amount: int
    ) -> None:
        """Keep one event that happened at `t_ns`, monotonic nanoseconds.

        For a caller that has just given the same time to a BlockLedger: what is summed from the
        events then equals the ledger to the nanosecond, and the clock is not asked twice.
        """
        if self._capacity > 0:
            self._keep(Event(self.next_seq, t_ns, kind, actor, peer, reason, amount))

    def keep(self, event: Event) -> None:
        """Keep an event that was made with `next_seq` and the time now: a sample."""
        if self._capacity > 0:
            self._keep(event)

    @property
    def capacity(self) -> int:
        """Events it keeps at most; 0 if it is switched off."""
        return self._capacity

    def since(self, seq: int, events_max: int = 0) -> list[Event]:
        """The events from sequence `seq` on, oldest first; at most `events_max` unless that is 0.

        When some of them have already left the ring, the first event is a DROPPED whose amount
        says how many and whose seq is that of the last one lost: every reader's events, with
        amount counted for a DROPPED, cover each sequence exactly once. It counts towards
        `events_max`. A `seq` at or past `next_seq` gives nothing. The next cursor is the last
        event's seq + 1.
        """
        assert seq >= 0 and events_max >= 0, "cursors and counts are not negative"
        answer: list[Event] = []
        first = seq
        if first < self.dropped:
            oldest = self._ring[self.dropped % self._capacity]
            lost = self.dropped - first
            answer.append(Event(self.dropped - 1, oldest.t_ns, DROPPED, "", "", "", lost))
            first = self.dropped
        end = self.next_seq
        if events_max > 0:
            end = min(end, first + events_max - len(answer))
        if first >= end:
            return answer
        start_index = first % self._capacity
        end_index = start_index + (end - first)
        answer.extend(self._ring[start_index:end_index])
        if end_index > self._capacity:
            answer.extend(self._ring[: end_index - self._capacity])
        return answer

    def _keep(self, event: Event) -> None:
        position = self._position
        self._ring[position] = event
        position += 1
        if position == self._capacity:
            position = 0
        self._position = position
        self.next_seq += 1
        if self.next_seq > self._capacity:
            self.dropped += 1


class RecorderReader:
    """One reader of a recorder, with a cursor of its own. Starts at the oldest event kept."""

    __slots__ = ("_cursor", "_recorder")

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._cursor = recorder.dropped

    def read(self, events_max: int = 0) -> list[Event]:
        """What was recorded since the last read, as Recorder.since; moves the cursor past it."""
        events = self._recorder.since(self._cursor, events_max)
        if events:
            self._cursor = events[len(events) - 1].seq + 1
        return events
