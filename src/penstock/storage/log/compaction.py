"""Getting room back from segments of which little counts any more: copy the rest, then let them go.

A slice is read on the disk thread, then appended to the open batch like new messages, and so on
until everything that counted is copied. Until all copies are safe both places count: a message is
settled in both, and read from the old one. Then the queues are shown the new places and the old
segment has nothing that counts. A crash in between leaves entries twice, of which recovery takes
the newer."""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.limits import STORE_COPY_BYTES, STORE_COPY_RECORDS
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.segment import Run, Segment
from penstock.storage.layout.stored import Stored
from penstock.storage.log.job import Job
from penstock.storage.log.log import MessageLog
from penstock.storage.log.reading import Found, ReadJob, Stretch

COPY_BYTES: Final = STORE_COPY_BYTES.default
COPY_RECORDS: Final = STORE_COPY_RECORDS.default
ROLL_BYTES: Final = 1_048_576
"""An active segment of more than this is closed when it is worth compacting."""
SMALL_COUNT_MAX: Final = 8
"""With more segments than this that are small, as restarts leave them, they are joined."""
SMALL_SHARE: Final = 16
WITHOUT_BOUND: Final = 1 << 40
RUNS_AT_ONCE: Final = 8192
"""Stretches of queues that one look goes through; those of segments in which nothing has changed
are known from the last one."""
LOOK_NS: Final = 100_000_000
"""Between two looks for a segment that is worth compacting."""


class CopyJob(Job):
    """Reads one slice. reads: one job for each stretch of a run, runs: those runs; is_end: there is
    nothing behind it."""

    __slots__ = ("is_end", "reads", "runs")

    def __init__(self) -> None:
        self.reads: list[ReadJob] = []
        self.runs: list[Run] = []
        self.is_end = False

    def run(self) -> None:
        for read in self.reads:
            read.run()


class Copying:
    """One segment on its way. runs: those of it that are still to be copied, the next one last,
    from `position` on; bodies: where a body of the segment went, by its offset; tails: the copies
    of each run; ends: what has to be safe before the segment may go, by segment; is_read: all was
    copied."""

    __slots__ = ("bodies", "ends", "is_read", "position", "runs", "segment", "tails")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.runs: list[Run] = []
        self.position: i64 = 0
        self.bodies: dict[int, Stored] = {}
        self.tails: dict[Run, QueueIndex] = {}
        self.ends: dict[Segment, int] = {}
        self.is_read = False


class Rating:
    """What counted in a segment while it had so many entries: live, and bytes of the disk."""

    __slots__ = ("bytes", "live")

    def __init__(self, segment: Segment) -> None:
        self.live: i64 = segment.live
        self.bytes: i64 = segment.live_bytes()


@mypyc_attr(allow_interpreted_subclasses=True)
class Compactor:
    """Compacts one segment of `log` after the other, the emptiest first. damaged: numbers of
    segments that could not be read whole: they stay until everything in them was settled.

    Owner: the log's. Each time there is time for it: `plan`, have the job run, `copy` what it read,
    and see that batches go on being taken. Nothing is copied faster than the caller asks for it.
    is_patient: what empties itself is left alone; wants_look: there may be such a segment, so
    somebody has to ask again later, after `look_ns`; ratings: of full segments, as they were at the
    last look.
    """

    __slots__ = (
        "copying",
        "damaged",
        "is_patient",
        "is_reading",
        "log",
        "look_ns",
        "ratings",
        "wants_look",
    )

    def __init__(self, log: MessageLog) -> None:
        self.log = log
        self.copying: Copying | None = None
        self.damaged: list[int] = []
        self.is_reading = False
        self.is_patient = False
        self.wants_look = False
        self.look_ns: i64 = 0
        self.ratings: dict[Segment, Rating] = {}

    def plan_at(self, now_ns: int) -> CopyJob | None:
        """`plan` for somebody who asks after every batch: a segment in which something has changed
        between two looks is left alone, because consumers who go on will soon have emptied it."""
        copying = self.copying
        if copying is not None and not copying.segment.is_gone:
            return self.plan()
        if now_ns < self.look_ns:
            # Nobody may have settled anything when this time is over.
            self.wants_look = True
            return None
        self.look_ns = now_ns + LOOK_NS
        self.is_patient = True
        job = self.plan()
        for segment in self.log.segments.values():
            segment.seen_live = segment.live
            segment.seen_end = segment.end
        return job

    def plan(self, bytes_max: int = COPY_BYTES, records_max: int = COPY_RECORDS) -> CopyJob | None:
        """A job that reads the next slice, about `bytes_max` and no more than `records_max`
        messages; None when there is nothing to do now. Give it to `copy` when it has been run."""
        if self.is_reading:
            return None
        copying = self.copying
        if copying is not None and copying.is_read:
            if not copying.segment.is_gone and not self.is_safe(copying):
                # Whoever asks again after the next batch finds it safe.
                self.log.wants_sync = not self.log.is_scratch
                return None
            self._finish(copying)
        if copying is None or copying.segment.is_gone or copying.is_read:
            copying = self._begin()
        self.copying = copying
        if copying is None:
            return None
        self.is_reading = True
        return self._slice(copying, bytes_max, records_max)

    def _begin(self) -> Copying | None:
        segment = self._choose()
        if segment is None:
            return None
        copying = Copying(segment)
        copying.runs = list(segment.runs)
        segment.copies = {}
        return copying

    def _choose(self) -> Segment | None:
        """The segment of which the smallest part counts, if that is less than half."""
        log = self.log
        self.wants_look = False
        active = log.active
        if (
            active is not None
            and active.end > ROLL_BYTES
            and 2 * active.live_bytes() < active.end
            and self._may_take(active)
        ):
            log.close_active()
        chosen: Segment | None = None
        chosen_share: i64 = 1001
        small: Segment | None = None
        small_count: i64 = 0
        before = self.ratings
        self.ratings = {}
        runs: i64 = RUNS_AT_ONCE if self.is_patient else WITHOUT_BOUND
        for segment in log.segments.values():
            if not segment.is_sealed or segment.live == 0 or segment.is_pinned:
                continue
            if segment.end < log.segment_bytes // SMALL_SHARE:
                small_count += 1
                small = segment
            rating = before.get(segment)
            if rating is None or rating.live != segment.live:
                if runs <= 0:
                    self.wants_look = True
                    continue
                runs -= len(segment.runs)
                rating = Rating(segment)
            self.ratings[segment] = rating
            share: i64 = rating.bytes * 1000 // segment.end
            if share < chosen_share and (share >= 500 or self._may_take(segment)):
                chosen_share = share
                chosen = segment
        if chosen_share < 500:
            return chosen
        return small if small_count > SMALL_COUNT_MAX else None

    def _may_take(self, segment: Segment) -> bool:
        """Whether `segment` rests, as far as anybody cares."""
        if not self.is_patient or (
            segment.seen_live == segment.live and segment.seen_end == segment.end
        ):
            return True
        self.wants_look = True
        return False

    def _slice(self, copying: Copying, bytes_max: i64, records_max: i64) -> CopyJob:
        job = CopyJob()
        log = self.log
        left: i64 = bytes_max
        records: i64 = records_max
        while left > 0 and records > 0 and copying.runs:
            run = copying.runs[-1]
            index = log.queues.get(int(run.table.queue_id))
            at = run.next_live(copying.position) if index is not None else i64(-1)
            if index is None or at < 0 or at > run.last:
                copying.runs.pop()
                copying.position = 0
                continue
            # What a run of a copy stops behind would be lost, so it reads whatever it was given.
            read = ReadJob(log.handles, log.cache, index, WITHOUT_BOUND)
            stretch = Stretch(run.table)
            average: i64 = run.table.record_bytes // run.table.count + 1
            while left > 0 and records > 0 and 0 <= at <= run.last:
                stretch.positions.append(int(at))
                left -= average
                records -= 1
                at = run.next_live(at + 1)
            copying.position = i64(stretch.positions[-1]) + 1
            read.stretches.append(stretch)
            job.reads.append(read)
            job.runs.append(run)
        job.is_end = not copying.runs
        return job

    def copy(self, job: CopyJob) -> None:
        """Append what `job` has read to the open batch, unless it was settled meanwhile."""
        self.is_reading = False
        copying = self.copying
        if copying is None or copying.segment.is_gone:
            return
        for run, read in zip(job.runs, job.reads, strict=True):
            index = read.index
            for found in read.found:
                if not index.is_dropped:
                    self._copy_one(copying, run, index, found)
        for read in job.reads:
            if read.damaged:
                self._give_up(copying)
                return
        copying.is_read = job.is_end

    def failed(self) -> None:
        """A slice could not be read: its segment is left alone, and others have their turn."""
        self.is_reading = False
        copying = self.copying
        if copying is not None and not copying.segment.is_gone:
            self._give_up(copying)

    def _copy_one(self, copying: Copying, run: Run, index: QueueIndex, found: Found) -> None:
        segment = copying.segment
        position = found.position
        now = index.find(position)
        copies = segment.copies
        if copies is None or now is None or now.table.segment is not segment:
            return
        places = copies.setdefault(int(index.queue_id), {})
        if not now.has(position) or int(position) in places:
            return
        old = found.message.stored
        assert isinstance(old, Stored), "a message that was read has its place"
        body = copying.bodies.get(int(old.offset))
        if body is None:
            body = Stored()
            copying.bodies[int(old.offset)] = body
        tail = copying.tails.get(run)
        if tail is None:
            tail = QueueIndex(index.queue_id)
            copying.tails[run] = tail
        self.log.append_copy(tail, position, found, body)
        new = tail.runs[-1]
        places[int(position)] = new
        if index.returned:
            self.log.copy_count(index, new.table.segment, position)
        copying.ends[new.table.segment] = int(new.table.segment.end)

    def _give_up(self, copying: Copying) -> None:
        """A record is damaged: both places go on to count, because the newer one would win."""
        copying.segment.is_pinned = True
        for segment in copying.ends:
            segment.is_pinned = True
        self.damaged.append(int(copying.segment.number))
        self.copying = None

    def is_safe(self, copying: Copying) -> bool:
        """Whether everything that was copied would survive a loss of power: messages, and how often
        they came back."""
        for segment, end in copying.ends.items():
            safe_to: i64 = segment.written_to if self.log.is_scratch else segment.synced_to
            if segment.is_gone:
                continue
            if safe_to < end or segment in self.log.copied_counts:
                return False
        return True

    def _finish(self, copying: Copying) -> None:
        """Show the queues the copies, after which nothing in the old segment counts."""
        segment = copying.segment
        copies = segment.copies
        if segment.is_gone or copies is None:
            return
        copied: i64 = 0
        for found in copies.values():
            copied += len(found)
        # What is settled has no copy any more, so the same number is the same positions.
        runs = list(segment.runs) if copied != segment.live else []
        for run in runs:
            places = copies.get(int(run.table.queue_id), {})
            at = run.next_live(run.first)
            while 0 <= at <= run.last:
                if int(at) not in places:
                    # Split off by a message that came in between; it is copied next.
                    copying.runs.append(run)
                    break
                at = run.next_live(at + 1)
        if copying.runs:
            copying.is_read = False
            return
        self.log.replace_runs(segment, list(copying.tails.values()))
