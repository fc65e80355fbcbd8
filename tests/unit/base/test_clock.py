"""The clock driven by hand."""

import pytest

from penstock.base.clock import ManualClock


def test_it_moves_forward_only() -> None:
    clock = ManualClock(5)
    wall = clock.wall_ns()
    clock.advance(10)
    clock.advance(0)
    assert clock.monotonic_ns() == 15 and clock.wall_ns() == wall + 10
    with pytest.raises(AssertionError):
        clock.advance(-1)
