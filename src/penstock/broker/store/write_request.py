"""The hop from a queue to a store, and the requests on it: what one turn took from one sender."""

from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.actor import Actor
from penstock.broker.actors.lane import Answerable
from penstock.broker.actors.syncing import SyncTimes
from penstock.broker.queue.classic_actor import ClassicActor
from penstock.broker.queue.uncommitted import UncommittedBatch
from penstock.broker.store.mirrors import Mirroring
from penstock.flow.account import Account
from penstock.flow.gate import Gate
from penstock.flow.hop import LAYER_QUEUE, LAYER_STORE, Hop
from penstock.flow.pending import Commands
from penstock.protocol.content import Message
from penstock.protocol.property_lookup import PERSISTENT, delivery_mode
from penstock.storage.layout.index import QueueIndex
from penstock.storage.log.groups import GroupAppend
from penstock.storage.log.log import MessageLog

FLAGS_AT: Final = 19
HAS_DELIVERY_MODE: Final = 0x10


class WriteRequest:
    """Messages of one sender on their way to the disk. answerable: who is told when they are safe,
    None for nobody; commands: where they count until then, None for nowhere; count, bytes: what was
    charged on the hop; uncharged_bytes: of those that were not, because they are embedded;
    queued_ns, joined_ns: when the turns began in which the queue and the store took them; need: the
    entry of the cluster's log that mirrors have to have, while the request waits for them; batch:
    what a quorum queue shows then, None of others."""

    __slots__ = (
        "answerable",
        "batch",
        "bytes",
        "commands",
        "count",
        "joined_ns",
        "lane",
        "messages",
        "need",
        "origin",
        "queued_ns",
        "uncharged_bytes",
    )

    def __init__(
        self,
        lane: "WriteLane",
        origin: Account,
        answerable: Answerable | None,
        messages: list[Message],
    ) -> None:
        self.lane = lane
        self.origin = origin
        self.answerable = answerable
        self.messages = messages
        self.commands: Commands | None = None
        self.batch: UncommittedBatch | None = None
        self.count: i64 = 0
        self.bytes: i64 = 0
        self.uncharged_bytes: i64 = 0
        self.queued_ns: i64 = 0
        self.joined_ns: i64 = 0
        self.need: i64 = 0

    def answer(self, times: SyncTimes) -> None:
        """Tell the sender, if it waits, that they are safe. times: of the batch they were in."""
        if self.batch is not None:
            queue = self.lane.queue
            assert isinstance(queue, ClassicActor), "no other is a quorum queue"
            queue.committed(self.batch)
        answerable = self.answerable
        if answerable is not None:
            answerable.timed(self.queued_ns, self.joined_ns, times.sent_ns, times.done_ns)
            answerable.accepted(self.messages, len(self.messages))
        if self.commands is not None:
            self.commands.applied(len(self.messages))


class WriteLane(Hop):
    """The hop from `queue` to a store. items: requests the store has not taken, oldest first;
    is_wanted: the queue still exists; waiting_count: requests that were not answered yet;
    uncharged_bytes: of the requests in `items`; free_count: messages that ever cost no credit."""

    __slots__ = (
        "free_count",
        "is_listed",
        "is_wanted",
        "items",
        "queue",
        "uncharged_bytes",
        "waiting_count",
    )

    def __init__(self, queue: Actor, store: str, store_gate: Gate) -> None:
        super().__init__(queue.identity, LAYER_QUEUE, queue.gate, store, LAYER_STORE, store_gate)
        self.queue = queue
        self.items: list[WriteRequest] = []
        self.is_listed = False
        self.is_wanted = True
        self.waiting_count: i64 = 0
        self.free_count: i64 = 0
        self.uncharged_bytes: i64 = 0


class StoreLane(WriteLane):
    """The hop from a classic queue to the message store. index: the queue's in the log; keeps_all:
    what is not persistent comes back after a restart as well, as it does in quorum queues;
    and in mirrored ones;
    is_pass_waiting: it would have more paged, and is woken when there is credit for it; mirroring:
    None for a queue without mirrors; behind: requests that wait for them, oldest first, bounded by
    the hop's window."""

    __slots__ = ("behind", "index", "is_pass_waiting", "keeps_all", "mirroring")

    def __init__(self, queue: Actor, store: str, store_gate: Gate, index: QueueIndex) -> None:
        super().__init__(queue, store, store_gate)
        self.index = index
        self.is_pass_waiting = False
        self.keeps_all = False
        self.mirroring: Mirroring | None = None
        self.behind: list[StoreRequest] = []

    def keeps(self, message: Message) -> bool:
        """Whether `message` comes back after a restart."""
        return self.keeps_all or is_persistent(message)


class StoreRequest(WriteRequest):
    """Messages for the message store. has_fleeting: there are some among them that are not
    persistent and only leave memory."""

    __slots__ = ("has_fleeting", "store_lane")

    def __init__(
        self,
        lane: StoreLane,
        origin: Account,
        answerable: Answerable | None,
        messages: list[Message],
    ) -> None:
        super().__init__(lane, origin, answerable, messages)
        self.store_lane = lane
        self.has_fleeting = False

    def lanes(self) -> list[StoreLane]:
        """Of the queues whose messages it has."""
        return [self.store_lane]

    def append_to(self, log: MessageLog, now_ms: int) -> GroupAppend | None:
        """Put them into the open batch of `log`; what has to follow before anything else does, None
        for nothing. now_ms: wall clock."""
        lane = self.store_lane
        index = lane.index
        if not self.has_fleeting:
            log.append_all(index, self.messages, now_ms)
            return None
        for message in self.messages:
            log.append(index, message, now_ms, lane.keeps(message))
        return None


def is_persistent(message: Message) -> bool:
    """Whether the publisher asked for delivery mode 2."""
    raw = message.raw
    flags: i64 = i64(raw[FLAGS_AT])
    if flags & HAS_DELIVERY_MODE == 0:
        return False
    if flags == HAS_DELIVERY_MODE:
        return raw[FLAGS_AT + 2] == PERSISTENT
    return delivery_mode(raw, FLAGS_AT, int(message.header_bytes) + 7) == PERSISTENT
