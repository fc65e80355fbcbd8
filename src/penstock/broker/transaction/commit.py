"""One commit of staged transactions: what its queues and streams get, and how it comes into them.

It goes past limits and credit, because it is committed: what holds publishers back has been asked
before, and is measured again by the queue's next turn.

Before that a commit stands in line for queues that are full for now (`Place`). A queue that is too
deep hands its room out in rations to those whose grants its gate keeps; a commit that only looked
now and then would wait for as long as publishers press. Commits that overlap would keep publishers
out, so none goes to a queue that another one holds while they wait there.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.cooperative import Steps
from penstock.broker.actors.lane import Answerable, Lane
from penstock.broker.queue.queue_actor import COMMITTED, QueueActor
from penstock.broker.store.durability import StoreDurability
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.store.write_request import FLAGS_AT
from penstock.broker.stream.stream_actor import StreamActor, stream_of, streams_of
from penstock.broker.transaction.commit_routes import Asked, Share
from penstock.broker.transaction.commit_streams import StreamShare, offset_note, outbox_of
from penstock.broker.transaction.stages import StagedTransaction
from penstock.flow.account import Account
from penstock.flow.gate import Deferred
from penstock.flow.hop import LAYER_CHANNEL, LAYER_QUEUE
from penstock.protocol.content import Message
from penstock.protocol.property_lookup import FLAG_EXPIRATION
from penstock.storage.log.groups import GroupEntry

PIECE: Final = 256
"""Messages of one step: there may be a million in a commit, and others have their turns between."""


class Place(Deferred):
    """In the line of one gate. left_bytes: of the commit's share, not granted yet; is_granted: all
    of it is, so that this queue does not hold the commit any more."""

    __slots__ = ("is_granted", "left_bytes")

    def __init__(self, bytes_: i64) -> None:
        self.left_bytes: i64 = bytes_
        self.is_granted = False

    def release(self) -> None:
        self.left_bytes = 0
        self.is_granted = True

    def kept_bytes(self) -> i64:
        return self.left_bytes

    def release_part(self, bytes_: i64) -> None:
        self.left_bytes -= bytes_


class CommitLine:
    """places: of one commit, by queue."""

    __slots__ = ("places",)

    def __init__(self) -> None:
        self.places: dict[QueueActor, Place] = {}

    def is_held(self, shared: dict[QueueActor, Share]) -> bool:
        """Whether a queue takes nothing for now, in whose line the commit stands then. shared: what
        each is to get."""
        is_held = False
        for actor, share in shared.items():
            if not actor.is_alive:
                continue
            durability = actor.durability
            if actor.pending and isinstance(durability, StoreDurability) and durability.commits > 0:
                is_held = True
            if actor.stop_reason() == "":
                continue
            place = self.places.get(actor)
            if place is None:
                place = self.places[actor] = Place(share.bytes)
                actor.gate.keep(place)
            if not place.is_granted:
                is_held = True
        return is_held

    def leave(self) -> None:
        """It waits for nobody any more."""
        for actor, place in self.places.items():
            actor.gate.drop(place)
        self.places = {}


NOBODY = Answerable()
NOTE_ROOM: Final = 256
"""Bytes of a stream's note in the log, and more."""


def put_in(actor: QueueActor, messages: list[Message], first: i64, end: i64) -> None:
    """Those at places first..end - 1 are behind everything in `actor` now; what it keeps of them
    has its place in the log. Nothing happens to a queue that is gone."""
    if not actor.is_alive:
        return
    durability = actor.durability
    is_kept = isinstance(durability, StoreDurability) and durability.is_lasting
    if isinstance(durability, StoreDurability):
        durability.is_arriving = is_kept
    try:
        run: list[Message] = []
        at: i64 = first
        while at < end:
            message = messages[at]
            at += 1
            if message.raw[FLAGS_AT] & FLAG_EXPIRATION:
                actor.expects_lifetimes()
            if run and run[0].origin is not message.origin:
                _take(actor, run)
                run = []
            run.append(message)
        if run:
            _take(actor, run)
    finally:
        if isinstance(durability, StoreDurability):
            durability.is_arriving = False
    actor.wake()


def _take(actor: QueueActor, messages: list[Message]) -> None:
    origin = messages[0].origin
    assert isinstance(origin, Account), "a connection's page pays for what it publishes"
    lane = Lane("transaction", LAYER_CHANNEL, actor.gate, actor, LAYER_QUEUE, origin, NOBODY)
    lane.items = messages
    lane.has_shared = True
    queue_rate = actor.queue_rate
    if queue_rate is not None:
        for message in messages:
            queue_rate.spend(len(message.raw))
    while actor.take_lane(lane, COMMITTED):
        pass


class Commit(Answerable):
    """One commit of staged transactions on its way.

    shared: what each queue gets, once it is routed; line: where it waits for them; kept: what the
    catalogue has to have, so that a crash leaves them, -1 for not known yet; held: streams that
    take nothing until it is written; shares: what each stream gets; left: how many of these are
    not on the disk yet. complete: called when the disk has all of it; finish: called when its
    streams have what they were to get; begin: has steps done, between others' turns.
    """

    __slots__ = (
        "app",
        "asked",
        "batch",
        "begin",
        "complete",
        "durabilities",
        "finish",
        "held",
        "kept",
        "left",
        "line",
        "mark",
        "shared",
        "shares",
        "stages",
        "vhost",
    )

    def __init__(
        self,
        complete: Callable[["Commit"], None],
        finish: Callable[["Commit"], None],
        begin: Callable[[Steps[None]], None],
        asked: Asked,
        app: str,
        batch: int,
        stages: list[StagedTransaction],
    ) -> None:
        self.complete = complete
        self.finish = finish
        self.begin = begin
        self.asked = asked
        self.vhost = asked.vhost.name
        self.app = app
        self.batch = batch
        self.stages = stages
        self.shared: dict[QueueActor, Share] = {}
        self.durabilities: dict[StoreDurability, None] = {}
        self.line = CommitLine()
        self.kept = -1
        self.mark: Message | None = None
        self.held: list[StreamActor] = []
        self.shares: list[StreamShare] = []
        self.left = 0

    def accepted(self, messages: list[Message], count: i64) -> None:
        """The disk has all of it."""
        self.complete(self)

    def hold(self) -> bool:
        """Hold its streams, all of them or none; True when nothing is on its way to one any
        more."""
        streams = [one for one in streams_of(self.shared) if one.is_alive]
        if any(one.holder is not None and one.holder is not self for one in streams):
            self.let_go()
            return False
        for one in self.held:
            if one not in streams:
                one.let_go(self)
        self.held = streams
        are_quiet = [one.hold(self) for one in streams]
        return all(are_quiet)

    def let_go(self) -> None:
        """Publishers to its streams go on."""
        for one in self.held:
            one.let_go(self)
        self.held = []

    def room(self) -> int:
        """Bytes that its records take at most, in the log."""
        total: i64 = 0
        for share in self.shared.values():
            total += share.room + NOTE_ROOM
        return int(total)

    def hold_queues(self) -> None:
        """Its lasting queues take nothing else until `put_in_queues`."""
        for actor in self.shared:
            durability = actor.durability
            if isinstance(durability, StoreDurability) and durability.is_lasting:
                self.durabilities[durability] = None
                durability.commits += 1

    def entries(self, store: StoreActor) -> Steps[list[GroupEntry]]:
        """What the log gets, for queues and for streams, which are held and quiet."""
        found: list[GroupEntry] = []
        left: i64 = PIECE
        for actor, share in self.shared.items():
            durability = actor.durability
            lane = None
            if isinstance(durability, StoreDurability):
                if durability not in self.durabilities:
                    continue
                index = durability.index
                lane = durability.lane
            else:
                stream = stream_of(actor)
                log = None if stream is None else stream.counts.log
                if stream is None or log is None or not stream.is_alive:
                    continue
                assert stream.queue_id > 0, "what a broker with a disk calls a stream is on it"
                index = outbox_of(stream, store).index
                note = offset_note(int(log.next), len(share.messages))
                found.append(GroupEntry(index, note, True))
                self.shares.append(StreamShare(self.share_safe, stream, share.messages, note))
            for message in share.messages:
                found.append(GroupEntry(index, message, lane is None or lane.keeps(message)))
                left -= 1
                if left == 0:
                    left = PIECE
                    yield 0.0
        return found

    def put_in_queues(self) -> Steps[None]:
        """It counts from now on: queues have their shares, and take what others publish."""
        left: i64 = PIECE
        for actor, share in self.shared.items():
            if not actor.has_own_log:
                at: i64 = 0
                count: i64 = len(share.messages)
                while at < count:
                    end: i64 = at + left
                    if end > count:
                        end = count
                    put_in(actor, share.messages, at, end)
                    left -= end - at
                    at = end
                    if left == 0:
                        left = PIECE
                        yield 0.0
            durability = actor.durability
            if isinstance(durability, StoreDurability) and durability in self.durabilities:
                del self.durabilities[durability]
                durability.commits -= 1
                actor.wake()
        for durability in self.durabilities:
            durability.commits -= 1
        self.durabilities = {}

    def put_in_streams(self) -> Steps[None]:
        """Streams get their shares, and publishers to them go on."""
        kept = {share.actor for share in self.shares}
        for actor, share in self.shared.items():
            stream = stream_of(actor)
            if stream is not None and stream not in kept:
                self.shares.append(StreamShare(self.share_safe, stream, share.messages, None))
        # One more, so that it is not done before all are handed over.
        self.left = len(self.shares) + 1
        for stream_share in self.shares:
            yield from stream_share.append(self.asked.account)
        self.let_go()
        self._share_done()

    def share_safe(self, share: StreamShare) -> None:
        """A stream has its share on the disk, or is gone."""
        self.begin(self._settle(share))

    def _settle(self, share: StreamShare) -> Steps[None]:
        yield from share.settled()
        self._share_done()

    def _share_done(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.finish(self)
