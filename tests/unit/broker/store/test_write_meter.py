"""The early look at the disk: when half of the room was written, and not before."""

from penstock.base.clock import ManualClock
from penstock.broker.store.write_meter import ALLOWED_BYTES_MIN, WriteMeter
from penstock.flow.due import DueLine

MB = 1_000_000


def metered(room_bytes: int) -> tuple[WriteMeter, DueLine, list[int]]:
    clock = ManualClock()
    dues = DueLine()
    meter = WriteMeter(dues, clock)
    looks: list[int] = []
    meter.look = lambda: looks.append(1)
    meter.allow(room_bytes)
    return meter, dues, looks


def test_a_look_when_half_of_the_room_was_written() -> None:
    meter, dues, looks = metered(100 * MB)
    for _ in range(10):
        meter.will_write(5 * MB)
    dues.fire(1 << 62)
    assert looks == []
    meter.will_write(1)
    meter.will_write(5 * MB)
    assert len(dues) == 1, "one look, however much more is written before it"
    dues.fire(1 << 62)
    assert looks == [1]


def test_near_the_mark_every_batch_of_some_size_is_looked_at() -> None:
    meter, dues, _ = metered(10)
    meter.will_write(ALLOWED_BYTES_MIN)
    assert len(dues) == 0
    meter.will_write(1)
    assert len(dues) == 1


def test_none_while_the_alarm_is_set() -> None:
    meter, dues, _ = metered(-1)
    meter.will_write(1 << 50)
    assert len(dues) == 0


def test_nobody_is_asked_where_nobody_looks() -> None:
    meter, dues, _ = metered(0)
    meter.look = None
    meter.will_write(100 * MB)
    assert len(dues) == 0
