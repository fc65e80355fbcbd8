"""What a pager reads next, and the job that does it."""

from mypy_extensions import i64

from penstock.queues.paged import PagedMessages
from penstock.queues.paged_records import PagedRecords, Reading
from penstock.queues.queue import ClassicQueue
from penstock.queues.wanted import Wanted
from penstock.storage.log.log import MessageLog
from penstock.storage.log.reading import ReadJob, Stretch, plan_run


def next_read(messages: ClassicQueue, size_bytes: i64, has_room: bool) -> Reading | None:
    """The next read of a queue that pages, of about `size_bytes`; None if there is nothing, or it
    has no place in the log yet. has_room: for more than what is missing at the head."""
    if isinstance(messages, PagedRecords):
        return messages.next_read(size_bytes, has_room)
    assert isinstance(messages, PagedMessages), "others have nothing to read"
    wanted = messages.wanted(size_bytes) if has_room else None
    return None if wanted is None else Reading(messages, wanted, messages.at_hand() > 0)


def lacks_head(messages: ClassicQueue) -> bool:
    """Whether a message that may be first, or may die first, is on the disk."""
    if isinstance(messages, PagedRecords):
        return messages.lacks_head()
    return messages.at_hand() == 0 and messages.ready_count() > 0


def plan(log: MessageLog, wanted: Wanted, count_max: i64, bytes_max: i64) -> ReadJob:
    """A job for the first `count_max` messages of `wanted`, and none behind `bytes_max` of content;
    without stretches while all of them are in the open batch."""
    if wanted.chosen is None:
        return log.plan_reads(wanted.index, int(wanted.first), int(count_max), int(bytes_max))
    index = wanted.index
    job = ReadJob(log.handles, log.cache, index, bytes_max)
    last: Stretch | None = None
    for position in wanted.chosen[: int(count_max)]:
        run = index.find(position)
        if run is None or plan_run(job, run, position, 1) <= 0:
            break
        # Those of one table are read together.
        stretch = job.stretches[-1]
        if last is not None and last.table is stretch.table:
            last.positions.extend(stretch.positions)
            job.stretches.pop()
        else:
            last = stretch
    return job
