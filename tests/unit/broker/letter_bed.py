"""A broker in memory whose queues dead-letter to each other, with time driven by hand."""

from penstock.broker.dead_letter.dead_letters import DeadLetters
from penstock.broker.queue.queue_actor import QueueActor
from penstock.flow.account import Account
from penstock.protocol import methods as m
from penstock.protocol.content import is_dead_letter
from penstock.protocol.property_lookup import PROPERTIES_OFFSET, headers_table_span
from penstock.protocol.values import Table, Value, decode_table
from penstock.queues.dead_letter import LOST_NAMES
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.rules import DROP_NAMES
from tests.unit.broker.peer import MS, Bed, Peer


def pages_of(page: Account) -> list[Account]:
    """`page` and all below it."""
    return [page, *(one for child in page.children.values() for one in pages_of(child))]


class LetterBed(Bed):
    """One peer declares, publishes and asks."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]  # tests name fields of Config
        self.peer = self.connect("peer")

    def declare(self, name: str, target: str | None = None, **arguments: Value) -> QueueActor:
        """A queue with x-arguments, _ for -; target: the queue its dead letters go to."""
        table: Table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        if target is not None:
            table.setdefault("x-dead-letter-exchange", "")
            table["x-dead-letter-routing-key"] = target
        self.peer.call(1, m.QueueDeclare(name, arguments=table), m.QueueDeclareOk)
        return self.actor(name)

    def letters(self, name: str) -> DeadLetters:
        queue_limits = self.actor(name).queue_limits
        assert queue_limits is not None
        found = queue_limits.dead_letters
        assert isinstance(found, DeadLetters)
        return found

    def lost(self, name: str) -> dict[str, int]:
        counts = self.letters(name).counts.lost
        return {reason: n for reason, n in zip(LOST_NAMES, counts, strict=True) if n}

    def sent(self, name: str) -> dict[str, int]:
        counts = self.letters(name).counts.sent
        return {reason: n for reason, n in zip(DROP_NAMES, counts, strict=True) if n}

    def ready(self, name: str) -> int:
        return int(self.actor(name).messages.ready_count())

    def fill(self, name: str, count: int, peer: Peer | None = None) -> None:
        (peer or self.peer).publish(name, *(b"%06d" % number for number in range(count)))

    def park(self, name: str) -> None:
        """The queue gets no turn any more, as if it had work without end."""
        self.actor(name).is_ready = True

    def rejected(self, count: int, parked: str = "", **arguments: Value) -> DeadLetters:
        """Queue q, whose dead letters go to `dead` unless `arguments` say otherwise, gets so many
        messages, and all are rejected, while the queue `parked` takes nothing."""
        target = None if "dead_letter_exchange" in arguments else "dead"
        self.declare("q", target, **arguments)
        self.fill("q", count)
        if parked:
            self.park(parked)
        self.reject("q", count)
        return self.letters("q")

    def remove(self, name: str, is_crash: bool = False) -> None:
        """The queue goes without anybody looking at it before, as an exclusive one does."""
        self.broker.vhosts["/"].remove_queue(self.actor(name), is_crash)
        self.run()

    def unpark(self, name: str) -> None:
        self.actor(name).is_ready = False
        self.actor(name).wake()
        self.run()

    def wait(self, ms: int) -> None:
        """So much time passes, in steps of 100 ms at most; what is due happens."""
        while ms > 0:
            step = min(ms, 100)
            ms -= step
            self.later(step * MS)

    def reject(self, name: str, count: int) -> None:
        """Get so many messages and reject them for good, all together."""
        last = 0
        for _ in range(count):
            last = self.peer.call(1, m.BasicGet(name, False), m.BasicGetOk).delivery_tag
        self.peer.say(1, m.BasicNack(last, True, False))

    def bodies(self, name: str) -> list[bytes]:
        return [message.body() for message in self.actor(name).messages.ready_messages()]

    def stored_bytes(self) -> int:
        """With what several queues share counted for each of them."""
        return sum(int(page.stored_bytes) for page in pages_of(self.broker.node_account))

    def check_books(self) -> None:
        """What rests is charged, all of it and nothing else; nothing is owed; no error came."""
        self.settle()
        messages = 0
        bytes_ = 0
        for actor in self.broker.vhosts["/"].queues.values():
            ready = actor.messages.ready_messages()
            messages += len(ready) + int(actor.unacked_count)
            bytes_ += sum(len(message.raw) + MESSAGE_OVERHEAD_BYTES for message in ready)
            bytes_ += int(actor.unacked_bytes + actor.unacked_count * MESSAGE_OVERHEAD_BYTES)
            queue_limits = actor.queue_limits
            letters = None if queue_limits is None else queue_limits.dead_letters
            if isinstance(letters, DeadLetters):
                bytes_ += int(letters.held_bytes)
                messages += len(letters.late) + len(letters.stuck)
        assert self.broker.node_account.total_stored_messages() == messages
        assert self.stored_bytes() == bytes_


def headers_of(actor: QueueActor) -> Table:
    """The headers of its first ready message, which must be a dead letter."""
    message = actor.messages.ready_messages()[0]
    assert is_dead_letter(message)
    header = message.header()
    span = headers_table_span(header, PROPERTIES_OFFSET)
    assert span is not None
    return decode_table(header, span[0], span[1])[0]
