"""The hop from a stream queue to the stream store, and the parcels on it."""

from mypy_extensions import i64

from penstock.broker.actors.actor import Actor
from penstock.broker.actors.lane import Answerable
from penstock.broker.actors.sync_times import SyncTimes
from penstock.flow.account import Account
from penstock.flow.gate import Gate
from penstock.flow.hop import LAYER_QUEUE, LAYER_STORE, Hop
from penstock.protocol.content import Message
from penstock.streams.log import StreamLog


class StreamParcel:
    """Messages that one turn took from one sender. answerable: who is told when they are safe, None
    for nobody; count, bytes: what was charged on the hop, which is all of them whether anybody
    waits for confirms or not (flow-semantics 8.3, W13); queued_ns: when that turn began."""

    __slots__ = ("answerable", "bytes", "count", "lane", "messages", "origin", "queued_ns")

    def __init__(
        self,
        lane: "StreamLane",
        origin: Account,
        answerable: Answerable | None,
        messages: list[Message],
        bytes_: i64,
    ) -> None:
        self.lane = lane
        self.origin = origin
        self.answerable = answerable
        self.messages = messages
        self.count: i64 = len(messages)
        self.bytes: i64 = bytes_
        self.queued_ns: i64 = 0

    def answer(self, times: SyncTimes) -> None:
        """Tell whoever waits that they are safe. times: of the batch they were in."""
        answerable = self.answerable
        if answerable is not None:
            answerable.timed(self.queued_ns, times.sent_ns, times.sent_ns, times.done_ns)
            answerable.accepted(self.messages, self.count)


class StreamLane(Hop):
    """items: parcels the store has not taken, oldest first; is_wanted: the stream still exists;
    waiting_count: parcels that were not answered yet."""

    __slots__ = ("is_listed", "is_wanted", "items", "log", "queue", "waiting_count")

    def __init__(self, queue: Actor, store: str, store_gate: Gate, log: StreamLog) -> None:
        super().__init__(queue.identity, LAYER_QUEUE, queue.gate, store, LAYER_STORE, store_gate)
        self.queue = queue
        self.log = log
        self.items: list[StreamParcel] = []
        self.is_listed = False
        self.is_wanted = True
        self.waiting_count: i64 = 0
