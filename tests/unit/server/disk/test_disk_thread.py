"""The disk's thread: jobs in their order, ends told on the loop, and nothing left undone."""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from errno import ENOMEM

import pytest

from penstock.broker.actors.actor import Scheduler
from penstock.broker.actors.disk import JobClient
from penstock.server.disk.disk_thread import DiskThread, Wire
from penstock.server.machine.clock import SystemClock
from penstock.server.net.poller import EpollPoller, LoopPoller, Poller
from penstock.storage.log.job import Job
from penstock.telemetry.recorder import Recorder
from tests.patience import PATIENCE_S

Make = Callable[[asyncio.AbstractEventLoop, Scheduler], Poller]
POLLERS = pytest.mark.parametrize("make", [EpollPoller, LoopPoller])


class Work(Job):
    """Notes which thread it ran on; fault: what it raises."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.thread = 0

    def run(self) -> None:
        self.thread = threading.get_ident()
        if self.fault is not None:
            raise self.fault


class Told(JobClient):
    """Collects ends until there are `count`."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.ends: list[tuple[Job, OSError | None]] = []
        self.threads: set[int] = set()
        self.all = asyncio.Event()

    def job_done(self, job: Job, error: OSError | None) -> None:
        self.ends.append((job, error))
        self.threads.add(threading.get_ident())
        if len(self.ends) == self.count:
            self.all.set()


def poller_of(make: Make) -> Poller:
    clock = SystemClock()
    return make(asyncio.get_running_loop(), Scheduler(clock, Recorder(clock, 0), 100))


@POLLERS
def test_jobs_run_in_their_order_elsewhere_and_are_told_here(make: Make) -> None:
    async def scenario() -> None:
        poller = poller_of(make)
        disk = DiskThread(poller)
        jobs = [Work() for _ in range(300)]
        told = Told(len(jobs))
        for job in jobs:
            disk.submit(job, told)
        await asyncio.wait_for(told.all.wait(), PATIENCE_S)
        assert [job for job, _ in told.ends] == jobs
        assert told.threads == {threading.get_ident()}
        assert {job.thread for job in jobs}.isdisjoint(told.threads)
        disk.close()
        poller.close()

    asyncio.run(scenario())


@POLLERS
def test_a_fault_is_told_and_the_next_job_runs(make: Make) -> None:
    async def scenario() -> None:
        poller = poller_of(make)
        disk = DiskThread(poller)
        told = Told(4)
        broken = OSError(5, "broken")
        for job in (Work(broken), Work(ValueError("a bug")), Work(), Work(MemoryError())):
            disk.submit(job, told)
        await asyncio.wait_for(told.all.wait(), PATIENCE_S)
        errors = [error for _, error in told.ends]
        assert errors[0] is broken and errors[2] is None
        assert "internal error in a disk job: ValueError('a bug')" in str(errors[1])
        assert errors[3] is not None and errors[3].errno == ENOMEM
        disk.close()
        poller.close()

    asyncio.run(scenario())


@POLLERS
@pytest.mark.parametrize("is_poller_first", [True, False])
def test_a_close_does_what_was_given_and_tells_it(make: Make, is_poller_first: bool) -> None:
    async def scenario() -> None:
        poller = poller_of(make)
        disk = DiskThread(poller)
        told = Told(50)
        for _ in range(50):
            disk.submit(Work(), told)
        if is_poller_first:
            poller.close()
        disk.close()
        assert len(told.ends) == 50
        if not is_poller_first:
            poller.close()

    asyncio.run(scenario())


def test_the_poller_hears_of_an_end_while_it_lingers() -> None:
    """It does so without the loop having its turn: else a confirm would be late by that wait."""

    async def scenario() -> None:
        poller = poller_of(EpollPoller)
        assert isinstance(poller, EpollPoller)
        disk = DiskThread(poller)
        told = Told(1)
        disk.submit(Work(), told)
        end_s = time.monotonic() + PATIENCE_S
        while not told.ends and time.monotonic() < end_s:
            poller.ready()
        assert len(told.ends) == 1
        disk.close()
        poller.close()

    asyncio.run(scenario())


def test_who_rings_a_closed_wire_gets_an_error() -> None:
    """The number of its descriptor may be another file's by then, which gets nothing."""
    wire = Wire()
    wire.ring()
    wire.wait()
    fd = wire.fd
    wire.close()
    reader, writer = os.pipe()
    try:
        assert fd in (reader, writer), "the lowest free numbers are given out again"
        os.set_blocking(reader, False)
        with pytest.raises(OSError):
            wire.ring()
        with pytest.raises(BlockingIOError):
            os.read(reader, 8)
    finally:
        os.close(reader)
        os.close(writer)
