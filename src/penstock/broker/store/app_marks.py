"""Which batch every app of a virtual host has committed last, on the disk with what it committed.

A mark is a message in the log, of a queue that no client sees: it is written in the group of its
commit, so both are there after a crash or neither. The mark before it is settled once the new one
is safe. Bound: TRANSACTION_APPS marks; an app beyond it is refused before it begins.
"""

from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.actor import Actor, Line
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.store.write_request import StoreLane
from penstock.protocol.content import Address, Message, make_content
from penstock.storage.layout.format import MARKS_QUEUE_ID
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.stored import Stored

READ_COUNT: Final = 1024
READ_BYTES: Final = 1_048_576
FRAME_BYTES: Final = 4096
HEADER: Final = b"\x00\x3c\x00\x00"
IS_PERSISTENT: Final = b"\x10\x00\x02"


class MarksActor(Actor):
    """In place of the queue of the marks; it never has a turn of its own to use."""

    __slots__ = ()

    def turn(self, budget: i64) -> bool:
        return False


class AppMark:
    """batch: 0.. ; message: as it lies in the log, None in a broker that keeps nothing."""

    __slots__ = ("batch", "message")

    def __init__(self, batch: int, message: Message | None) -> None:
        self.batch = batch
        self.message = message


class AppMarks:
    """last: by app. store, lane, index: None in a broker that keeps nothing, and until the first
    commit."""

    __slots__ = ("index", "lane", "last", "store")

    def __init__(self) -> None:
        self.last: dict[str, AppMark] = {}
        self.store: StoreActor | None = None
        self.lane: StoreLane | None = None
        self.index: QueueIndex | None = None

    def open(self, vhost: str, store: StoreActor, line: Line) -> None:
        """Marks are kept in `store` from now on. Idempotent."""
        if self.store is None:
            self.store = store
            self.index = store.log.open_queue(MARKS_QUEUE_ID)
            self.lane = store.join(MarksActor(f"transactions:{vhost}", line), self.index)

    def restore(self) -> list[int]:
        """Read what is in the log; positions that cannot be read."""
        assert self.store is not None and self.index is not None, "it was opened before"
        damaged: list[int] = []
        position = 0
        while True:
            job = self.store.log.plan_reads(self.index, position, READ_COUNT, READ_BYTES)
            job.run()
            damaged.extend(job.damaged)
            for found in job.found:
                message = found.message
                self.set(message.address.routing_key, AppMark(int(message.body()), message))
            if not job.found and not job.damaged:
                return damaged
            position = int(job.next_position)

    def set(self, app: str, mark: AppMark) -> None:
        """`mark` is the last of `app`, unless a higher one is known."""
        before = self.last.get(app)
        if before is not None and before.batch > mark.batch:
            before, mark = mark, before
        self.last[app] = mark
        if before is not None:
            self._settle(before)

    def forget(self, app: str) -> bool:
        """Whether there was one."""
        mark = self.last.pop(app, None)
        if mark is not None:
            self._settle(mark)
        return mark is not None

    def _settle(self, mark: AppMark) -> None:
        message = mark.message
        if message is None or self.store is None or self.index is None:
            return
        stored = message.stored
        assert isinstance(stored, Stored), "a mark is in the log before it counts"
        position = stored.leave(self.index.queue_id)
        if position > 0:
            self.store.log.settle(self.index, int(position))
            self.store.has_settled()


def mark_message(app: str, batch: int) -> Message:
    """A persistent message that says that `app` has committed `batch`."""
    body = str(batch).encode()
    header = HEADER + len(body).to_bytes(8, "big") + IS_PERSISTENT
    made = make_content(1, b"", header, body, FRAME_BYTES)
    made.address = Address("", app)
    return made
