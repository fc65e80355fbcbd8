"""What a queue calls to have its messages kept. Nominal base; broker/store/keeper does it."""

from mypy_extensions import i64, mypyc_attr

from penstock.broker.actors.lane import Lane
from penstock.protocol.content import Message
from penstock.queues.consumers import Delivery


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueKeeping:
    """One durable queue's way to the disk."""

    __slots__ = ()

    def has_room(self) -> bool:
        """Whether the queue may take publishes now."""
        return True

    def took(self, lane: Lane, messages: list[Message], count: i64) -> None:
        """The queue has taken the first `count` of `messages`; their senders are answered when they
        are as safe as they asked for. The list is the keeper's from now on."""
        raise NotImplementedError

    def left(self, message: Message) -> None:
        """`message` has left the queue for good. Only for those with a place in the log."""
        raise NotImplementedError

    def left_all(self, deliveries: list[Delivery], first: i64, end: i64) -> None:
        """What `deliveries` first..end-1 brought has left the queue for good, as far as it has a
        place in the log."""
        raise NotImplementedError

    def hold(self, message: Message) -> None:
        """Until `release`, leaving the queue is not yet leaving the log: a letter about it is under
        way. Only for those with a place in the log."""
        raise NotImplementedError

    def release(self, message: Message) -> None:
        """The letter has arrived: `message` leaves the log."""
        raise NotImplementedError

    def give_up(self) -> None:
        """Somebody has decided to go on without the messages that cannot be read."""

    def ended(self) -> None:
        """The queue is gone."""
        raise NotImplementedError
