"""The log of one stream on files in memory: offsets, segments, retention, places by time."""

from penstock.simulation.machine.dice import Dice
from penstock.streams.batch import StreamBatch
from penstock.streams.handles import StreamHandles
from penstock.streams.log import NO_BOUND, Retention, StreamLog
from penstock.streams.memory_files import MemoryDirectory
from penstock.streams.reading import StreamRead
from penstock.streams.recovery import recover_streams
from tests.crash.life import message

SECOND_US = 1_000_000


class Shelf:
    """Stream 1, on files in memory."""

    def __init__(
        self, segment_bytes: int = 2000, max_bytes: int = NO_BOUND, max_age_us: int = NO_BOUND
    ) -> None:
        self.files = MemoryDirectory()
        self.handles = StreamHandles(self.files)
        self.retention = Retention(segment_bytes, max_bytes, max_age_us)
        self.log = StreamLog(1, self.retention, Dice(1))
        self.now_us = 10 * SECOND_US

    def write(self, count: int, size: int = 50, step_us: int = SECOND_US) -> None:
        """A batch of so many messages, `step_us` apart."""
        for _ in range(count):
            self.log.append(message(b"x" * size), self.now_us)
            self.now_us += step_us
        batch = StreamBatch(self.handles)
        self.log.take(batch)
        batch.run()
        for deed in batch.chunks:
            self.log.done(deed)

    def offsets(self, begin: int) -> list[int]:
        """What is read from `begin` on."""
        found: list[int] = []
        while begin < self.log.committed:
            segment = self.log.segment_of(begin)
            assert segment is not None
            job = StreamRead(self.handles, segment, max(begin, int(segment.first)))
            job.run()
            for chunk in job.found:
                at = max(begin, int(chunk.first))
                found += range(at, int(chunk.next()))
            begin = int(job.next)
        return found


def test_a_batch_says_which_publishes_it_holds_when_all_of_it_is_written() -> None:
    shelf = Shelf(segment_bytes=300)
    said: list[tuple[bytes, int]] = []

    class Noting(MemoryDirectory):
        def note_publishes(self, runs: bytes) -> None:
            said.append((runs, sum(self.open(name).size() for name in self.names())))

    shelf.files = Noting()
    shelf.handles = StreamHandles(shelf.files)
    for _ in range(9):
        shelf.log.append(message(b"x" * 100), shelf.now_us)
    batch = StreamBatch(shelf.handles)
    shelf.log.take(batch)
    batch.holds(b"runs")
    batch.run()
    written = sum(len(deed.data) for deed in batch.chunks)
    assert len(said) == 1 and said[0][0] == b"runs"
    assert said[0][1] >= written > 900


def test_what_is_not_on_the_disk_cannot_be_read() -> None:
    shelf = Shelf()
    shelf.log.append(message(b"a"), 1)
    assert (shelf.log.next, shelf.log.committed, shelf.log.count()) == (1, 0, 0)
    shelf.write(1)
    assert (shelf.log.next, shelf.log.committed, shelf.log.count()) == (2, 2, 2)


def test_every_offset_can_be_read_from() -> None:
    shelf = Shelf()
    for count in (1, 3, 20, 2, 7, 1, 1):
        shelf.write(count)
    assert len(shelf.log.segments) > 1
    for begin in range(36):
        assert shelf.offsets(begin) == list(range(begin, 35))


def test_the_oldest_segments_go_by_bytes() -> None:
    shelf = Shelf(max_bytes=6000)
    for _ in range(60):
        shelf.write(5)
    log = shelf.log
    assert 4000 < log.disk_bytes <= 6000 + 2500
    assert log.first() > 200 and log.count() == log.committed - log.first()
    assert shelf.files.names() == [segment.name for segment in log.segments]
    assert log.disk_bytes <= sum(len(file._data) for file in shelf.files.files.values())
    assert shelf.offsets(0) == list(range(int(log.first()), 300))


def test_the_oldest_segments_go_by_age() -> None:
    shelf = Shelf(max_age_us=30 * SECOND_US)
    for _ in range(40):
        shelf.write(2)
    oldest = shelf.log.segments[0]
    assert shelf.log.first() > 20
    assert shelf.now_us - SECOND_US - oldest.last_us <= 30 * SECOND_US
    shelf.now_us += 3600 * SECOND_US
    shelf.write(1)
    assert len(shelf.log.segments) == 1, "the newest stays, however old it is"


def test_one_segment_stays_however_large() -> None:
    shelf = Shelf(segment_bytes=1 << 20, max_bytes=100)
    shelf.write(50)
    shelf.write(50)
    assert shelf.offsets(0) == list(range(100))


def test_a_segment_goes_when_the_next_one_is_on_the_disk() -> None:
    """A batch removes files first: a crash behind that must not begin the offsets anew."""
    shelf = Shelf(segment_bytes=400, max_bytes=500)
    shelf.write(5, size=100)
    for _ in range(5):
        shelf.log.append(message(b"x" * 100), shelf.now_us)
    batch = StreamBatch(shelf.handles)
    shelf.log.take(batch)
    assert len(shelf.log.segments) == 2 and not batch.removals
    logs, _ = recover_streams(shelf.files, Dice(2), {1: shelf.retention})
    assert (logs[1].first(), logs[1].next) == (0, 5)
    batch.run()
    for deed in batch.chunks:
        shelf.log.done(deed)
    shelf.write(1)
    assert shelf.log.first() == 5


def test_places_by_time() -> None:
    shelf = Shelf()
    for _ in range(20):
        shelf.write(5)
    log = shelf.log
    for number in (0, 1, 17, 50, 99):
        time_us = 10 * SECOND_US + number * SECOND_US
        assert int(log.first()) <= log.first_since(time_us) <= number
    assert log.first_since(0) == 0
    assert log.first_since(shelf.now_us) == 100, "nothing has come since"


def test_a_clock_that_steps_back_counts_as_no_time() -> None:
    shelf = Shelf()
    shelf.write(3)
    shelf.now_us -= 100 * SECOND_US
    shelf.write(3)
    assert shelf.log.last_us == 12 * SECOND_US
    assert shelf.log.first_since(12 * SECOND_US) <= 2


def test_a_chunk_ends_before_its_times_do() -> None:
    shelf = Shelf()
    shelf.write(3, step_us=900 * SECOND_US)
    first = shelf.log.segments[0]
    job = StreamRead(shelf.handles, first, 0)
    job.run()
    assert [(int(chunk.first), int(chunk.count)) for chunk in job.found] == [(0, 2), (2, 1)]


def test_it_comes_back_as_it_was() -> None:
    shelf = Shelf(max_bytes=5000)
    for _ in range(20):
        shelf.write(4)
    before = shelf.log
    logs, report = recover_streams(shelf.files, Dice(2), {1: shelf.retention})
    log = shelf.log = logs[1]
    assert not report.cut_bytes and not report.lost and not report.lines
    for name in ("next", "committed", "last_us", "last_first", "disk_bytes"):
        assert getattr(log, name) == getattr(before, name), name
    assert shelf.offsets(0) == list(range(int(before.first()), 80))
    shelf.write(3)
    assert shelf.offsets(78) == [78, 79, 80, 81, 82]
    assert log.segments[-1].first == 80, "no segment is written to in two lives"


def test_files_of_nobody_go_and_others_stay() -> None:
    shelf = Shelf()
    shelf.write(3)
    shelf.files.create("notes.txt")
    recover_streams(shelf.files, Dice(2), {})
    assert shelf.files.names() == ["notes.txt"]


def test_a_header_that_cannot_be_read_is_told() -> None:
    shelf = Shelf()
    shelf.write(3)
    (name,) = shelf.files.names()
    shelf.files.files[name]._data[:96] = b"?" * 96
    logs, report = recover_streams(shelf.files, Dice(2), {1: shelf.retention})
    assert shelf.files.names() == [name + ".damaged"]
    assert report.lines and name in report.lines[0]
    assert logs[1].next == 0


def test_a_read_goes_on_where_the_one_before_has_ended() -> None:
    """Without looking at the chunks before it again."""
    shelf = Shelf(segment_bytes=1 << 22)
    for _ in range(300):
        shelf.write(5, size=1000)
    log = shelf.log
    (segment,) = log.segments
    first = StreamRead(shelf.handles, segment, 0)
    first.run()
    assert 0 < first.next < 1500
    second = StreamRead(shelf.handles, segment, first.next, first.next_place)
    second.run()
    assert second.place == first.next_place > segment.place_of(first.next)
    assert second.found[0].first == first.next
    looked_up = StreamRead(shelf.handles, segment, first.next)
    looked_up.run()
    assert [int(one.first) for one in looked_up.found] == [
        int(one.first) for one in second.found[: len(looked_up.found)]
    ]
