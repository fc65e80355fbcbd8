"""A basic.get whose message rests on the disk is parked until that is read.

What came behind it on its channel waits with it, so answers keep their order; publishes go on. When
too much waits the connection is not read, see broker/channel/channel.
"""

from penstock.broker.channel.channel import Channel
from penstock.broker.queue.queue_actor import QueueActor, ReadWaiter


class GetWaiter(ReadWaiter):
    """The channel that asked."""

    __slots__ = ("channel",)

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def go_on(self) -> None:
        self.channel.inbox.unpark()
        self.channel.wake()


def wait_for_read(channel: Channel, actor: QueueActor) -> bool:
    """Park the basic.get that `channel` is about, if `actor` has its message on the disk; False if
    there is none to wait for, or the channel is about to end."""
    paging = actor.paging
    if paging is None or channel.inbox.is_ending or not paging.is_read_awaited():
        return False
    channel.inbox.is_parked = True
    paging.wait(GetWaiter(channel))
    return True
