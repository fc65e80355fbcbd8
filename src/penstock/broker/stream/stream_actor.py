"""The actor of one stream queue: hands what is published to the stream store, and gives each of its
consumers what lies at that consumer's place.

Nothing leaves a stream by being read. Publishers are held by the disk alone, through the hop to the
store; a consumer that is slow, or away, holds nobody. Source: RabbitMQ's rabbit_stream_queue.
"""

from collections.abc import Iterable
from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.actor import Line
from penstock.broker.actors.lane import Answerable, Lane
from penstock.broker.actors.log import Log
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.store.write_request import WriteRequest
from penstock.broker.stream.chunk_cursor import ChunkCursor
from penstock.broker.stream.stream_cursor import StreamAccess, StreamCursor
from penstock.broker.stream.stream_groups import StreamGroupRegistry, StreamGroups
from penstock.broker.stream.stream_store import StreamLane, StreamStore, stream_request
from penstock.broker.vhost.stream_arguments import (
    AGO,
    AT_OFFSET,
    AT_TIME,
    FIRST,
    GROUP_KEY,
    LAST,
    QUERY_CHARACTERS_MAX,
    QUERY_KEY,
    filter_bytes_of,
    filter_of,
    lag_bound_of,
    not_supported,
    retention_of,
    start_of,
    until_of,
    wants_chunks,
)
from penstock.flow.account import Account
from penstock.flow.credit import Strategy
from penstock.protocol.content import Message
from penstock.queues.consumers import Consumer, Delivery
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, ClassicQueue
from penstock.storage.layout.format import OUTBOX_QUEUE_ID
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.stored import Stored
from penstock.streams.log import Retention, StreamLog
from penstock.streams.reader_groups import LagBound

NS_PER_US: Final = 1000


class StreamCounts(ClassicQueue):
    """What others ask of a queue's messages: how many can be read. None of them is in memory."""

    __slots__ = ("log",)

    def __init__(self) -> None:
        super().__init__()
        self.log: StreamLog | None = None

    def ready_count(self) -> i64:
        log = self.log
        return 0 if log is None else log.count()

    def ready_messages(self, step: int = 1) -> list[Message]:
        return []


class Outbox:
    """The messages that commits have for one stream, in the message log until the stream has
    them."""

    __slots__ = ("index", "store")

    def __init__(self, store: StoreActor, queue_id: int) -> None:
        self.store = store
        self.index: QueueIndex = store.log.open_queue(OUTBOX_QUEUE_ID + queue_id)

    def drop(self) -> None:
        """The stream is deleted."""
        self.store.log.drop_queue(self.index)
        self.store.has_settled()

    def settle(self, message: Message) -> None:
        """The stream has `message`."""
        stored = message.stored
        if self.index.is_dropped or not isinstance(stored, Stored):
            return
        position = stored.leave(self.index.queue_id)
        if position > 0:
            self.store.log.settle(self.index, int(position))
            self.store.has_settled()


class StreamActor(QueueActor):
    """cursors: of its consumers; store, lane: its way to the disk, None until it has one;
    is_in_memory: there is no disk; origin: who pays for what is delivered, until the sockets have
    taken it and its record until it is acknowledged; groups: its reader groups, None until it has
    its log, which group_registry keeps; holder: the commit before which nothing is taken, if
    there is one; behind: what was forced upon it meanwhile; outbox: of its commits, if any; idle:
    ready consumers that were asked in a row and took nothing."""

    __slots__ = (
        "behind",
        "counts",
        "cursors",
        "group_registry",
        "groups",
        "holder",
        "idle",
        "is_in_memory",
        "lane",
        "notes",
        "origin",
        "outbox",
        "store",
    )

    def __init__(
        self,
        vhost: str,
        name: str,
        arguments: dict[str, object],
        line: Line,
        strategy: Strategy,
        origin: Account,
        notes: Log,
    ) -> None:
        counts = StreamCounts()
        super().__init__(vhost, name, True, False, "", arguments, line, strategy, counts)
        self.has_own_log = True
        self.counts = counts
        self.cursors: dict[Consumer, StreamCursor] = {}
        self.store: StreamStore | None = None
        self.lane: StreamLane | None = None
        self.is_in_memory = False
        self.groups: StreamGroups | None = None
        self.group_registry: StreamGroupRegistry | None = None
        self.origin = origin
        self.notes = notes
        self.holder: Answerable | None = None
        self.idle: i64 = 0
        self.behind: list[WriteRequest] = []
        self.outbox: Outbox | None = None

    def keep_in(self, store: StreamStore, log: StreamLog, is_in_memory: bool) -> None:
        """What is published goes to `store` from now on."""
        self.is_in_memory = is_in_memory
        self.store = store
        self.lane = store.join(self, log)
        log.filter_bytes = filter_bytes_of(self.arguments)
        self.counts.log = log
        groups = StreamGroups(self, log, self._lag_bound(), is_in_memory, self.origin)
        self.groups = groups
        if self.group_registry is not None:
            self.group_registry.bring_back(self, groups)

    def retention(self, is_in_memory: bool) -> Retention:
        """What its arguments and the policies that apply ask it to keep."""
        definition = {} if self.applied is None else self.applied.definition
        return retention_of(self.arguments, definition, is_in_memory)

    def policies_changed(self) -> None:
        """Retention looks when something is written."""
        log = self.counts.log
        if log is not None:
            log.retention = self.retention(self.is_in_memory)
        if self.groups is not None:
            self.groups.set_bound(self._lag_bound())

    def _lag_bound(self) -> LagBound:
        return lag_bound_of(self.arguments, {} if self.applied is None else self.applied.definition)

    def stop_reason(self) -> str:
        """A group that is too far behind holds its publishers."""
        return "" if self.groups is None else self.groups.holder()

    @property
    def stream_id(self) -> str:
        """Tells this stream from another one of its name."""
        log = self.counts.log
        return "" if log is None else log.made_as

    def own_words(self) -> dict[str, str]:
        """What is to be said of a stream that is not a client's."""
        return {}

    def check_verb(self, what: str, class_id: int, method_id: int) -> None:
        raise not_supported(what, self.name, self.vhost, class_id, method_id)

    def lease_refusal(self) -> str:
        return "is a stream: nothing of it has to be leased, read it by its offset"

    def full_store(self) -> str:
        return "" if self.store is None or not self.store.is_full else self.store.identity

    def has_more_for(self, consumer: Consumer) -> bool:
        return self.cursors[consumer].can_go_on()

    def expects_lifetimes(self) -> None:
        """A message is there as long as the stream keeps it, whatever its expiration says."""

    # -- publishing ------------------------------------------------------------------------------

    def turn(self, budget: i64) -> bool:
        pending = self.pending
        if pending and self.holder is None:
            self.take_round(budget)
        groups = self.groups
        if groups is not None and groups.groups:
            groups.measure()
        log = self.counts.log
        if self.is_in_memory and log is not None:
            self.messages.bytes_ready = log.disk_bytes
        has_more = False
        if self.ready and not self.is_paused:
            has_more = self._serve(budget)
            self.line.charge_outputs()
        for lane in pending:
            self.repay_taken(lane)
        return has_more or (self.holder is None and len(self.pending) > 0)

    def take_lane(self, lane: Lane, budget: i64) -> bool:
        items = lane.items
        count: i64 = len(items)
        if count == 0 or budget == 0:
            return count > 0
        if count > budget:
            lane.items = items[budget:]
            items = items[:budget]
            count = budget
        else:
            lane.items = []
        bytes_: i64 = 0
        for message in items:
            bytes_ += len(message.raw)
        lane.taken += count
        lane.taken_bytes += bytes_
        self.messages.publish_count += count
        to_disk = self.lane
        store = self.store
        assert to_disk is not None and store is not None, "a stream has its log before publishers"
        answerable = lane.answerable if lane.wants_answers else None
        request = stream_request(to_disk, lane.origin, answerable, items, bytes_)
        request.queued_ns = self.line.turn_ns
        if self.holder is None:
            store.offered(request)
        else:
            # A sender that has gone is not held. What it leaves behind is what its window allows.
            self.behind.append(request)
        return len(lane.items) > 0

    def hold(self, holder: Answerable) -> bool:
        """Take nothing from publishers before the commit `holder`, which `let_go` ends; True when
        all that was taken is on the disk. Nobody else holds it."""
        self.holder = holder
        return self.lane is not None and self.lane.waiting_count == 0

    def let_go(self, holder: Answerable) -> None:
        """The commit `holder`, if it holds it, is written or waits for something else."""
        if self.holder is not holder:
            return
        self.holder = None
        behind = self.behind
        self.behind = []
        if self.store is not None:
            for request in behind:
                self.store.offered(request)
        self.wake()

    def catch_up(self) -> None:
        """Nothing that was published can be seen before the disk has it, so nobody waits here."""

    # -- delivering ------------------------------------------------------------------------------

    def _serve(self, budget: i64) -> bool:
        """Give to ready consumers in turn, to `budget` of them at most; True if one of all could
        take more."""
        count: i64 = len(self.ready)
        share: i64 = budget // count if count <= budget else 1
        left: i64 = count if count <= budget else budget
        has_more = False
        while left > 0 and self.ready:
            left -= 1
            at: i64 = self.cursor if self.cursor < len(self.ready) else 0
            self.cursor = at
            consumer = self.ready[at]
            cursor = self.cursors[consumer]
            given = self._give_from(cursor, share)
            can_go_on = cursor.can_go_on()
            self.idle = 0 if given > 0 or can_go_on else self.idle + 1
            if consumer.room() == 0:
                self._hold(consumer)
                continue
            self.cursor = at + 1
            if can_go_on:
                has_more = True
        if count > budget and self.idle < count:
            # Not all were asked since somebody was given something.
            return True
        self.idle = 0
        return has_more

    def serve(self, consumer: Consumer, most: i64) -> i64:
        self.offer(consumer)
        if not consumer.is_ready or self.is_paused:
            return 0
        cursor = self.cursors[consumer]
        given = self._give_from(cursor, most)
        if given > 0:
            self.line.charge_outputs()
        consumer.sink.served = None
        if given > 0 and consumer.is_ready and cursor.can_go_on() and consumer.room() == 0:
            self._hold(consumer)
        return given

    def _give_from(self, cursor: StreamCursor, most: i64) -> i64:
        given: i64 = cursor.give(most)
        self.origin.store(given, given * MESSAGE_OVERHEAD_BYTES)
        self.unacked_count += given
        self.messages.deliver_count += given
        return given

    def read_failed(self, cursor: StreamCursor, error: OSError) -> None:
        """A consumer cannot be given what it is at: it is told that it has ended."""
        consumer = cursor.consumer
        self.notes.error(
            f"{self.identity}: offset {cursor.next} cannot be read; consumer '{consumer.tag}' is "
            "cancelled",
            error,
        )
        if consumer in self.consumers:
            self.remove_consumer(consumer)
            consumer.sink.cancelled_by_broker(consumer)

    def settled(self, delivery: Delivery) -> None:
        """The client has acknowledged: there is room for another."""
        self.messages.ack_count += 1
        self._room_back(delivery)

    def requeue(self, deliveries: list[Delivery]) -> None:
        """The channel has ended. Everything is still there."""
        for delivery in deliveries:
            self._room_back(delivery)

    def _room_back(self, delivery: Delivery) -> None:
        self.unacked_count -= 1
        self.origin.unstore(1, MESSAGE_OVERHEAD_BYTES)
        consumer = delivery.consumer
        assert consumer is not None, "streams are not read by basic.get"
        consumer.unacked -= 1
        consumer.unacked_bytes -= delivery.message.body_bytes
        if not consumer.is_ready:
            self.offer(consumer)

    # -- life ------------------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        store = self.store
        log = self.counts.log
        assert store is not None and log is not None, "a stream has its log before consumers"
        log.is_watched = True
        cursor = self._cursor(consumer, log, store)
        self._note_reader(consumer.arguments)
        start = start_of(self.name, self.vhost, consumer.arguments)
        value: i64 = start.value
        if start.kind == FIRST:
            cursor.next = log.first()
        elif start.kind == LAST:
            cursor.next = log.last_first
        elif start.kind == AT_OFFSET:
            cursor.next = value if value > log.first() else log.first()
        elif start.kind in (AT_TIME, AGO):
            if start.kind == AGO:
                value = self.line.clock.wall_ns() // NS_PER_US - value
            cursor.next = log.first_since(value)
            cursor.since_us = value if value > 0 else 0
        self.cursors[consumer] = cursor
        super().add_consumer(consumer)

    def _note_reader(self, arguments: dict[str, object]) -> None:
        """A consumer reads for one of the groups, and says what people know them by."""
        name, query = arguments.get(GROUP_KEY), arguments.get(QUERY_KEY)
        if self.groups is not None and isinstance(name, str) and isinstance(query, str):
            group = self.groups.groups.get(name)
            if group is not None and query != "":
                group.query = query[:QUERY_CHARACTERS_MAX]

    def _cursor(self, consumer: Consumer, log: StreamLog, store: StreamStore) -> StreamCursor:
        access = StreamAccess(log, store, self, self.origin, self.notes, self.read_failed)
        if wants_chunks(consumer.arguments):
            until = until_of(self.name, self.vhost, consumer.arguments)
            return ChunkCursor(consumer, access, self.name, until)
        cursor = StreamCursor(consumer, access)
        cursor.wanted = filter_of(self.name, self.vhost, consumer.arguments)
        return cursor

    def remove_consumer(self, consumer: Consumer) -> None:
        super().remove_consumer(consumer)
        self._end_cursor(consumer)

    def _end_cursor(self, consumer: Consumer) -> None:
        cursor = self.cursors.pop(consumer, None)
        if cursor is not None:
            cursor.is_ended = True
        log = self.counts.log
        if not self.cursors and log is not None:
            log.is_watched = False
            log.recent = None

    def finish(self, is_crash: bool) -> None:
        super().finish(is_crash)
        for consumer in list(self.cursors):
            self._end_cursor(consumer)
        if self.store is not None and self.lane is not None and not is_crash:
            self.store.drop(self.lane)
        if self.groups is not None and self.group_registry is not None and not is_crash:
            self.group_registry.ended(self, self.groups)
        if self.outbox is not None and not is_crash:
            self.outbox.drop()


def stream_of(queue: QueueActor) -> StreamActor | None:
    """`queue`, if it is a stream: for what only streams have, such as offsets and reader groups."""
    return queue if isinstance(queue, StreamActor) else None


def streams_of(queues: Iterable[QueueActor]) -> list[StreamActor]:
    """Those of `queues` that are streams."""
    return [stream for stream in map(stream_of, queues) if stream is not None]
