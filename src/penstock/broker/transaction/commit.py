"""One commit of staged transactions: what its queues and streams get, and how it comes into them.

It goes past limits and credit, because it is committed: what holds publishers back has been asked
before, and is measured again by the queue's next turn.

Before that a commit stands in line for queues that are full for now (`Place`). A queue that is too
deep hands its room out in rations to those whose grants its gate keeps; a commit that only looked
now and then would wait for as long as publishers press. Commits that overlap would keep publishers
out, so none goes to a queue that another one holds while they wait there.
"""

from collections.abc import Callable
from itertools import groupby

from mypy_extensions import i64

from penstock.broker.actors.lane import Answerable, Lane
from penstock.broker.queue.queue_actor import COMMITTED, QueueActor
from penstock.broker.store.durability import StoreDurability
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.stream.stream_actor import StreamActor, stream_of, streams_of
from penstock.broker.transaction.commit_routes import Asked
from penstock.broker.transaction.commit_streams import StreamShare, offset_note, outbox_of
from penstock.broker.transaction.stages import StagedTransaction
from penstock.flow.account import Account
from penstock.flow.gate import Deferred
from penstock.flow.hop import LAYER_CHANNEL, LAYER_QUEUE
from penstock.protocol.content import Message
from penstock.protocol.property_lookup import FLAG_EXPIRATION
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.storage.log.groups import GroupEntry


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

    def is_held(self, shared: dict[QueueActor, list[Message]]) -> bool:
        """Whether a queue takes nothing for now, in whose line the commit stands then. shared: what
        each is to get."""
        is_held = False
        for actor, messages in shared.items():
            if not actor.is_alive:
                continue
            durability = actor.durability
            if actor.pending and isinstance(durability, StoreDurability) and durability.commits > 0:
                is_held = True
            if actor.stop_reason() == "":
                continue
            place = self.places.get(actor)
            if place is None:
                place = self.places[actor] = Place(_bytes_of(messages))
                actor.gate.deferred.append(place)
            if not place.is_granted:
                is_held = True
        return is_held

    def leave(self) -> None:
        """It waits for nobody any more."""
        for actor, place in self.places.items():
            actor.gate.drop(place)
        self.places = {}


def _bytes_of(messages: list[Message]) -> i64:
    total: i64 = 0
    for message in messages:
        total += len(message.raw) + MESSAGE_OVERHEAD_BYTES
    return total


NOBODY = Answerable()


def put_in(actor: QueueActor, messages: list[Message]) -> None:
    """`messages` are behind everything in `actor` now; those that it keeps have their places in the
    log. Nothing happens to a queue that is gone."""
    if not actor.is_alive:
        return
    durability = actor.durability
    is_kept = isinstance(durability, StoreDurability) and durability.is_lasting
    if any(message.raw[19] & FLAG_EXPIRATION for message in messages):
        actor.expects_lifetimes()
    if isinstance(durability, StoreDurability):
        durability.is_arriving = is_kept
    try:
        for _, run in groupby(messages, _payer):
            _take(actor, list(run))
    finally:
        if isinstance(durability, StoreDurability):
            durability.is_arriving = False
    actor.wake()


def _payer(message: Message) -> int:
    return id(message.origin)


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
    streams have what they were to get.
    """

    __slots__ = (
        "app",
        "asked",
        "batch",
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
        asked: Asked,
        app: str,
        batch: int,
        stages: list[StagedTransaction],
    ) -> None:
        self.complete = complete
        self.finish = finish
        self.asked = asked
        self.vhost = asked.vhost.name
        self.app = app
        self.batch = batch
        self.stages = stages
        self.shared: dict[QueueActor, list[Message]] = {}
        self.durabilities: list[StoreDurability] = []
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

    def entries(self, store: StoreActor) -> list[GroupEntry]:
        """What the group has for streams, which are held and quiet."""
        found: list[GroupEntry] = []
        for actor, messages in self.shared.items():
            stream = stream_of(actor)
            log = None if stream is None else stream.counts.log
            if stream is None or log is None or not stream.is_alive:
                continue
            assert stream.queue_id > 0, "what a broker with a disk calls a stream is on the disk"
            index = outbox_of(stream, store).index
            note = offset_note(int(log.next), len(messages))
            found.append(GroupEntry(index, note, True))
            found.extend(GroupEntry(index, message, True) for message in messages)
            self.shares.append(StreamShare(self.share_done, stream, messages, note))
        return found

    def append(self) -> None:
        """It counts from now on: streams get their shares, and publishers go on."""
        kept = {share.actor for share in self.shares}
        for actor, messages in self.shared.items():
            stream = stream_of(actor)
            if stream is not None and stream not in kept:
                self.shares.append(StreamShare(self.share_done, stream, messages, None))
        # One more, so that it is not done before all are handed over.
        self.left = len(self.shares) + 1
        for share in self.shares:
            share.append(self.asked.account)
        self.let_go()
        self.share_done()

    def share_done(self) -> None:
        """One of the streams has its share on the disk."""
        self.left -= 1
        if self.left == 0:
            self.finish(self)
