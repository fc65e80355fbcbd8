"""Reading past damage: what is read for it has a bound, whatever the bytes say of themselves."""

from penstock.simulation.machine.dice import Dice
from penstock.storage.layout.files import File
from penstock.streams.batch import StreamBatch
from penstock.streams.format import DATA_AT, MARK, U32
from penstock.streams.handles import StreamHandles
from penstock.streams.log import Retention, StreamLog
from penstock.streams.memory_files import MemoryDirectory
from penstock.streams.reading import READ_BYTES, StreamRead
from tests.crash.life import message


class Counting(MemoryDirectory):
    """reads: how many bytes each read has asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[int] = []

    def open(self, name: str) -> File:
        return Counted(self, super().open(name))


class Counted(File):
    def __init__(self, directory: Counting, file: File) -> None:
        self.directory = directory
        self.file = file

    def write(self, at: int, data: bytes) -> int:
        return self.file.write(at, data)

    def read(self, at: int, count: int) -> bytes:
        self.directory.reads.append(count)
        return self.file.read(at, count)

    def close(self) -> None:
        """It stays."""


def written(bodies: list[bytes]) -> tuple[Counting, StreamLog]:
    """A stream with a chunk for each body, in one segment."""
    files = Counting()
    handles = StreamHandles(files)
    log = StreamLog(1, Retention(1 << 30), Dice(1))
    for body in bodies:
        log.append(message(body), 1)
        batch = StreamBatch(handles)
        log.take(batch)
        batch.run()
        for deed in batch.chunks:
            log.done(deed)
    return files, log


def read(files: Counting, log: StreamLog) -> StreamRead:
    job = StreamRead(StreamHandles(files), log.segments[0], 0)
    files.reads = []
    job.run()
    return job


def test_what_looks_like_chunks_is_not_tried_for_ever() -> None:
    lookalike = MARK + bytes(4) + U32.pack(8000) + bytes(4)
    files, log = written([lookalike * 2000, b"whole"])
    size = int(log.segments[0].end)
    files.files[log.segments[0].name]._data[DATA_AT + 20] ^= 1
    job = read(files, log)
    assert sum(files.reads) < 50 * size
    assert job.lost == 2 and job.next == 2, "what stands behind is not looked for any more"


def test_a_damaged_size_does_not_have_the_rest_of_the_segment_read_at_once() -> None:
    files, log = written([b"x" * 50_000 for _ in range(20)])
    data = files.files[log.segments[0].name]._data
    data[DATA_AT + 8 : DATA_AT + 12] = U32.pack(0xFFFFFFF0)
    job = read(files, log)
    assert max(files.reads) <= READ_BYTES
    assert job.lost == 1 and job.found[0].first == 1
