"""Ends of jobs: what was recorded is told when it is committed, and not before."""

import asyncio
import os
import socket
import time
from collections.abc import Callable
from errno import ENOSPC
from pathlib import Path
from threading import Event

import pytest

from penstock.broker.actors.actor import Scheduler
from penstock.broker.actors.disk import JobClient
from penstock.server.cluster import child_pipe, committed_disk, pipe
from penstock.server.cluster.child_pipe import ChildPipe
from penstock.server.cluster.committed_disk import CommittedDisk
from penstock.server.cluster.recorder import Recorder, put_whole
from penstock.server.machine.clock import SystemClock
from penstock.server.net.poller import EpollPoller
from penstock.storage.log.job import Job
from penstock.telemetry.recorder import Recorder as Events
from tests.patience import PATIENCE_S
from tests.unit.server.cluster.member_bed import Member


class Change(Job):
    """Writes a file of `size` bytes; fault: what it raises instead; waits: for what it waits."""

    def __init__(self, bed: "Bed", size: int = 10, fault: OSError | None = None) -> None:
        self.bed = bed
        self.size = size
        self.fault = fault
        self.waits: Event | None = None

    def run(self) -> None:
        if self.waits is not None:
            self.waits.wait(PATIENCE_S)
        if self.fault is not None:
            raise self.fault
        put_whole(self.bed.root / "CLEAN", os.urandom(self.size), self.bed.recorder)


class Read(Job):
    """Changes nothing."""

    def run(self) -> None:
        pass


class Client(JobClient):
    """told: jobs, and how many entries were committed when their end was told."""

    def __init__(self, bed: "Bed") -> None:
        self.bed = bed
        self.told: list[tuple[Job, OSError | None]] = []
        self.committed: list[int] = []

    def job_done(self, job: Job, error: OSError | None) -> None:
        self.told.append((job, error))
        self.committed.append(self.bed.pipe.committed)


class Bed:
    def __init__(self, root: Path, kind: type[CommittedDisk] = CommittedDisk) -> None:
        self.root = root
        ours, theirs = socket.socketpair()
        self.member = Member(theirs, None, Member.NEVER)
        self.pipe = ChildPipe(ours)
        self.recorder = Recorder(root, self.pipe)
        self.recorder.is_starting = False
        clock = SystemClock()
        self.poller = EpollPoller(
            asyncio.get_running_loop(), Scheduler(clock, Events(clock, 0), 100)
        )
        self.heard = 0
        self.disk = kind(self.poller, self.recorder, self._hear)

    def _hear(self) -> None:
        self.heard += 1

    async def until(self, is_there: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not is_there():
                await asyncio.sleep(0.002)

    async def pause(self) -> None:
        """Long enough for whatever would be told wrongly."""
        await self.until(lambda: self.member.count == self.pipe.sent)
        await asyncio.sleep(0.05)

    def close(self) -> None:
        self.disk.close()
        self.poller.close()
        self.pipe.close()
        self.member.close()


async def no_end_before_it_is_committed(bed: Bed) -> None:
    """The law. Raises: AssertionError where it is broken."""
    client = Client(bed)
    jobs = [Change(bed) for _ in range(3)]
    for job in jobs:
        bed.disk.submit(job, client)
    await bed.until(lambda: bed.member.count == 3)
    await bed.pause()
    assert client.told == []
    bed.member.commit(2)
    await bed.until(lambda: len(client.told) >= 2)
    await bed.pause()
    assert client.told == [(jobs[0], None), (jobs[1], None)]
    bed.member.commit(3)
    await bed.until(lambda: len(client.told) == 3)
    assert client.committed == [2, 2, 3]


def test_no_end_is_told_before_it_is_committed(tmp_path: Path) -> None:
    async def scenario() -> None:
        bed = Bed(tmp_path)
        await no_end_before_it_is_committed(bed)
        await bed.until(lambda: bed.member.done() == 3)
        bed.close()

    asyncio.run(scenario())


class TellsAtOnce(CommittedDisk):
    """Planted: the end of a job here is taken for its end everywhere."""

    def tell(self) -> None:
        while self._over:
            one = self._over.popleft()
            one.client.job_done(one.job, one.error)


class TellsOneEarly(CommittedDisk):
    """Planted: off by one."""

    def work(self, job: Job, client: JobClient) -> None:
        super().work(job, client)
        if self._over:
            self._over[-1].need -= 1


@pytest.mark.parametrize("kind", [TellsAtOnce, TellsOneEarly])
def test_the_law_finds_planted_bugs(kind: type[CommittedDisk], tmp_path: Path) -> None:
    async def scenario() -> None:
        bed = Bed(tmp_path, kind)
        try:
            with pytest.raises(AssertionError):
                await no_end_before_it_is_committed(bed)
        finally:
            bed.member.commit(bed.pipe.sent)
            bed.close()

    asyncio.run(scenario())


def test_what_changes_nothing_is_told_at_once_but_behind_its_client_s_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        bed = Bed(tmp_path)
        writer, reader = Client(bed), Client(bed)
        first, read = Change(bed), Read()
        full = Change(bed, fault=OSError(ENOSPC, "full"))
        bed.disk.submit(first, writer)
        bed.disk.submit(read, reader)
        bed.disk.submit(full, writer)
        await bed.until(lambda: len(reader.told) == 1)
        await bed.pause()
        assert reader.told == [(read, None)]
        # The failure was first to be known, and would be taken for that of the first one.
        assert writer.told == []
        bed.member.commit(1)
        await bed.until(lambda: len(writer.told) == 2)
        assert writer.told == [(first, None), (full, full.fault)]
        bed.close()

    asyncio.run(scenario())


def test_the_disk_waits_at_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_pipe, "CLUSTER_WINDOW_BYTES", type("B", (), {"default": 100_000}))

    async def scenario() -> None:
        bed = Bed(tmp_path)
        client = Client(bed)
        for _ in range(10):
            bed.disk.submit(Change(bed, 40_000), client)
        await bed.until(lambda: bed.member.count == 3)
        await bed.pause()
        assert bed.member.count == 3
        assert bed.pipe.unsafe_bytes > 100_000
        bed.member.commit(1)
        await bed.until(lambda: bed.member.count == 4)
        await bed.pause()
        assert bed.member.count == 4
        bed.member.commits = Member.AT_ONCE
        bed.member.commit(4)
        await bed.until(lambda: len(client.told) == 10)
        assert bed.pipe.unsafe_bytes == 0
        bed.close()

    asyncio.run(scenario())


def test_without_a_member_nobody_is_told_anything(tmp_path: Path) -> None:
    async def scenario() -> None:
        bed = Bed(tmp_path)
        client = Client(bed)
        bed.disk.submit(Change(bed), client)
        await bed.until(lambda: bed.member.count == 1)
        bed.member.close()
        await bed.until(lambda: bed.heard > 0)
        bed.disk.submit(Change(bed), client)
        bed.disk.submit(Read(), client)
        await asyncio.sleep(0.05)
        bed.disk.close()
        assert client.told == []
        bed.poller.close()
        bed.pipe.close()

    asyncio.run(scenario())


def test_a_stop_is_heard_and_waits_for_a_majority_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committed_disk, "CLUSTER_STOP_MS", type("B", (), {"default": 200}))

    async def scenario() -> None:
        bed = Bed(tmp_path)
        client = Client(bed)
        bed.member.send(pipe.frame(pipe.STOP))
        await bed.until(lambda: bed.heard > 0)
        bed.disk.submit(Change(bed), client)
        began = asyncio.get_running_loop().time()
        bed.close()
        took = asyncio.get_running_loop().time() - began
        assert 0.2 <= took < PATIENCE_S / 2
        assert len(client.told) == 1

    asyncio.run(scenario())


def test_a_disk_that_does_not_get_on_is_known(tmp_path: Path) -> None:
    async def scenario() -> None:
        bed = Bed(tmp_path)
        client = Client(bed)
        assert bed.disk.stalled_ms() == 0
        slow = Change(bed)
        slow.waits = Event()
        bed.disk.submit(slow, client)
        await bed.until(lambda: bed.disk.stalled_ms() > 30)
        bed.pipe.tell_stalled(bed.disk.stalled_ms())
        await bed.until(lambda: bool(bed.member.payloads(pipe.STALLED)))
        assert pipe.count_of(bed.member.payloads(pipe.STALLED)[0]) > 30
        slow.waits.set()
        await bed.until(lambda: bed.disk.stalled_ms() == 0)
        bed.member.commit(1)
        bed.close()

    asyncio.run(scenario())


def test_more_than_was_sent_cannot_be_committed(tmp_path: Path) -> None:
    async def scenario() -> None:
        bed = Bed(tmp_path)
        bed.member.commit(1)
        await bed.until(lambda: bed.heard > 0)
        assert "1 entries are said to be committed, of 0" in bed.pipe.ended
        bed.close()

    asyncio.run(scenario())


async def test_a_mark_is_answered_behind_everything_that_was_done(tmp_path: Path) -> None:
    bed = Bed(tmp_path)
    job = Change(bed)
    job.waits = Event()
    bed.disk.submit(job, Client(bed))
    bed.member.send(pipe.count_frame(pipe.MARK, 7))
    await bed.pause()
    assert bed.member.payloads(pipe.MARKED) == [], "a job is under way"
    job.waits.set()
    await bed.until(lambda: bed.member.payloads(pipe.MARKED) != [])
    # The reader takes frames in their order: the entry was there before.
    assert bed.member.count == 1
    bed.member.send(pipe.count_frame(pipe.MARK, 8))
    await bed.until(lambda: len(bed.member.payloads(pipe.MARKED)) == 2)
    assert [pipe.count_of(one) for one in bed.member.payloads(pipe.MARKED)] == [7, 8]
    bed.member.commit(1)
    bed.close()


class ChangeThenWait(Job):
    """Writes a file, and ends later. written, waits: for what others and it wait."""

    def __init__(self, bed: "Bed") -> None:
        self.bed = bed
        self.written = Event()
        self.waits = Event()

    def run(self) -> None:
        put_whole(self.bed.root / "CLEAN", b"half", self.bed.recorder)
        self.written.set()
        self.waits.wait(PATIENCE_S)


class LosesMember(Client):
    """While it is told an end the member goes away, and then another client's job ends."""

    def __init__(self, bed: "Bed", job: ChangeThenWait) -> None:
        super().__init__(bed)
        self.job = job

    def job_done(self, job: Job, error: OSError | None) -> None:
        super().job_done(job, error)
        assert self.job.written.wait(PATIENCE_S)
        self.bed.member.close()
        self.job.waits.set()
        until = time.monotonic() + PATIENCE_S
        while self.bed.disk.busy_since_ns != 0 and time.monotonic() < until:
            time.sleep(0.001)
        assert self.bed.pipe.ended


def test_what_could_not_be_sent_is_not_told_while_other_ends_are(tmp_path: Path) -> None:
    async def scenario() -> None:
        bed = Bed(tmp_path)
        change = ChangeThenWait(bed)
        first, second = LosesMember(bed, change), Client(bed)
        bed.disk.submit(Read(), first)
        bed.disk.submit(change, second)
        await bed.until(lambda: bed.heard > 0)
        await asyncio.sleep(0.05)
        bed.disk.close()
        assert len(first.told) == 1
        # It is on no other node, and nobody can put it there any more.
        assert second.told == []
        bed.poller.close()
        bed.pipe.close()

    asyncio.run(scenario())
