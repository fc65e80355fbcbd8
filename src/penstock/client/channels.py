"""The channels of one client connection, by number; numbers go round before one is used again.

Going round keeps a late answer to an old channel from being taken for one to a new channel.
"""

from penstock.client.channel_state import ChannelState
from penstock.client.errors import ChannelClosedError, ClientError
from penstock.protocol.constants import CHANNEL_ERROR
from penstock.protocol.methods import ChannelOpen, Method
from penstock.protocol.methods.codec import method_frame


class Channels:
    """At most channels_max of them; those the broker closed stay known until their number is
    needed again, so that whoever uses one learns why it is closed."""

    __slots__ = ("_highest", "_last", "_states")

    def __init__(self) -> None:
        self._states: dict[int, ChannelState] = {}
        self._last = 0
        self._highest = 0

    def open(self, channels_max: int) -> tuple[int, Method, bytes]:
        """A fresh channel: number, the request, its frame.

        Raises: ClientError when none is free.
        """
        number = self._free(channels_max)
        self._last = number
        self._highest = max(self._highest, number)
        request = ChannelOpen()
        state = ChannelState(number)
        state.ask(request)
        self._states[number] = state
        return number, request, method_frame(number, request)

    def get(self, channel: int) -> ChannelState:
        """The open channel. Raises: ChannelClosedError with the broker's reason if it is not."""
        state = self._states.get(channel)
        if state is None:
            raise ChannelClosedError(channel, CHANNEL_ERROR, "it was closed or never opened")
        state.check_open()
        return state

    def find(self, channel: int) -> ChannelState | None:
        """The channel in whatever state, None for a number that was never used."""
        state = self._states.get(channel)
        if state is None and 0 < channel <= self._highest:
            # Closed by us and forgotten; what is still on its way is taken and dropped.
            return ChannelState.gone(channel)
        return state

    def remove(self, channel: int) -> None:
        """Forget a channel that ended in order."""
        self._states.pop(channel, None)

    def _free(self, channels_max: int) -> int:
        for step in range(1, channels_max + 1):
            number = (self._last + step - 1) % channels_max + 1
            state = self._states.get(number)
            if state is None or state.is_closed():
                return number
        raise ClientError(f"all {channels_max} channels of the connection are in use (channel_max)")
