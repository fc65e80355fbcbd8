"""At a start: what commits had for a stream, and it has not, is appended before anything else is.

Each message belongs to one offset (broker/transaction/commit_streams), so what the stream has is
left alone. A stream that has lost messages before them, in a mode that does not sync in time or to
damage, goes on at that offset: what is missing between stays missing, and is told.
"""

from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.lane import Answerable
from penstock.broker.actors.log import Log
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.stream.stream_actor import StreamActor
from penstock.broker.stream.stream_store import stream_request
from penstock.broker.transaction.commit_streams import in_requests, outbox_of
from penstock.flow.account import Account
from penstock.protocol.content import Message
from penstock.storage.layout.index import QueueIndex

READ_COUNT: Final = 4096
READ_BYTES: Final = 4_194_304


class Emptied(Answerable):
    """The stream has everything that was in its outbox up to a position."""

    __slots__ = ("end", "index", "store")

    def __init__(self, store: StoreActor, index: QueueIndex) -> None:
        self.store = store
        self.index = index
        self.end = int(index.next_position)

    def accepted(self, messages: list[Message], count: i64) -> None:
        """It is on the disk."""
        if not self.index.is_dropped:
            self.store.log.settle_below(self.index, self.end)
            self.store.has_settled()


class Pending:
    """runs: offsets and messages, ascending; unreadable: how many messages are lost."""

    __slots__ = ("_end", "_first", "runs", "unreadable")

    def __init__(self) -> None:
        self.runs: list[tuple[int, list[Message]]] = []
        self.unreadable = 0
        # Positions of the messages of the last note, and the offset of position 0 by it.
        self._end = 0
        self._first = 0

    def add(self, position: int, message: Message) -> None:
        """The next record of an outbox. What is behind no note was settled but for its note's
        sake: the stream has it."""
        if position < self._end:
            offset = self._first + position
            if self.runs and self.runs[-1][0] + len(self.runs[-1][1]) == offset:
                self.runs[-1][1].append(message)
            else:
                self.runs.append((offset, [message]))
        elif message.address.exchange == "" and message.address.routing_key == "":
            offset, count = (int(number) for number in message.body().split())
            self._end = position + 1 + count
            self._first = offset - position - 1


def restore_outbox(actor: StreamActor, store: StoreActor, payer: Account, log: Log) -> int:
    """Bring `actor`, which has its log, up to the commits in `store`; how many messages it gets.
    Before anybody else appends to it. Raises: OSError."""
    index = outbox_of(actor, store).index
    if index.live_count() == 0:
        return 0
    pending = _pending(store, index)
    if pending.unreadable:
        log.warning(
            f"{actor.identity}: {pending.unreadable} messages that were committed and not in the "
            "stream yet cannot be read"
        )
    emptied = Emptied(store, index)
    count = _append(actor, pending, emptied, payer, log)
    if count == 0:
        emptied.accepted([], 0)
    return count


def _pending(store: StoreActor, index: QueueIndex) -> Pending:
    found = Pending()
    position = 0
    while True:
        job = store.log.plan_reads(index, position, READ_COUNT, READ_BYTES)
        job.run()
        found.unreadable += len(job.damaged)
        for one in job.found:
            found.add(int(one.position), one.message)
        if not job.found and not job.damaged:
            return found
        position = int(job.next_position)


def _append(
    actor: StreamActor, pending: Pending, emptied: Emptied, payer: Account, log: Log
) -> int:
    stream, lane, target = actor.counts.log, actor.lane, actor.store
    assert stream is not None and lane is not None and target is not None, "it has its log"
    requests: list[tuple[int, list[Message], int]] = []
    following = int(stream.next)
    for first, messages in pending.runs:
        missing = messages[max(0, following - first) :]
        offset = max(first, following)
        for part, size in in_requests(missing):
            requests.append((offset, part, size))
            offset += len(part)
        following = max(following, first + len(messages))
    count = 0
    for number, (offset, part, size) in enumerate(requests, 1):
        if offset > stream.next:
            log.warning(
                f"{actor.identity}: offsets {int(stream.next)} to {offset - 1} are lost; a commit "
                f"that was written behind them goes on at {offset}"
            )
            stream.skip_to(offset, actor.line.clock.wall_ns() // 1000)
        answerable = emptied if number == len(requests) else None
        target.take_now(stream_request(lane, payer, answerable, part, size))
        count += len(part)
    return count
