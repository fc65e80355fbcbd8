"""The recorder: every reader sees each sequence once, or is told that it was dropped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.clock import ManualClock
from penstock.telemetry.events import (
    DROPPED,
    GATE_CLOSED,
    GATE_OPENED,
    Event,
    TimeSample,
)
from penstock.telemetry.recorder import Recorder, RecorderReader


def fill(recorder: Recorder, count: int) -> None:
    for number in range(count):
        recorder.record(GATE_CLOSED, f"chan:{number}", "queue:/a", "credit", number)


def covered(events: list[Event], cursor: int) -> int:
    """Check that the events go on from `cursor` without gap or repetition; the next cursor."""
    for event in events:
        if event.kind == DROPPED:
            assert event.seq == cursor + event.amount - 1
        else:
            assert event.seq == cursor
        cursor = event.seq + 1
    return cursor


@given(st.integers(1, 7), st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5))))
def test_a_reader_misses_nothing_without_being_told(
    capacity: int, rounds: list[tuple[int, int]]
) -> None:
    clock = ManualClock()
    recorder = Recorder(clock, capacity)
    reader = RecorderReader(recorder)
    cursor = total = 0
    for count, events_max in rounds:
        fill(recorder, count)
        total += count
        clock.advance(1)
        assert recorder.next_seq == total
        assert recorder.dropped == max(0, total - capacity)
        events = reader.read(events_max)
        assert events_max == 0 or len(events) <= events_max
        assert events_max != 0 or covered(events, cursor) == total
        assert all(e.kind != DROPPED for e in events[1:]), "drops are told first"
        times = [event.t_ns for event in events]
        assert times == sorted(times)
        cursor = covered(events, cursor)
    assert covered(reader.read(), cursor) == total
    assert reader.read() == []


@given(st.integers(1, 5), st.integers(0, 12), st.integers(0, 15))
def test_since_gives_what_is_kept_from_there_on(capacity: int, count: int, seq: int) -> None:
    recorder = Recorder(ManualClock(), capacity)
    fill(recorder, count)
    events = recorder.since(seq)
    kept = [event for event in events if event.kind != DROPPED]
    assert [event.amount for event in kept] == list(range(max(seq, recorder.dropped), count))
    told = sum(event.amount for event in events if event.kind == DROPPED)
    assert told == max(0, recorder.dropped - seq)


def test_readers_do_not_disturb_one_another() -> None:
    recorder = Recorder(ManualClock(), 4)
    first, second = RecorderReader(recorder), RecorderReader(recorder)
    fill(recorder, 3)
    assert len(first.read()) == 3
    fill(recorder, 3)
    assert [event.seq for event in first.read()] == [3, 4, 5]
    told = second.read()[0]
    assert (told.kind, told.seq, told.amount) == (DROPPED, 1, 2)


def test_a_late_reader_starts_at_the_oldest_event_without_a_drop() -> None:
    recorder = Recorder(ManualClock(), 2)
    fill(recorder, 5)
    assert [event.seq for event in RecorderReader(recorder).read()] == [3, 4]


def test_an_event_keeps_its_time_and_fields() -> None:
    clock = ManualClock(50)
    recorder = Recorder(clock, 8)
    recorder.record(GATE_CLOSED, "chan:web/1", "queue:/a", "credit", 0)
    clock.advance(10)
    recorder.record_at(55, GATE_OPENED, "chan:web/1", "queue:/a", "credit", 5)
    recorder.keep(TimeSample(recorder.next_seq, 60, "queue:/a", 1, 2, 3, 4))
    events = recorder.since(0)
    assert [event.t_ns for event in events] == [50, 55, 60]
    assert events[1].plain() == {
        "seq": 1,
        "t": 55,
        "kind": "gate_opened",
        "actor": "chan:web/1",
        "peer": "queue:/a",
        "reason": "credit",
        "amount": 5,
    }
    assert events[2].plain()["waiting_ns"] == 4


def test_a_recorder_that_is_switched_off_keeps_and_counts_nothing() -> None:
    recorder = Recorder(ManualClock(), 0)
    recorder.record(GATE_CLOSED, "conn:a", "queue:/q", "credit", 0)
    recorder.record_at(5, GATE_OPENED, "conn:a", "queue:/q", "credit", 5)
    recorder.keep(TimeSample(0, 0, "conn:a", 1, 2, 3, 4))
    assert (recorder.capacity, recorder.next_seq, recorder.dropped) == (0, 0, 0)
    assert recorder.since(0) == [] and RecorderReader(recorder).read() == []
    with pytest.raises(AssertionError, match="or none"):
        Recorder(ManualClock(), -1)
