"""A store that no broker uses: what is in it, and compacting it to the end."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

from penstock.base.steps import whole
from penstock.storage.layout.files import Directory
from penstock.storage.layout.format import (
    OUTBOX_QUEUE_ID,
    PLACE_IS_REF,
    PLACE_OFFSET_BITS,
    PLACE_SIZE_MASK,
    is_spare,
    number_of,
)
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.segment import Segment
from penstock.storage.log.compaction import Compactor
from penstock.storage.log.log import MessageLog

STEP_QUEUES: Final = 128
ROUNDS_MAX: Final = 1_000_000
"""Slices of STORE_COPY_BYTES: more than a disk has. What is left then stays as it is."""


@dataclass(frozen=True, slots=True)
class QueueStats:
    """live_bytes, disk_bytes: of its records that count, of all of them, a shared body counted with
    one queue; segments: in how many it has messages; oldest_ms: wall clock when the store took the
    first of them, 0 for none."""

    queue_id: int
    messages: int
    live_bytes: int
    disk_bytes: int
    segments: int
    oldest_ms: int


@dataclass(frozen=True, slots=True)
class StoreStats:
    """live_bytes: of records that count, and of bodies that others still refer to; disk_bytes: of
    all its files but those to be used again, which have spare_bytes; segments: of them those with
    messages."""

    queues: tuple[QueueStats, ...]
    messages: int
    live_bytes: int
    disk_bytes: int
    segments: int
    spare_bytes: int = 0

    @property
    def garbage_share(self) -> float:
        """0..1: what compaction could give back at most."""
        return 0.0 if self.disk_bytes == 0 else max(0.0, 1 - self.live_bytes / self.disk_bytes)


def store_stats(log: MessageLog, directory: Directory | None = None) -> StoreStats:
    """The same as `store_stat_steps` in one go. Raises: OSError."""
    return whole(store_stat_steps(log, directory))


def store_stat_steps(
    log: MessageLog, directory: Directory | None = None
) -> Generator[float, None, StoreStats]:
    """What is in `log`, in steps; what comes and goes between them is there or not. directory: its
    files, when nobody else reads them: then one message a queue is read to tell how old it is, and
    queues come by number; without it footers and acknowledgements do not count.

    Raises: OSError."""
    written: dict[int, int] = {}
    live_bytes = 0
    for segment in list(log.segments.values()):
        if directory is not None:
            _find_shared(log, segment)
        live_bytes += int(segment.live_bytes())
        for count, table in enumerate(list(segment.tables), 1):
            queue_id = int(table.queue_id)
            written[queue_id] = written.get(queue_id, 0) + int(table.record_bytes)
            if count % STEP_QUEUES == 0:
                yield 0.0
        yield 0.0
    queues: list[QueueStats] = []
    messages = queue_bytes = 0
    indexes = list(log.queues.items())
    if directory is not None:
        indexes.sort(key=lambda one: one[0])
    for queue_id, index in indexes:
        if queue_id < OUTBOX_QUEUE_ID:
            one = _queue_stats(log, index, written.get(queue_id, 0), directory is not None)
            queues.append(one)
            messages += one.messages
            queue_bytes += one.live_bytes
            if len(queues) % STEP_QUEUES == 0:
                yield 0.0
    return StoreStats(
        tuple(queues),
        messages,
        max(live_bytes, queue_bytes),
        log.disk_bytes() if directory is None else files_bytes(directory),
        len(log.segments),
        int(log.spares.kept_bytes) if directory is None else spares_bytes(directory),
    )


def _find_shared(log: MessageLog, segment: Segment) -> None:
    """Have tables that were found in a footer know what their references share. Raises: OSError."""
    for table in segment.tables:
        if table.positions is None:
            places = log.cache.get(table, log.handles)[1]
            table.shared_bytes = sum(
                place >> PLACE_OFFSET_BITS & PLACE_SIZE_MASK
                for place in places
                if place & PLACE_IS_REF
            )


def _queue_stats(log: MessageLog, index: QueueIndex, written: int, is_read: bool) -> QueueStats:
    oldest_ms = 0
    if is_read and index.runs:
        job = log.plan_reads(index, 0, 1, 1)
        job.run()
        oldest_ms = int(job.found[0].stored_ms) if job.found else 0
    return QueueStats(
        int(index.queue_id),
        log.live_count(index),
        int(index.live_bytes()),
        written,
        len({int(run.table.segment.number) for run in index.runs}),
        oldest_ms,
    )


def files_bytes(directory: Directory) -> int:
    """What the files of a store take, without those to be used again. Raises: OSError."""
    return _bytes_of(directory, [name for name in directory.names() if number_of(name) >= 0])


def spares_bytes(directory: Directory) -> int:
    """What the files to be used again take, which a killed process leaves. Raises: OSError."""
    return _bytes_of(directory, [name for name in directory.names() if is_spare(name)])


def _bytes_of(directory: Directory, names: list[str]) -> int:
    total = 0
    for name in names:
        file = directory.open(name)
        try:
            total += file.size()
        finally:
            file.close()
    return total


def compact_all(log: MessageLog) -> list[int]:
    """Give back all the room that compaction would in time, by the same jobs; then the log is
    closed, as at a clean stop. Killed at any moment it leaves what a crash of the broker would.

    Returns the numbers of segments that could not be read whole and were left alone. Raises:
    OSError, SyncFailed."""
    compactor = Compactor(log)
    for segment in log.segments.values():
        _find_shared(log, segment)
    for _ in range(ROUNDS_MAX):
        job = compactor.plan()
        if job is not None:
            job.run()
            compactor.copy(job)
        elif not log.has_work():
            break
        batch = log.take_batch(False)
        if batch is not None:
            batch.run()
            log.done(batch)
    log.take_last_batch().run()
    return compactor.damaged
