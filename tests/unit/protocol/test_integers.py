"""Timestamps are ints that remember what they are."""

from penstock.protocol.integers import Timestamp


def test_a_timestamp_is_its_seconds() -> None:
    assert Timestamp(1_700_000_000) == 1_700_000_000
    assert isinstance(Timestamp(0), int)
    assert repr(Timestamp(5)) == "Timestamp(5)"
