"""A process that may open no more files: the store waits, and gives up what it need not have."""

from errno import EMFILE

import pytest

from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.layout.files import File
from penstock.storage.log.log import MessageLog
from penstock.storage.recovery.recovery import recover
from penstock.streams.batch import StreamBatch
from penstock.streams.handles import StreamHandles
from penstock.streams.log import Retention, StreamLog
from penstock.streams.recovery import recover_streams
from tests.crash.life import message
from tests.unit.storage.making import fill, flush, positions, read


class Counted(File):
    """A file whose handle counts."""

    def __init__(self, disk: "Crowded", file: File) -> None:
        self.disk = disk
        self.file = file
        self.is_open = True
        disk.open_count += 1

    def write(self, at: int, data: bytes) -> int:
        return self.file.write(at, data)

    def sync(self) -> None:
        self.file.sync()

    def read(self, at: int, count: int) -> bytes:
        return self.file.read(at, count)

    def size(self) -> int:
        return self.file.size()

    def truncate(self, size: int) -> None:
        self.file.truncate(size)

    def close(self) -> None:
        self.disk.open_count -= self.is_open
        self.is_open = False
        self.file.close()


class Crowded(SimDisk):
    """open_max: files that may be open at once; opens_left: how often one may still be opened, -1
    for always."""

    def __init__(self) -> None:
        super().__init__()
        self.open_count = 0
        self.open_max = 1000
        self.opens_left = -1

    def take_handle(self) -> None:
        if self.open_count >= self.open_max or self.opens_left == 0:
            raise OSError(EMFILE, "too many open files")
        self.opens_left -= self.opens_left > 0

    def open(self, name: str) -> File:
        self.take_handle()
        return Counted(self, super().open(name))

    def create(self, name: str) -> File:
        self.take_handle()
        return Counted(self, super().create(name))

    def sync(self) -> None:
        # The directory has to be opened for it.
        self.take_handle()
        super().sync()


@pytest.mark.parametrize("opens", range(7))
@pytest.mark.parametrize("spares", [0, 2])
def test_a_batch_without_a_handle_is_run_again(opens: int, spares: int) -> None:
    """Wherever it stopped, nothing is broken, lost or written twice."""
    disk = Crowded()
    log = MessageLog(disk, Dice(1), 1024, spares_max=spares)
    index = log.open_queue(1)
    fill(log, index, 30)
    flush(log)
    log.settle_below(index, 20)
    flush(log)
    fill(log, index, 30)
    log.settle(index, 25)
    batch = log.take_batch(True)
    assert batch is not None
    log.handles.give_up_idle()
    disk.opens_left = opens
    with pytest.raises(OSError) as caught:
        batch.run()
    assert caught.value.errno == EMFILE and not log.handles.is_broken
    disk.opens_left = -1
    batch.run()
    log.done(batch)
    left = [20, 21, 22, 23, 24, *range(26, 61)]
    assert positions(read(log, index)) == left
    again = recover(SimDisk(disk.contents()), Dice(2), 1024, {1})
    assert positions(read(again.log, again.queues[1])) == left
    assert not again.report.lost


def test_handles_that_nobody_uses_are_given_up_for_one_that_is_needed() -> None:
    disk = Crowded()
    log = MessageLog(disk, Dice(1), 1024)
    index = log.open_queue(1)
    fill(log, index, 100)
    flush(log)
    assert disk.open_count > 8
    disk.open_max = disk.open_count
    fill(log, index, 10)
    log.settle_below(index, 5)
    flush(log)
    assert positions(read(log, index)) == list(range(5, 111))
    assert not log.handles.is_broken


def test_reading_gives_up_what_is_idle_and_takes_nothing_for_damaged() -> None:
    disk = Crowded()
    log = MessageLog(disk, Dice(1), 1024)
    index = log.open_queue(1)
    fill(log, index, 60)
    flush(log)
    log.handles.give_up_idle()
    disk.open_max = disk.open_count + 2
    job = read(log, index)
    assert positions(job) == list(range(1, 61)) and job.damaged == []


def test_streams_wait_for_a_handle_too() -> None:
    disk = Crowded()
    handles = StreamHandles(disk)
    handles.is_directory_dirty = True
    disk.opens_left = 0
    batch = StreamBatch(handles)
    with pytest.raises(OSError, match="too many"):
        batch.run()
    assert not handles.is_broken
    disk.opens_left = -1
    batch.run()
    assert not handles.is_directory_dirty


def test_reading_streams_gives_up_what_is_idle() -> None:
    disk = Crowded()
    handles = StreamHandles(disk)
    names = [f"{number:010d}-00000000000000000000.stream" for number in range(1, 5)]
    for name in names[:3]:
        handles.create(name)
    disk.create(names[3]).close()
    handles.written(names[0])
    disk.open_max = disk.open_count
    assert handles.open(names[3]).size() == 0
    assert set(handles.files) == {names[0], names[3]}, "what was written to keeps its handle"


@pytest.mark.parametrize("handles_left", [1, 2, 5])
def test_a_batch_of_more_streams_than_there_are_handles_is_written(handles_left: int) -> None:
    """Begun files are synced early and closed; nobody has to go for them."""
    disk = Crowded()
    disk.open_max = handles_left
    handles = StreamHandles(disk)
    logs = [StreamLog(number, Retention(2000), Dice(number)) for number in range(1, 13)]
    for count in (1, 2):
        batch = StreamBatch(handles)
        for log in logs:
            log.append(message(b"x" * 50), count)
            log.take(batch)
        batch.run()
        for log, deed in zip(logs, batch.chunks, strict=True):
            log.done(deed)
            assert log.committed == count
    wanted = {int(log.queue_id): log.retention for log in logs}
    found = recover_streams(SimDisk(disk.contents()), Dice(1), wanted)[0]
    assert [int(one.committed) for one in found.values()] == [2] * len(logs)
