"""The early look at a resource: when half of the room was written, and not before."""

from penstock.base.clock import ManualClock
from penstock.flow.due import DueLine
from penstock.flow.early_look import (
    INTAKE_BYTES_MIN,
    INTAKE_DIVISOR,
    PAUSE,
    PAUSE_NS_MAX,
    WRITE_BYTES_MIN,
    WRITE_DIVISOR,
    EarlyLook,
)

MB = 1_000_000


def metered(room_bytes: int) -> tuple[EarlyLook, DueLine, list[int]]:
    clock = ManualClock()
    dues = DueLine()
    meter = EarlyLook(dues, clock, WRITE_DIVISOR, WRITE_BYTES_MIN)
    looks: list[int] = []
    meter.look = lambda: looks.append(1)
    meter.allow(room_bytes)
    return meter, dues, looks


def test_a_look_when_half_of_the_room_was_written() -> None:
    meter, dues, looks = metered(100 * MB)
    for _ in range(10):
        meter.passed(5 * MB)
    dues.fire(1 << 62)
    assert looks == []
    meter.passed(1)
    meter.passed(5 * MB)
    assert len(dues) == 1, "one look, however much more is written before it"
    dues.fire(1 << 62)
    assert looks == [1]


def test_near_the_mark_every_batch_of_some_size_is_looked_at() -> None:
    meter, dues, _ = metered(10)
    meter.passed(WRITE_BYTES_MIN)
    assert len(dues) == 0
    meter.passed(1)
    assert len(dues) == 1


def test_none_while_the_alarm_is_set() -> None:
    meter, dues, _ = metered(-1)
    meter.passed(1 << 50)
    assert len(dues) == 0


def test_nobody_is_asked_where_nobody_looks() -> None:
    meter, dues, _ = metered(0)
    meter.look = None
    meter.passed(100 * MB)
    assert len(dues) == 0


def test_looks_take_a_part_of_the_time_only() -> None:
    """A look of 2 ms is followed by 20 ms without one, however much comes in."""
    clock = ManualClock()
    dues = DueLine()
    intake = EarlyLook(dues, clock, INTAKE_DIVISOR, INTAKE_BYTES_MIN)
    intake.look = lambda: clock.advance(2_000_000)
    intake.allow(0)
    intake.passed(INTAKE_BYTES_MIN + 1)
    assert dues.next_ns() == clock.monotonic_ns(), "the first one at once"
    dues.fire(clock.monotonic_ns())
    intake.allow(0)
    intake.passed(INTAKE_BYTES_MIN + 1)
    assert dues.next_ns() == clock.monotonic_ns() + PAUSE * 2_000_000
    intake.look = lambda: clock.advance(1_000_000_000)
    dues.fire(1 << 62)
    intake.allow(0)
    intake.passed(INTAKE_BYTES_MIN + 1)
    assert dues.next_ns() == clock.monotonic_ns() + PAUSE_NS_MAX, "the machine stood still"
