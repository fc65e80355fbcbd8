"""What a quorum queue has taken and its store has not answered for: nobody is shown it yet.

As in RabbitMQ a publish counts when a majority has it on the disk; without a cluster, when the disk
has it. Until then it is not among the queue's messages, so all that looks at these, deliveries,
basic.get, leases, lifetimes, limits that drop, knows nothing of it. The store answers requests of
one queue in their order, so what comes out here comes in the order in which it was published.
"""

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.protocol.content import Message
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, Purged

WAITERS_KEPT: Final = 64
"""Before it is looked which of them are gone."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ReadWaiter:
    """Waits for the first message of a queue to be there. Nominal base."""

    __slots__ = ()

    def go_on(self) -> None:
        """The message is there, or will never be: try again."""
        raise NotImplementedError

    def is_gone(self) -> bool:
        """Whether nobody asks any more."""
        return False


class UncommittedBatch:
    """Messages of one request to the store. bytes: of memory that they take; body_bytes: of their
    bodies; is_gone: the queue was purged, or has ended, meanwhile."""

    __slots__ = ("body_bytes", "bytes", "is_gone", "messages")

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.bytes: i64 = 0
        self.body_bytes: i64 = 0
        self.is_gone = False


class Uncommitted:
    """batches: oldest first; due: so many of them the store has answered for, and the queue takes
    them in its next turn; count, bytes, body_bytes: of all messages in them; taken, released:
    batches that ever were; waiters: of basic.get, each with the number of batches that had been
    taken when it asked; waiters_most: with so many it is looked which are gone."""

    __slots__ = (
        "batches",
        "body_bytes",
        "bytes",
        "count",
        "due",
        "released",
        "taken",
        "waiters",
        "waiters_most",
    )

    def __init__(self) -> None:
        self.batches: deque[UncommittedBatch] = deque()
        self.count: i64 = 0
        self.bytes: i64 = 0
        self.body_bytes: i64 = 0
        self.due: i64 = 0
        self.taken: i64 = 0
        self.released: i64 = 0
        self.waiters: list[tuple[int, ReadWaiter]] = []
        self.waiters_most: i64 = WAITERS_KEPT

    def take(self, messages: list[Message]) -> UncommittedBatch:
        """`messages` are on their way to the store, behind all others; the list stays as it is."""
        batch = UncommittedBatch(messages)
        bytes_: i64 = len(messages) * MESSAGE_OVERHEAD_BYTES
        body_bytes: i64 = 0
        for message in messages:
            bytes_ += len(message.raw)
            body_bytes += message.body_bytes
        batch.bytes = bytes_
        batch.body_bytes = body_bytes
        self.batches.append(batch)
        self.count += len(messages)
        self.bytes += bytes_
        self.body_bytes += body_bytes
        self.taken += 1
        return batch

    def release(self) -> UncommittedBatch:
        """The oldest batch, which is due."""
        batch = self.batches.popleft()
        self.due -= 1
        self.count -= len(batch.messages)
        self.bytes -= batch.bytes
        self.body_bytes -= batch.body_bytes
        self.released += 1
        return batch

    def every(self) -> list[Message]:
        """All there are now, oldest first."""
        return [message for batch in self.batches for message in batch.messages]

    def some(self, most: int) -> list[Message]:
        """The oldest `most` at least, if there are so many, for whoever estimates."""
        found: list[Message] = []
        for batch in self.batches:
            found += batch.messages[:most]
            if len(found) >= most:
                break
        return found

    def give_up(self, purged: Purged) -> None:
        """All of it joins what is `purged`: it is not shown when the store answers."""
        for batch in self.batches:
            batch.is_gone = True
            purged.messages.append(list(batch.messages))
        purged.count += int(self.count)
        purged.bytes += self.bytes
        self.batches.clear()
        self.count = 0
        self.bytes = 0
        self.body_bytes = 0
        self.due = 0
        self.released = self.taken
        self.let_go_on()

    def wait(self, waiter: ReadWaiter) -> None:
        """Tell `waiter` when all there is now is ready, or gone. A full disk may let clients wait
        for long, and those that have left meanwhile are not kept."""
        if len(self.waiters) >= self.waiters_most:
            self.waiters = [one for one in self.waiters if not one[1].is_gone()]
            self.waiters_most = WAITERS_KEPT + 2 * len(self.waiters)
        self.waiters.append((int(self.taken), waiter))

    def let_go_on(self) -> None:
        """Tell those who have waited for long enough."""
        done: i64 = 0
        for until, _ in self.waiters:
            if until > self.released:
                break
            done += 1
        if done > 0:
            gone = self.waiters[:done]
            self.waiters = self.waiters[done:]
            for _, waiter in gone:
                waiter.go_on()
