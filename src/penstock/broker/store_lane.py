"""The hop from a queue to the store, and the parcels on it: what one turn took from one sender."""

from mypy_extensions import i64

from penstock.broker.actor import Actor
from penstock.broker.lane import Answerable
from penstock.flow.account import Account
from penstock.flow.gate import Gate
from penstock.flow.hop import LAYER_QUEUE, LAYER_STORE, Hop
from penstock.protocol.content import Message
from penstock.storage.index import QueueIndex


class Parcel:
    """Persistent messages of one sender on their way to the disk. answerable: who is told when they
    are safe, None for nobody; count, bytes: what was charged on the hop; uncharged_bytes: of those
    that were not, because they are embedded."""

    __slots__ = (
        "answerable",
        "bytes",
        "count",
        "lane",
        "messages",
        "origin",
        "uncharged_bytes",
    )

    def __init__(
        self,
        lane: "StoreLane",
        origin: Account,
        answerable: Answerable | None,
        messages: list[Message],
    ) -> None:
        self.lane = lane
        self.origin = origin
        self.answerable = answerable
        self.messages = messages
        self.count: i64 = 0
        self.bytes: i64 = 0
        self.uncharged_bytes: i64 = 0


class StoreLane(Hop):
    """items: parcels the store has not taken, oldest first; index: the queue's in the log;
    is_wanted: the queue still exists; waiting_count: parcels that were not answered yet;
    uncharged_bytes: of the parcels in `items`."""

    __slots__ = (
        "index",
        "is_listed",
        "is_wanted",
        "items",
        "queue",
        "uncharged_bytes",
        "waiting_count",
    )

    def __init__(self, queue: Actor, store: str, store_gate: Gate, index: QueueIndex) -> None:
        super().__init__(queue.identity, LAYER_QUEUE, queue.gate, store, LAYER_STORE, store_gate)
        self.queue = queue
        self.uncharged_bytes: i64 = 0
        self.index = index
        self.items: list[Parcel] = []
        self.is_listed = False
        self.is_wanted = True
        self.waiting_count: i64 = 0
