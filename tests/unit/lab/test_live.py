"""A run of the lab against a broker it starts itself: everything is measured, nothing is left."""

import multiprocessing
import time
from multiprocessing.connection import Connection

import pytest

from penstock.base.errors import OperatorError
from penstock.lab import live
from penstock.lab.live import END, LabProcess, measure, measure_alone, serve
from penstock.lab.peers_process import Go, play
from penstock.lab.result import LIVE, Result
from penstock.lab.run import config_of
from penstock.lab.workload import (
    ALARM,
    KIB,
    ConsumerSpec,
    PublisherSpec,
    QueueSpec,
    Target,
    Workload,
    WorkloadEvent,
)
from tests.patience import undisturbed

SMALL = Workload(
    "small",
    "a slow queue and innocent traffic beside it",
    (QueueSpec("slow", service_us=2000), QueueSpec("innocent")),
    (
        PublisherSpec("pressing", (Target("", "slow"),), 1500, confirms_max=100_000),
        PublisherSpec("innocent", (Target("", "innocent", is_innocent=True),), 200, is_paced=True),
    ),
    (ConsumerSpec("slow"), ConsumerSpec("innocent", is_innocent=True)),
    # Two seconds of alarm: both events come at once when the machine stands still in between.
    (WorkloadEvent(0.3, ALARM, limit_bytes=16 * KIB), WorkloadEvent(2.3, ALARM)),
    seconds=2.5,
    warm_up_s=0.3,
)


def _measured() -> tuple[Result, Result]:
    """Its innocent traffic alone, and everything."""
    alone = measure_alone(SMALL, 1)
    assert alone is not None
    return alone, measure(SMALL, "penstock", 1, alone)


@pytest.mark.slow
def test_a_live_run_measures_what_the_simulator_measures() -> None:
    others = set(multiprocessing.active_children())
    alone, found = undisturbed(_measured, 0.3)
    assert alone.innocent_per_s == pytest.approx(200, rel=0.2)
    assert found.where == LIVE
    # The queue cannot be faster than its service time; how much slower is up to the machine.
    assert 0 < found.throughput_per_s - found.innocent_per_s < 520
    assert found.innocent_per_s > 0
    assert found.confirm.p99_ms >= found.confirm.p50_ms > 0
    assert found.memory_bytes_max > 16 * KIB
    assert found.alarm_s > 0.1
    assert max(found.lines["memory"]) == found.memory_bytes_max
    assert set(multiprocessing.active_children()) <= others


def fail(pipe: object) -> None:
    raise SystemExit(3)


def test_a_process_that_ends_early_is_reported_by_its_name() -> None:
    child = LabProcess("the broker", fail)
    try:
        with pytest.raises(OperatorError, match="lab: the broker ended unexpectedly"):
            child.answer(0.0)
    finally:
        child.end()
    assert not child.process.is_alive()


@pytest.mark.slow
def test_a_broker_that_is_killed_is_reported_in_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    """The programs' process printed a traceback beside it, and so did the command that told the
    broker something."""
    broker = LabProcess("the broker", serve, config_of(SMALL, "penstock"), SMALL)
    peers = None
    try:
        peers = LabProcess("the programs", play, SMALL, 1, broker.answer(0.0))
        peers.answer(0.0)
        now_ns = time.monotonic_ns()
        peers.tell(Go(now_ns, now_ns, now_ns + 20_000_000_000, now_ns + 30_000_000_000))
        broker.process.kill()
        broker.process.join(10.0)
        with pytest.raises(OperatorError, match="lab: the programs failed: "):
            peers.answer(10.0)
        with pytest.raises(OperatorError, match="lab: the broker ended unexpectedly"):
            broker.tell(END)
        peers.process.join(20.0)
        assert "Traceback" not in capfd.readouterr().err
    finally:
        for child in (peers, broker):
            if child is not None:
                child.end()


def say_nothing(pipe: Connection) -> None:
    """Until it is told to stop."""
    pipe.recv()


def test_a_process_that_says_nothing_is_told_with_how_long_it_was_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was said not to have answered in 0 s, after a minute."""
    monkeypatch.setattr(live, "PATIENCE_S", 2.0)
    child = LabProcess("the broker", say_nothing)
    try:
        with pytest.raises(OperatorError, match="the broker did not answer within 3 s"):
            child.answer(1.0)
    finally:
        child.end()
