"""What one basic.ack, nack or recover has named, settled in turns when it is much. COMPILED."""

from typing import Final

from mypy_extensions import i64

from penstock.base.errors import ChannelFault
from penstock.broker.channel.transactions import DROP
from penstock.queues.consumers import Delivery

SETTLED_AT_ONCE: Final = 512
"""Deliveries that one basic.ack, nack or recover settles before others have their turn."""
DROPPED_AT_ONCE: Final = 16
"""Of what is rejected for good: each may have to be written anew and published as a dead letter."""
GIVE_BACK: Final = 3
"""As REQUEUE, but what takes nothing back just forgets; beside ACK, REQUEUE and DROP."""


class Settling:
    """Deliveries that one settle has named, all of them no longer in the table.

    left: the oldest last; action: ACK, REQUEUE, DROP or GIVE_BACK; what, method_id: the method, for
    streams, which take nothing back; is_again: the method is not over with them, and is performed
    again then."""

    __slots__ = ("action", "is_again", "left", "method_id", "what")

    def __init__(self, deliveries: list[Delivery], action: int, what: str, method_id: int) -> None:
        deliveries.reverse()
        self.left = deliveries
        self.action = action
        self.what = what
        self.method_id = method_id
        self.is_again = False

    def next(self) -> list[Delivery]:
        """The oldest ones, oldest first."""
        count = settled_at_once(self.action)
        some = self.left[-count:]
        del self.left[-count:]
        some.reverse()
        return some


def settled_at_once(action: int) -> int:
    """Deliveries that are settled so before others have their turn."""
    return DROPPED_AT_ONCE if action == DROP else SETTLED_AT_ONCE


def unknown_tag(tag: i64, method_id: int) -> ChannelFault:
    """RabbitMQ's answer to a delivery tag nobody waits for. method_id: of class basic."""
    shown: i64 = tag
    text = str(int(shown)) if shown >= 0 else str(int(shown) + (1 << 64))
    return ChannelFault(406, f"unknown delivery tag {text}", 60, method_id)
