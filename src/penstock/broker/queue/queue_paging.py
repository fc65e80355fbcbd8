"""What a queue calls to have what it holds above its target put on the disk, and read back in time.
Nominal bases; broker/paging/pager does it.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.broker.actors.actor import Actor
from penstock.queues.rules import QueueRules

NO_PAGING: Final = 1 << 62
"""A target that no queue reaches: nothing is paged."""
ALWAYS: Final = -1
"""A mark that every queue is above: its pager is asked at the end of every turn."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ReadWaiter:
    """Who waits for the first message of a queue to be read from the disk. Nominal base."""

    __slots__ = ()

    def go_on(self) -> None:
        """The message is there, or will never be: try again."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class QueuePaging:
    """One queue's way out of memory and back; before a queue pages for the first time, that of all
    of them together. Nominal base."""

    __slots__ = ()

    def turn_ended(self, actor: Actor) -> None:
        """The queue `actor` holds more than its mark: page what is above its target, and read
        ahead."""
        raise NotImplementedError

    def aim(self, target_bytes: i64) -> None:
        """Another target for a queue that pages already. target_bytes: of memory, 0.. ."""
        raise NotImplementedError

    def is_read_awaited(self) -> bool:
        """Whether the first message rests on the disk, and will be read."""
        return False

    def wait(self, waiter: ReadWaiter) -> None:
        """Tell `waiter` when the first message was read."""
        raise NotImplementedError

    def may_keep_records(self, rules: QueueRules) -> bool:
        """Whether the queue may go by `rules`, which need records, now: what is on the disk may
        stay there, or nothing is. If not, it is told when everything is in memory."""
        return True

    def purging(self) -> None:
        """Everything that is ready is about to be dropped."""

    def ended(self) -> None:
        """The queue is gone."""
