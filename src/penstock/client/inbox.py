"""What came in and was not taken yet, sorted by channel."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from penstock.client.errors import ChannelClosedError, ClientError, ConnectionClosedError
from penstock.client.events import (
    Blocked,
    Cancelled,
    ChannelClosed,
    ClientEvent,
    Confirmed,
    ConnectionClosed,
    Delivery,
    Opened,
    Replied,
    ReturnedPublish,
    Unblocked,
)
from penstock.protocol.methods import Method

DELIVERIES_HELD_MAX: Final = 100_000
"""Deliveries of one channel, not taken yet; one more ends the channel's use with an error."""
NACKED_HELD_MAX: Final = 1024
"""Refused sequences kept for a channel; the oldest is dropped."""


class ChannelInbox:
    """One channel's part. returned_count: publishes that came back; cancelled: tags of consumers
    that the broker has ended, and the program has not been told of; `replies`: by identity of the
    request, taken with `reply_to`."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.deliveries: deque[Delivery] = deque()
        self.nacked: deque[int] = deque(maxlen=NACKED_HELD_MAX)
        self.returned_count = 0
        self.cancelled: deque[str] = deque()
        self._replies: dict[int, Replied] = {}
        self._closed: ChannelClosed | None = None
        self._is_overrun = False

    def put(self, event: ClientEvent) -> None:
        """Sort in one event of this channel."""
        if isinstance(event, Delivery):
            if len(self.deliveries) >= DELIVERIES_HELD_MAX:
                self._is_overrun = True
            else:
                self.deliveries.append(event)
        elif isinstance(event, Replied):
            self._replies[id(event.request)] = event
        elif isinstance(event, Confirmed) and not event.is_accepted:
            self.nacked.extend(event.sequences)
        elif isinstance(event, ReturnedPublish):
            self.returned_count += 1
        elif isinstance(event, Cancelled):
            self.cancelled.append(event.consumer_tag)
        elif isinstance(event, ChannelClosed):
            self._closed = event

    def reply_to(self, request: Method) -> Replied | None:
        """The reply to `request`, once; None while there is none. Raises: as `check`."""
        found = self._replies.pop(id(request), None)
        if found is None:
            self.check()
        return found

    def check(self) -> None:
        """Raises: ChannelClosedError with the broker's reason; ClientError after an overrun."""
        if self._closed is not None:
            raise ChannelClosedError(self.number, self._closed.code, self._closed.text)
        if self._is_overrun:
            raise ClientError(
                f"channel {self.number}: more than {DELIVERIES_HELD_MAX} deliveries wait to be "
                "taken and later ones were dropped; set a prefetch (qos) or take them faster"
            )


class ClientInbox:
    """The whole connection's part."""

    def __init__(self) -> None:
        self.is_open = False
        self.blocked_reason: str | None = None
        self._channels: dict[int, ChannelInbox] = {}
        self._closed: ConnectionClosed | None = None

    def add_channel(self, number: int) -> ChannelInbox:
        """Begin to collect for channel `number`."""
        channel = ChannelInbox(number)
        self._channels[number] = channel
        return channel

    def remove_channel(self, number: int) -> None:
        """Collect nothing more for channel `number`."""
        self._channels.pop(number, None)

    def put(self, events: Iterable[ClientEvent]) -> None:
        """Sort in what the session reported, in its order."""
        for event in events:
            if isinstance(event, Opened):
                self.is_open = True
            elif isinstance(event, Blocked):
                self.blocked_reason = event.reason
            elif isinstance(event, Unblocked):
                self.blocked_reason = None
            elif isinstance(event, ConnectionClosed):
                self.is_open = False
                self._closed = event
            else:
                channel = self._channels.get(event.channel)
                if channel is not None:
                    channel.put(event)

    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._closed is not None

    def check(self) -> None:
        """Raises: ConnectionClosedError with the reason once the connection has ended."""
        closed = self._closed
        if closed is not None:
            raise ConnectionClosedError(closed.code, closed.text, closed.is_by_broker)
