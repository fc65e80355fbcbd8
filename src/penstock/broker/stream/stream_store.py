"""The actor that writes the streams of one virtual host: group commit of their chunks; and the hop
to it from a stream.

A message can be read, and is confirmed, when its batch is on the disk.
"""

from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.actor import Actor, Line
from penstock.broker.actors.disk import Disk
from penstock.broker.actors.lane import Answerable
from penstock.broker.actors.syncing import Syncing
from penstock.broker.store.group_commit import GroupCommit, StoreOwner
from penstock.broker.store.write_request import WriteLane, WriteRequest
from penstock.flow.account import Account
from penstock.flow.credit import Strategy
from penstock.flow.due import DueLine, Timer
from penstock.flow.gate import Gate
from penstock.protocol.content import Message
from penstock.storage.log.job import Job
from penstock.storage.log.roster import IS_STREAM, Entry
from penstock.streams.batch import StreamBatch
from penstock.streams.handles import StreamHandles
from penstock.streams.log import StreamLog
from penstock.streams.segment import StreamSegment

NS_PER_US: Final = 1000
FLUSH_NS: Final = 1_000_000_000
"""A killed broker has left word of what was safe so long before, or longer ago."""


class StreamLane(WriteLane):
    """log: the stream's."""

    __slots__ = ("log",)

    def __init__(self, queue: Actor, store: str, store_gate: Gate, log: StreamLog) -> None:
        super().__init__(queue, store, store_gate)
        self.log = log


def stream_request(
    lane: StreamLane,
    origin: Account,
    answerable: Answerable | None,
    messages: list[Message],
    bytes_: i64,
) -> WriteRequest:
    """Messages for a stream. All of them are charged on the hop, whether their sender waits for
    confirms or not (flow-semantics 8.3, W13). bytes_: of all their frames."""
    request = WriteRequest(lane, origin, answerable, messages)
    request.count = len(messages)
    request.bytes = bytes_
    return request


def identity_of(name: str) -> str:
    """The identity of the stream store of the virtual host `name`."""
    return "store:" + name + ":streams"


def mark_of(segment: StreamSegment) -> Entry:
    """What the roster is told of `segment`: how far it is safe."""
    return Entry(IS_STREAM, segment.queue_id, segment.first, segment.safe_to, segment.safe_next)


class StreamStore(GroupCommit):
    """handles: its files; lanes: of its streams, by queue id; changed: logs with something to
    write; wants_sync: what was written without a sync is synced now; loose: segments with chunks
    behind the last sync; fresh: those of which more is safe than a killed broker would leave word
    of, which goes along when `flush` is due."""

    __slots__ = (
        "changed",
        "content_bytes",
        "flush",
        "fresh",
        "handles",
        "is_flush_due",
        "lanes",
        "loose",
        "syncing",
        "wants_sync",
    )

    def __init__(
        self,
        name: str,
        handles: StreamHandles,
        disk: Disk,
        dues: DueLine,
        strategy: Strategy,
        owner: StoreOwner,
        line: Line,
    ) -> None:
        super().__init__(identity_of(name), name, disk, dues, strategy, owner, line)
        self.handles = handles
        self.lanes: dict[int, StreamLane] = {}
        self.changed: dict[StreamLog, None] = {}
        self.content_bytes: i64 = 0
        self.syncing = Syncing(self._sync_due, dues)
        self.wants_sync = False
        self.loose: dict[StreamSegment, None] = {}
        self.fresh: dict[StreamSegment, None] = {}
        self.flush = Timer(self._flush_due)
        self.is_flush_due = False

    # -- streams ---------------------------------------------------------------------------------

    def join(self, queue: Actor, log: StreamLog) -> StreamLane:
        """A stream is kept here from now on."""
        lane = StreamLane(queue, self.identity, self.gate, log)
        self.strategy.wire(lane)
        self.lanes[int(log.queue_id)] = lane
        return lane

    def offered(self, request: WriteRequest) -> None:
        self._coming(request)
        super().offered(request)

    def _coming(self, request: WriteRequest) -> None:
        lane = request.lane
        assert isinstance(lane, StreamLane), "classic queues have their own store"
        lane.log.coming += request.count
        lane.log.coming_bytes += request.bytes

    def take_now(self, request: WriteRequest) -> None:
        """Into the batch that is being made, past everything that waits: for a start, which brings
        back what was committed."""
        self._coming(request)
        request.lane.waiting_count += 1
        self.gathering.unanswered += len(request.messages)
        self.strategy.charge(request.lane, request.origin, request.count, request.bytes)
        self.append(request, self.line.clock.wall_ns())
        self.open.append(request)
        self.wake()

    def drop(self, lane: StreamLane) -> None:
        """The stream is deleted. What is under way is answered when it is done: as in RabbitMQ,
        what a deleted queue had taken counts as taken."""
        lane.is_wanted = False
        lane.log.drop()
        self.changed[lane.log] = None
        self._forget_unwanted(lane)
        self.wake()

    def _forget_unwanted(self, lane: StreamLane) -> None:
        if not lane.is_wanted and lane.waiting_count == 0:
            self.lanes.pop(int(lane.log.queue_id), None)

    def all_lanes(self) -> list[WriteLane]:
        return [*self.lanes.values()]

    # -- batches ---------------------------------------------------------------------------------

    def append(self, request: WriteRequest, now_ns: i64) -> None:
        lane = request.lane
        assert isinstance(lane, StreamLane), "classic queues have their own store"
        log = lane.log
        log.coming -= request.count
        log.coming_bytes -= request.bytes
        if not lane.is_wanted:
            return
        now_us: i64 = now_ns // NS_PER_US
        for message in request.messages:
            log.append(message, now_us)
        if log.origins is not None:
            log.origins.came(request.origin, len(request.messages), request.bytes, log.next)
        self.content_bytes += request.bytes
        self.changed[log] = None

    def open_bytes(self) -> i64:
        return self.content_bytes

    def has_work(self) -> bool:
        return self.wants_sync or self.is_flush_due or len(self.changed) > 0

    def take_batch(self, has_requests: bool) -> Job | None:
        batch = StreamBatch(self.handles)
        batch.is_prompt = self.syncing.is_prompt or self.wants_sync
        if self.is_flush_due:
            self.is_flush_due = False
            batch.marks = [mark_of(segment) for segment in self.fresh if not segment.is_gone]
            self.fresh = {}
        for log in self.changed:
            log.take(batch)
        self.changed = {}
        self.content_bytes = 0
        return batch

    def submitted(self, batch: Job) -> None:
        assert isinstance(batch, StreamBatch), "streams make no others"
        is_sync = batch.has_to_sync()
        if is_sync:
            self.wants_sync = False
        self.syncing.submitted(is_sync, len(batch.chunks) > 0, self.sync_times.began_ns)

    def _sync_due(self, now_ns: int) -> None:
        self.wants_sync = True
        self.wake()

    def last_batch(self) -> StreamBatch:
        """Everything that is still here, at a clean stop, when no batch is under way."""
        self.take_all()
        batch = StreamBatch(self.handles)
        batch.is_last = True
        for lane in self.lanes.values():
            lane.log.take_last(batch)
            self.changed.pop(lane.log, None)
        for log in self.changed:
            log.take(batch)
        self.say_whole(batch, self.open)
        return batch

    # -- the disk --------------------------------------------------------------------------------

    def written(self, batch: Job) -> None:
        assert isinstance(batch, StreamBatch), "streams make no others"
        for deed in batch.chunks:
            lane = self.lanes.get(int(deed.segment.queue_id))
            if lane is not None:
                lane.log.done(deed)
                lane.queue.wake()
        if self.handles.roster.is_begun:
            self._note_safe(batch)

    def _note_safe(self, batch: StreamBatch) -> None:
        """What `batch` has made safe is said a moment later: the last chunk of a stream has none
        behind it that would."""
        for deed in batch.chunks:
            self.loose[deed.segment] = None
        if not batch.is_synced or not self.loose:
            return
        for segment in self.loose:
            segment.safe_to = segment.synced_to
            segment.safe_next = segment.synced_next
            self.fresh[segment] = None
        self.loose = {}
        if self.flush.due_ns < 0:
            self.dues.put(self.flush, self.line.clock.monotonic_ns() + FLUSH_NS)

    def _flush_due(self, now_ns: int) -> None:
        self.is_flush_due = True
        self.wake()

    def answered(self, lane: WriteLane) -> None:
        assert isinstance(lane, StreamLane), "classic queues have their own store"
        self._forget_unwanted(lane)
