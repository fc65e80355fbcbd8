"""What a durable queue does so that its persistent messages survive: hand them to the store.

A message rests in the queue and may be delivered at once; whoever waits for its confirm is told
when the disk has it. A message that leaves the queue, however, is settled in the log. Messages that
are not persistent get there only when the queue pages (broker/paging/pager), and nobody waits for
those. A quorum queue keeps them like all others, and shows a message to nobody before the store has
answered for it (broker/queue/uncommitted).
"""

from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.lane import Lane
from penstock.broker.queue.queue_actor import QueueActor, QueueDurability
from penstock.broker.queue.uncommitted import Uncommitted
from penstock.broker.store.mirrors import Mirroring, Mirrors
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.store.write_request import (
    FLAGS_AT,
    HAS_DELIVERY_MODE,
    StoreLane,
    StoreRequest,
    is_persistent,
)
from penstock.flow.account import Account
from penstock.flow.pending import Commands, MirrorCredit, SoftLimit
from penstock.protocol.content import Message
from penstock.protocol.property_lookup import PERSISTENT
from penstock.queues.consumers import Delivery
from penstock.queues.mirror_rule import mirror_rule
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.stored import Stored

FIXED_HEADER_BYTES: Final = 14
"""Of a content header's payload without values: class, weight, body size, flags."""


UNCHARGED_BYTES: Final = 1_048_576
"""Messages that cost no credit may wait for the store up to this; then the queue takes no more, as
RabbitMQ's does while it writes its index (flow-semantics 6.8)."""


class StoreDurability(QueueDurability):
    """lane: the queue's hop to `store`; embed_below: messages smaller than this, in bytes of body
    and properties, cost no credit on it (S1, queue_index_embed_msgs_below), 0 for none; held: those
    that stay in the log until their dead letters have arrived, bounded by the letters' window;
    is_lasting: persistent messages come back after a restart, so whoever sent them waits for the
    disk; is_through: everything goes to the disk as it comes, because a part of the queue is there
    already, and order on the disk is to be that of the queue; commits: transactions on their way to
    the disk, before which the queue takes nothing; is_arriving: what the queue takes now has its
    place in the log already; uncommitted: what a quorum queue shows when the store has answered for
    it, None for others; soft_limit: of what one channel may have on its way to a quorum queue,
    None for others; mirrors: the nodes that policies may have it mirrored to, None for none;
    unread: positions of what cannot be read, until somebody gives it up, bounded
    by the queue's messages."""

    __slots__ = (
        "commits",
        "embed_below",
        "held",
        "index",
        "is_arriving",
        "is_lasting",
        "is_through",
        "lane",
        "mirrors",
        "soft_limit",
        "store",
        "uncommitted",
        "unread",
    )

    def __init__(
        self, store: StoreActor, lane: StoreLane, index: QueueIndex, embed_below: int
    ) -> None:
        self.store = store
        self.soft_limit: SoftLimit | None = None
        self.mirrors: Mirrors | None = None
        self.uncommitted: Uncommitted | None = None
        self.lane = lane
        self.index = index
        self.embed_below: i64 = embed_below
        self.held: dict[Message, None] = {}
        self.unread: list[int] = []
        self.is_lasting = True
        self.is_through = False
        self.is_arriving = False
        self.commits: i64 = 0

    def has_room(self) -> bool:
        return self.lane.uncharged_bytes < UNCHARGED_BYTES and self.commits == 0

    def took(self, lane: Lane, messages: list[Message], count: i64) -> None:
        """The queue has taken the first `count` of `messages` out of `lane`."""
        if self.is_arriving:
            return
        kept = messages
        is_all = True
        fleeting: list[Message] = []
        charged: i64 = 0
        bytes_: i64 = 0
        uncharged_bytes: i64 = 0
        has_fleeting = False
        is_lasting = self.is_lasting
        keeps_all = self.lane.keeps_all
        queue_id: i64 = self.index.queue_id
        below: i64 = self.embed_below
        index: i64 = 0
        # Hardly a call in this loop, because every persistent message goes through it.
        while index < count:
            message = messages[index]
            raw = message.raw
            if not is_lasting:
                is_kept = False
            elif keeps_all:
                is_kept = True
            elif i64(raw[FLAGS_AT]) == HAS_DELIVERY_MODE:
                is_kept = i64(raw[FLAGS_AT + 2]) == PERSISTENT
            else:
                is_kept = is_persistent(message)
            if not is_kept and self.is_through:
                is_kept = True
                has_fleeting = True
            if is_kept:
                # It gets its place in the store's turn, unless it has left by then.
                stored = message.stored
                if stored is None:
                    message.stored = Stored(queue_id)
                else:
                    assert isinstance(stored, Stored), "only the log gives messages a place"
                    stored.join(queue_id)
                if not is_all:
                    kept.append(message)
                size: i64 = len(raw)
                if below > 0 and self._is_embedded(message):
                    uncharged_bytes += size
                else:
                    charged += 1
                    bytes_ += size
            else:
                if is_all:
                    is_all = False
                    kept = messages[:index]
                fleeting.append(message)
            index += 1
        if is_all and count < len(messages):
            kept = messages[:count]
        safe = fleeting if is_lasting or not kept else kept
        if safe and lane.wants_answers:
            lane.answerable.accepted(safe, len(safe))
        if kept:
            answerable = lane.answerable if lane.wants_answers and is_lasting else None
            request = StoreRequest(self.lane, lane.origin, answerable, kept)
            if self.uncommitted is not None:
                request.batch = self.uncommitted.take(kept)
            request.has_fleeting = has_fleeting
            request.count = charged
            request.bytes = bytes_
            request.uncharged_bytes = uncharged_bytes
            request.queued_ns = self.store.line.turn_ns
            request.commands = lane.commands
            self.store.offered(request)

    def commands(self, lane: Lane) -> Commands | None:
        limit = self.soft_limit
        if limit is not None:
            return Commands(lane, self.lane.receiver, limit)
        mirrors = self.mirrors
        if mirrors is None or mirrors.credits == 0 or self.lane.mirroring is None:
            return None
        return MirrorCredit(lane, self.lane.receiver, int(mirrors.credits))

    def policies_changed(self, actor: QueueActor) -> None:
        mirrors = self.mirrors
        if mirrors is None:
            return
        rule = mirror_rule(actor.applied)
        lane = self.lane
        was_mirrored = lane.mirroring is not None
        if rule is None:
            self.store.forget_mirrors(lane)
        else:
            self.store.mirror(lane, Mirroring(mirrors, rule, actor.name))
        is_mirrored = rule is not None
        if is_mirrored == was_mirrored:
            return
        lane.keeps_all = is_mirrored
        mirrors.counted(1 if is_mirrored else -1)
        for sender in actor.lanes:
            if sender.commands is not None:
                sender.commands.ended()
            sender.commands = self.commands(sender)

    def _is_embedded(self, message: Message) -> bool:
        below: i64 = self.embed_below
        if message.body_bytes >= below:
            return False
        return message.body_bytes + message.header_bytes - FIXED_HEADER_BYTES < below

    def save(self, messages: list[Message]) -> None:
        """`messages`, which the queue has reserved places for in the log (Backlog.reserve), are
        paged: nobody waits for them."""
        request: StoreRequest | None = None
        for message in messages:
            origin = message.origin
            if request is None or request.origin is not origin:
                if request is not None:
                    self.store.offered(request)
                assert isinstance(origin, Account), "what rests in a queue is paid by an account"
                request = StoreRequest(self.lane, origin, None, [])
                request.has_fleeting = True
            request.messages.append(message)
            size: i64 = len(message.raw)
            if self._is_embedded(message):
                request.uncharged_bytes += size
            else:
                request.count += 1
                request.bytes += size
        if request is not None:
            self.store.offered(request)

    def left(self, message: Message) -> None:
        """`message`, which has a place in the log, has left the queue for good."""
        if self.held and message in self.held:
            return
        stored = message.stored
        assert isinstance(stored, Stored), "only the log gives messages a place"
        position: i64 = stored.leave(self.index.queue_id)
        if position > 0:
            self.store.log.settle(self.index, position)
            self.store.has_settled()

    def came_back(self, message: Message, count: i64) -> None:
        position: i64 = self._position(message)
        if position > 0 and self.is_lasting:
            self.store.log.note_returned(self.index, int(position), int(count))
            self.store.has_settled()

    def returns_of(self, message: Message) -> i64:
        returned = self.index.returned
        return returned.get(int(self._position(message)), 0) if returned else 0

    def _position(self, message: Message) -> i64:
        """Of `message` in the log, 0 for none."""
        stored = message.stored
        return stored.position_in(self.index.queue_id) if isinstance(stored, Stored) else 0

    def left_all(self, deliveries: list[Delivery], first: i64, end: i64) -> None:
        held = self.held
        queue_id: i64 = self.index.queue_id
        log = self.store.log
        begin: i64 = 0
        last: i64 = -1
        at: i64 = first
        while at < end:
            message = deliveries[at].message
            at += 1
            stored = message.stored
            if stored is None or (held and message in held):
                continue
            assert isinstance(stored, Stored), "only the log gives messages a place"
            position: i64 = stored.position
            if stored.queue_id == queue_id:
                stored.queue_id = 0
                stored.position = 0
            else:
                position = stored.leave(queue_id)
            if position == 0:
                continue
            if position != last + 1:
                if begin > 0:
                    log.settle_run(self.index, begin, last)
                begin = position
            last = position
        if begin > 0:
            log.settle_run(self.index, begin, last)
            self.store.has_settled()

    def hold(self, message: Message) -> None:
        self.held[message] = None

    def release(self, message: Message) -> None:
        if message in self.held:
            del self.held[message]
            self.left(message)

    def note_delivered(self, messages: list[Message]) -> None:
        """`messages` have been delivered and came back: they are redelivered after a restart."""
        last: i64 = 0
        for message in messages:
            position: i64 = self._position(message)
            if position > last:
                last = position
        if last > 0:
            self.store.log.note_delivered(self.index, int(last + 1))

    def cannot_read(self, positions: list[int]) -> None:
        """What the log has at `positions` is damaged. It goes on to count there, so that every
        start finds it again, until it is given up."""
        self.unread.extend(positions)

    def late_mirrors(self) -> str:
        mirroring = self.lane.mirroring
        if mirroring is None or not self.lane.behind:
            return ""
        return mirroring.mirrors.words or ", ".join(mirroring.late(self.lane.behind[0].need))

    def full_store(self) -> str:
        return self.store.identity if self.store.is_full else ""

    def give_up(self) -> None:
        positions = self.unread
        self.unread = []
        for position in positions:
            run = self.index.find(position)
            # Unless it was purged meanwhile.
            if run is not None and run.has(position):
                self.store.log.settle(self.index, position)
        if positions:
            self.store.has_settled()

    def ended(self) -> None:
        """The queue is gone, and what it kept with it."""
        if self.mirrors is not None and self.lane.mirroring is not None:
            self.mirrors.counted(-1)
        self.store.drop(self.lane)
