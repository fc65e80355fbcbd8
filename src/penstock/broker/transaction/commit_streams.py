"""What a commit brings into streams, which lie in another store than queues: all of it, once.

    held      the stream takes nothing from publishers; what it had taken before is on the disk
    written   the commit's group in the message log has its messages for the stream too, behind a
              note of the offset that they begin at: this is the moment from which they count
    appended  to the stream, before anything else is; publishers go on
    settled   the stream has them on the disk, so the log need not keep them any more

A start that finds such messages in the log looks at the offset: what the stream has by then is
there, the rest is appended, before anything else is. So whenever the broker dies, a stream has all
messages of a commit or none, each once, and in the order of the commits. They are read in the
stream a little later than in queues: when they are in a chunk of its own.
"""

from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.lane import Answerable
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.store.app_marks import FRAME_BYTES, HEADER, IS_PERSISTENT
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.stream.stream_actor import StreamActor, StreamOutbox, stream_of, streams_of
from penstock.broker.stream.stream_lane import stream_request
from penstock.flow.account import Account
from penstock.protocol.content import Address, Message, make_content
from penstock.storage.layout.format import OUTBOX_QUEUE_ID
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.stored import Stored
from penstock.storage.log.groups import GroupEntry

REQUEST_MESSAGES: Final = 4096
REQUEST_BYTES: Final = 1_048_576
"""A commit of any size is handed to the stream's store in requests of at most so much."""


class Outbox(StreamOutbox):
    """The messages that commits have for one stream, in the message log until the stream has
    them."""

    __slots__ = ("index", "store")

    def __init__(self, store: StoreActor, queue_id: int) -> None:
        self.store = store
        self.index: QueueIndex = store.log.open_queue(OUTBOX_QUEUE_ID + queue_id)

    def stream_ended(self) -> None:
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


def outbox_of(actor: StreamActor, store: StoreActor) -> Outbox:
    """Of a stream, made when it is first needed."""
    outbox = actor.outbox
    if not isinstance(outbox, Outbox):
        outbox = Outbox(store, actor.queue_id)
        actor.outbox = outbox
    return outbox


def offset_note(offset: int, count: int) -> Message:
    """What stands in an outbox before `count` messages that belong to `offset` and on."""
    body = b"%d %d" % (offset, count)
    header = HEADER + len(body).to_bytes(8, "big") + IS_PERSISTENT
    note = make_content(1, b"", header, body, FRAME_BYTES)
    # No message has this address: no queue is called "".
    note.address = Address("", "")
    return note


class StreamShare(Answerable):
    """What one stream gets of one commit. note: before it in the log, None in a broker that keeps
    nothing."""

    __slots__ = ("actor", "commit", "messages", "note")

    def __init__(
        self,
        commit: "StreamCommit",
        actor: StreamActor,
        messages: list[Message],
        note: Message | None,
    ) -> None:
        self.commit = commit
        self.actor = actor
        self.messages = messages
        self.note = note

    def append(self, payer: Account) -> None:
        """Hand it to the stream's store; whoever staged a message owes for it until it is there.
        payer: for what nobody staged."""
        actor = self.actor
        lane, store = actor.lane, actor.store
        if not actor.is_alive or lane is None or store is None:
            self.accepted([], 0)
            return
        actor.messages.publish_count += len(self.messages)
        requests = in_requests(self.messages)
        for number, (messages, size) in enumerate(requests, 1):
            origin = messages[0].origin
            if actor.queue_rate is not None:
                for message in messages:
                    actor.queue_rate.spend(len(message.raw))
            answerable = self if number == len(requests) else None
            if not isinstance(origin, Account):
                origin = payer
            store.offered(stream_request(lane, origin, answerable, messages, size))

    def accepted(self, messages: list[Message], count: i64) -> None:
        """The stream has all of it on the disk, or is gone."""
        outbox = self.actor.outbox
        if self.note is not None and isinstance(outbox, Outbox):
            for message in self.messages:
                outbox.settle(message)
            outbox.settle(self.note)
        self.commit.share_done()


class StreamCommit(Answerable):
    """The streams of a commit. held: those that take nothing until it is written; shares: what
    each gets; left: how many of them are not on the disk yet. Nominal base: who commits."""

    __slots__ = ("held", "left", "shares")

    def __init__(self) -> None:
        self.held: list[StreamActor] = []
        self.shares: list[StreamShare] = []
        self.left = 0

    def streams_done(self) -> None:
        """Every stream has its share."""
        raise NotImplementedError

    def hold(self, actors: list[QueueActor]) -> bool:
        """Hold those of `actors` that are streams, all of them or none; True when nothing is on
        its way to one any more."""
        streams = [one for one in streams_of(actors) if one.is_alive]
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

    def entries(
        self, shared: dict[QueueActor, list[Message]], store: StoreActor
    ) -> list[GroupEntry]:
        """What the group has for streams, which are held and quiet."""
        found: list[GroupEntry] = []
        for actor, messages in shared.items():
            stream = stream_of(actor)
            log = None if stream is None else stream.counts.log
            if stream is None or log is None or not stream.is_alive:
                continue
            assert stream.queue_id > 0, "what a broker with a disk calls a stream is on the disk"
            index = outbox_of(stream, store).index
            note = offset_note(int(log.next), len(messages))
            found.append(GroupEntry(index, note, True))
            found.extend(GroupEntry(index, message, True) for message in messages)
            self.shares.append(StreamShare(self, stream, messages, note))
        return found

    def append(self, shared: dict[QueueActor, list[Message]], payer: Account) -> None:
        """It counts from now on: streams get their shares, and publishers go on."""
        kept = {share.actor for share in self.shares}
        for actor, messages in shared.items():
            stream = stream_of(actor)
            if stream is not None and stream not in kept:
                self.shares.append(StreamShare(self, stream, messages, None))
        # One more, so that it is not done before all are handed over.
        self.left = len(self.shares) + 1
        for share in self.shares:
            share.append(payer)
        self.let_go()
        self.share_done()

    def share_done(self) -> None:
        """One of the streams has its share on the disk."""
        self.left -= 1
        if self.left == 0:
            self.streams_done()


def in_requests(messages: list[Message]) -> list[tuple[list[Message], int]]:
    """`messages` in runs of one cause and at most REQUEST_MESSAGES, REQUEST_BYTES or one message,
    with their bytes."""
    found: list[tuple[list[Message], int]] = []
    run: list[Message] = []
    size = 0
    for message in messages:
        more = len(message.raw)
        if run and (
            len(run) >= REQUEST_MESSAGES
            or size + more > REQUEST_BYTES
            or message.origin is not run[0].origin
        ):
            found.append((run, size))
            run, size = [], 0
        run.append(message)
        size += more
    if run:
        found.append((run, size))
    return found
