"""What a pager sees of a queue whose records stay in memory while bodies are on the disk.

husks of records     counted here, held by the records (bodies_paged.py)
husks that came back read only to be dropped, as in any paged queue
"""

from mypy_extensions import i64

from penstock.queues.husks import is_husk
from penstock.queues.paged import PagedMessages
from penstock.queues.records import Record
from penstock.queues.wanted import Wanted
from penstock.storage.layout.index import QueueIndex
from penstock.storage.log.reading import Found


class BodyTail(PagedMessages):
    """Nothing stands here in order. waiting: what is being read, by its position in the log; gone:
    what of it cannot be read."""

    __slots__ = ("gone", "waiting")

    def __init__(self, index: QueueIndex) -> None:
        super().__init__(index, index)
        self.waiting: dict[int, Record] = {}
        self.gone: list[Record] = []

    def arrived(self, wanted: Wanted, found: list[Found]) -> i64:
        """Records take what is theirs (BodiesPaged.refill)."""
        if wanted.is_returned:
            return super().arrived(wanted, found)
        return len(found)

    def lost(self, wanted: Wanted, position: i64) -> bool:
        if wanted.is_returned:
            return super().lost(wanted, position)
        record = self.record_at(position)
        if record is None:
            return False
        self.gone.append(record)
        return True

    def record_at(self, position: i64) -> Record | None:
        """The record that waits for what the log has at `position`; None if it is gone by now, or
        has another message."""
        record = self.waiting.get(int(position))
        if record is None or not record.is_ready or not is_husk(record.message):
            return None
        return record if self.place_of(record.message) == position else None

    def close_gaps(self) -> None:
        """A queue is split while one of its records is a husk."""
        self.is_split = self.husk_count > len(self.husks_back)
