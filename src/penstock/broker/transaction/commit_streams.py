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

from collections.abc import Callable, Iterator
from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.cooperative import Steps
from penstock.broker.actors.lane import Answerable
from penstock.broker.store.app_marks import FRAME_BYTES, HEADER, IS_PERSISTENT
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.stream.stream_actor import Outbox, StreamActor
from penstock.broker.stream.stream_store import stream_request
from penstock.flow.account import Account
from penstock.protocol.content import Address, Message, make_content

REQUEST_MESSAGES: Final = 1024
REQUEST_BYTES: Final = 1_048_576
"""A commit of any size is handed to the stream's store in requests of at most so much."""
SETTLED_AT_ONCE: Final = 512


def outbox_of(actor: StreamActor, store: StoreActor) -> Outbox:
    """Of a stream, made when it is first needed."""
    if actor.outbox is None:
        actor.outbox = Outbox(store, actor.queue_id)
    return actor.outbox


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
    nothing; safe: called when the stream has it on the disk, or is gone; `settled` follows."""

    __slots__ = ("actor", "messages", "note", "safe")

    def __init__(
        self,
        safe: Callable[["StreamShare"], None],
        actor: StreamActor,
        messages: list[Message],
        note: Message | None,
    ) -> None:
        self.safe = safe
        self.actor = actor
        self.messages = messages
        self.note = note

    def append(self, payer: Account) -> Steps[None]:
        """Hand it to the stream's store, which is held; whoever staged a message owes for it until
        it is there. payer: for what nobody staged."""
        actor = self.actor
        sent = 0
        for messages, size in in_requests(self.messages):
            lane, store = actor.lane, actor.store
            if not actor.is_alive or lane is None or store is None:
                break
            sent += len(messages)
            actor.messages.publish_count += len(messages)
            origin = messages[0].origin
            if actor.queue_rate is not None:
                for message in messages:
                    actor.queue_rate.spend(len(message.raw))
            answerable = self if sent == len(self.messages) else None
            if not isinstance(origin, Account):
                origin = payer
            store.offered(stream_request(lane, origin, answerable, messages, size))
            if answerable is None:
                yield 0.0
        if sent < len(self.messages):
            self.safe(self)

    def accepted(self, messages: list[Message], count: i64) -> None:
        """The stream has all of it on the disk, or is gone."""
        self.safe(self)

    def settled(self) -> Steps[None]:
        """The log need not keep them any more."""
        outbox = self.actor.outbox
        if self.note is None or outbox is None:
            return
        for number, message in enumerate(self.messages, 1):
            outbox.settle(message)
            if number % SETTLED_AT_ONCE == 0:
                yield 0.0
        outbox.settle(self.note)


def in_requests(messages: list[Message]) -> Iterator[tuple[list[Message], int]]:
    """`messages` in runs of one cause and at most REQUEST_MESSAGES, REQUEST_BYTES or one message,
    with their bytes."""
    run: list[Message] = []
    size = 0
    for message in messages:
        more = len(message.raw)
        if run and (
            len(run) >= REQUEST_MESSAGES
            or size + more > REQUEST_BYTES
            or message.origin is not run[0].origin
        ):
            yield run, size
            run, size = [], 0
        run.append(message)
        size += more
    if run:
        yield run, size
