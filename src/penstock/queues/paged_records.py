"""What a pager asks of a queue with rules of which part is on the disk. Nominal base."""

from mypy_extensions import i64

from penstock.protocol.content import Message
from penstock.queues.paged import PagedMessages
from penstock.queues.ruled import RuledMessages
from penstock.queues.wanted import Wanted
from penstock.storage.log.reading import Found


class Reading:
    """`wanted` is to be read for `tail`; is_ahead: while what comes before it is in memory."""

    __slots__ = ("is_ahead", "tail", "wanted")

    def __init__(self, tail: PagedMessages, wanted: Wanted, is_ahead: bool) -> None:
        self.tail = tail
        self.wanted = wanted
        self.is_ahead = is_ahead

    def average_bytes(self) -> i64:
        """Header and body of a message that is read; of those found at the start an estimate."""
        if self.wanted.bytes > 0:
            return self.wanted.bytes // self.wanted.count
        return self.tail.paged_bytes() // self.tail.paged_count()


class PagedRecords(RuledMessages):
    """Records for what is in memory at the head, paged queues behind them."""

    __slots__ = ()

    def tails(self) -> list[PagedMessages]:
        """What stands behind the records, live: one at least."""
        raise NotImplementedError

    def unpaged(self) -> RuledMessages:
        """The same queue without tails, which are empty by now."""
        raise NotImplementedError

    def resting_bytes(self) -> i64:
        """Of `bytes_ready`, what cannot leave memory, and is not held against what messages may
        take."""
        return 0

    def head_bytes(self) -> i64:
        """What the first message takes in memory, 0 when it is not there."""
        raise NotImplementedError

    def page_bytes(self, target_bytes: i64, pass_bytes: i64, pass_count: i64) -> list[Message]:
        """As of the paged queue: let memory above `target_bytes` go; what has to be saved."""
        raise NotImplementedError

    def next_read(self, size_bytes: i64, has_room: bool) -> Reading | None:
        """What is to be read next, of about `size_bytes`; None if there is nothing, or it has no
        place in the log yet. has_room: not only what is missing at the head, but ahead."""
        raise NotImplementedError

    def lacks_head(self) -> bool:
        """Whether a message that may be first, or may die first, is on the disk."""
        raise NotImplementedError

    def refill(self, found: list[Found], wall_ahead_ns: i64) -> None:
        """What the tails have at hand gets its records. found: what was read last, in order;
        wall_ahead_ns: the wall clock's time without `now_ns`."""
        raise NotImplementedError

    def husked_out(self, position: i64, message: Message, husk: Message) -> None:
        """The body of `message`, which was taken at `position`, has left memory; `husk` stands for
        it."""
        raise NotImplementedError

    def reject(self, position: i64, husk: Message) -> bool:
        """What was taken at `position` was rejected: it is read, and dropped then. False if it was
        taken before the queue had rules."""
        raise NotImplementedError

    def lost_some(self) -> None:
        """Messages could not be read: those behind them are at other positions now."""

    def restored_unread(self, body_bytes: i64) -> None:
        """What the tail was filled with is all there is, and nobody knows when it came but the
        disk. body_bytes: of all of them, 0 if nobody asks."""
        raise NotImplementedError

    def has_lifetimes(self) -> bool:
        """The tails may have some, so the records stay."""
        return True

    def supersedes(self, message: Message) -> bool:
        """Last values begin when everything is in memory."""
        return False

    def _index_keys(self) -> None:
        """See `supersedes`."""
