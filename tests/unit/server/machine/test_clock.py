"""The machine's clocks: the same as the operating system's."""

import time

from penstock.server.machine.clock import SystemClock


def test_it_reads_the_clocks_of_the_operating_system() -> None:
    clock = SystemClock()
    before_ns, wall_before_ns = time.monotonic_ns(), time.time_ns()
    now_ns, wall_ns = clock.monotonic_ns(), clock.wall_ns()
    assert before_ns <= now_ns <= time.monotonic_ns()
    # Wall time may be set back meanwhile, though not by an hour.
    assert abs(wall_ns - wall_before_ns) < 3_600_000_000_000
