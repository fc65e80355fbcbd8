"""Two latencies out of twelve bytes."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.perf.meter import HELD_US_MAX, OLDEST_NS, STAMP_BYTES, read_stamp, write_stamp

TIMES = st.integers(0, 2**62)


@given(TIMES, st.integers(0, 10**12), st.integers(0, 10**12), st.binary(max_size=5))
def test_both_latencies_come_back(
    intended_ns: int, held_ns: int, travel_ns: int, before: bytes
) -> None:
    sent_ns = intended_ns + held_ns
    raw = before + write_stamp(intended_ns, sent_ns) + b"filler"
    found = read_stamp(raw, len(before), sent_ns + travel_ns, OLDEST_NS)
    assert found is not None
    assert found[0] == held_ns + travel_ns
    assert 0 <= found[1] - travel_ns < 1000, "held time is kept in whole microseconds"


def test_holding_longer_than_the_field_is_kept_at_its_end() -> None:
    stamp = write_stamp(0, 2**62)
    assert stamp[8:] == HELD_US_MAX.to_bytes(4, "big")


@given(st.binary(max_size=STAMP_BYTES - 1))
def test_a_body_without_room_for_a_stamp_has_none(body: bytes) -> None:
    assert read_stamp(body, 0, 10**9, OLDEST_NS) is None


def test_another_clock_and_an_earlier_run_are_told_apart() -> None:
    assert read_stamp(write_stamp(2000, 2000), 0, 1000, OLDEST_NS) is None
    assert read_stamp(write_stamp(1000, 1000), 0, 5000, 3999) is None
    assert read_stamp(write_stamp(1000, 1000), 0, 5000, 4000) == (4000, 4000)
