"""Reclaiming collects cycles, and does not run again before its share of the time is over."""

import time
import weakref

from penstock.server.machine.probe import COLLECT_SHARE, Reclaimer


class Knot:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_cycles_are_collected() -> None:
    knot = Knot()
    alive = weakref.ref(knot)
    del knot
    assert Reclaimer().run()
    assert alive() is None


def test_it_takes_its_share_of_the_time_at_most() -> None:
    reclaimer = Reclaimer()
    begin_ns = time.monotonic_ns()
    assert reclaimer.run()
    took_ns = time.monotonic_ns() - begin_ns
    collect_after_ns, trim_after_ns = reclaimer.collect_after_ns, reclaimer.trim_after_ns
    assert 0 < collect_after_ns - begin_ns <= took_ns * (COLLECT_SHARE + 1)
    assert not reclaimer.is_trimming or begin_ns < trim_after_ns
    has_run_again = reclaimer.run()
    # Its share is over when the machine stood still for that long just now.
    is_early = time.monotonic_ns() < min(collect_after_ns, trim_after_ns or collect_after_ns)
    assert not (has_run_again and is_early)
