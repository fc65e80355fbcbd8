"""The channels of a client: requests waiting for replies, publishes waiting for confirms."""

from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from penstock.base.errors import ConnectionFault
from penstock.base.limits import UNCONFIRMED_MAX
from penstock.base.wire import read_i32_be
from penstock.client.errors import ChannelClosedError, ClientError
from penstock.client.events import (
    Cancelled,
    ChannelClosed,
    ClientEvent,
    Confirmed,
    Delivery,
    FlowChanged,
    Replied,
    ReturnedPublish,
)
from penstock.protocol import methods as m
from penstock.protocol.constants import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    REPLY_SUCCESS,
    SYNTAX_ERROR,
    UNEXPECTED_FRAME,
)
from penstock.protocol.content import Message
from penstock.protocol.frames import DELIVER
from penstock.protocol.methods.codec import METHODS, decode_method, method_frame


class Unconfirmed:
    """Open publishes with a mark each. `count_max`: publishes, 1..; the owner asks `is_full`."""

    __slots__ = ("_lowest", "_next", "_open", "count_max")

    def __init__(self, count_max: int) -> None:
        assert count_max >= 1, "a window without room would never let a publish go"
        self.count_max = count_max
        self._open: dict[int, int] = {}
        self._lowest = 1
        self._next = 1

    def __len__(self) -> int:
        return len(self._open)

    def is_full(self) -> bool:
        """Whether another `add` would pass the bound."""
        return len(self._open) >= self.count_max

    def add(self, mark: int, count: int = 1) -> int:
        """Note `count` more publishes; the sequence of the first, 1... Raises: AssertionError when
        full."""
        assert len(self._open) < self.count_max, "the publisher was not held at its bound"
        sequence = self._next
        self._next = sequence + count
        if count == 1:
            self._open[sequence] = mark
        else:
            self._open.update(dict.fromkeys(range(sequence, self._next), mark))
        return sequence

    def settle(self, tag: int, multiple: bool) -> tuple[list[int], list[int]]:
        """Take out `tag`, or everything up to it (0: everything); sequences and their marks.

        An answer to what is not open changes nothing, as in RabbitMQ's own clients.
        """
        if not multiple:
            mark = self._open.pop(tag, None)
            self._advance()
            return ([], []) if mark is None else ([tag], [mark])
        stop = self._next if tag == 0 else min(tag + 1, self._next)
        pending = self._open
        sequences = [n for n in range(self._lowest, stop) if n in pending]
        marks = [pending.pop(n) for n in sequences]
        self._lowest = max(self._lowest, stop)
        self._advance()
        return sequences, marks

    def _advance(self) -> None:
        lowest = self._lowest
        while lowest < self._next and lowest not in self._open:
            lowest += 1
        self._lowest = lowest


REQUESTS_MAX: Final = 256
"""Requests of one channel waiting for a reply; the next one is refused."""

_NAMED: Final = {kind.NAME: kind for kind in METHODS.values()}
REPLIES: Final[Mapping[type[m.Method], tuple[type[m.Method], ...]]] = MappingProxyType(
    {
        kind: (_NAMED[f"{name}-ok"],)
        for name, kind in _NAMED.items()
        if f"{name}-ok" in _NAMED and kind is not m.BasicGet
    }
    | {m.BasicGet: (m.BasicGetOk, m.BasicGetEmpty)}
)
"""Requests that are answered, and with what; every other method goes unanswered."""


class ChannelState:
    """Books of one channel. Owner: the session. `number`: 1..65535."""

    __slots__ = ("_closed", "_is_closing", "_is_gone", "_requests", "_unconfirmed", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self._requests: deque[m.Method] = deque()
        self._unconfirmed: Unconfirmed | None = None
        self._closed: tuple[int, str] | None = None
        self._is_closing = False
        self._is_gone = False

    @staticmethod
    def gone(number: int) -> "ChannelState":
        """A channel that ended in order: takes whatever still comes and drops it."""
        state = ChannelState(number)
        state._is_closing = True
        state._is_gone = True
        state._closed = (REPLY_SUCCESS, "closed by the client")
        return state

    # --- wishes ---------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raises: ChannelClosedError when nothing may be said here any more."""
        if self._closed is not None:
            raise ChannelClosedError(self.number, self._closed[0], self._closed[1])
        if self._is_closing:
            raise ChannelClosedError(self.number, REPLY_SUCCESS, "it is being closed")

    def ask(self, method: m.Method) -> None:
        """Note that `method` is said, and expect its reply if it has one.

        Raises: ClientError when REQUESTS_MAX requests wait already.
        """
        if isinstance(method, m.ChannelClose):
            self._is_closing = True
        is_silent: bool = getattr(method, "no_wait", False)
        if isinstance(method, m.ConfirmSelect) and self._unconfirmed is None:
            # Publishes are counted from the moment it is said, whenever the answer comes.
            self._unconfirmed = Unconfirmed(UNCONFIRMED_MAX.default)
        if is_silent or type(method) not in REPLIES:
            return
        if len(self._requests) >= REQUESTS_MAX and not isinstance(method, m.ChannelClose):
            raise ClientError(f"channel {self.number}: {REQUESTS_MAX} requests wait for a reply")
        self._requests.append(method)

    def note_publish(self, mark: int, count: int = 1) -> int:
        """Count `count` publishes; the sequence of the first, 0 on a channel without confirms.

        Raises: ClientError when unconfirmed_max publishes are open.
        """
        unconfirmed = self._unconfirmed
        if unconfirmed is None:
            return 0
        if unconfirmed.is_full():
            raise ClientError(
                f"channel {self.number}: {unconfirmed.count_max} publishes are unconfirmed"
            )
        return unconfirmed.add(mark, count)

    def unconfirmed_count(self) -> int:
        """Publishes not yet confirmed."""
        return 0 if self._unconfirmed is None else len(self._unconfirmed)

    def is_closed(self) -> bool:
        """Whether the channel has ended, for whatever reason."""
        return self._closed is not None

    def is_gone(self) -> bool:
        """Whether it ended in order, so that no user of it needs to be told why."""
        return self._is_gone

    # --- what the broker says -------------------------------------------------------------

    def on_content(self, message: Message, events: list[ClientEvent]) -> None:
        """A delivery, the answer to basic.get, or a returned publish.

        Raises: ConnectionFault for content that was not asked for or is malformed.
        """
        if self._closed is not None or self._is_closing:
            return
        method = message.address.method
        if read_i32_be(method, 0) == DELIVER:
            at = 5 + (method[4] if len(method) > 4 else 0)
            if len(method) < at + 11:
                raise ConnectionFault(SYNTAX_ERROR, "basic.deliver ends early", 60, 60)
            events.append(Delivery(message, at))
            return
        decoded = decode_method(method)
        if isinstance(decoded, m.BasicReturn):
            events.append(
                ReturnedPublish(
                    self.number, decoded.reply_code, decoded.reply_text, decoded.exchange,
                    decoded.routing_key, message,
                )
            )  # fmt: skip
        elif isinstance(decoded, m.BasicGetOk):
            request = self._answered(decoded)
            events.append(Replied(self.number, request, decoded, Delivery(message, 4)))
        else:
            raise ConnectionFault(
                UNEXPECTED_FRAME, f"{decoded.NAME} is for brokers", 60, decoded.METHOD_ID
            )

    def on_confirm(
        self, tag: int, multiple: bool, is_accepted: bool, events: list[ClientEvent]
    ) -> None:
        """The broker settles publishes. Raises: ConnectionFault 503 where none were numbered."""
        if self._closed is not None or self._is_closing:
            return
        if self._unconfirmed is None:
            raise ConnectionFault(
                COMMAND_INVALID, f"confirm on channel {self.number}, which asked for none", 60, 80
            )
        sequences, marks = self._unconfirmed.settle(tag, multiple)
        if sequences:
            events.append(Confirmed(self.number, sequences, marks, is_accepted))

    def on_method(self, method: m.Method, events: list[ClientEvent]) -> m.Method | None:
        """Any other method; what to say in answer, if anything.

        Raises: ConnectionFault 503 for a method that answers nothing that was asked.
        """
        if isinstance(method, m.ChannelClose):
            if self._is_closing and self._closed is None:
                # Both sides closed at once; ours is answered when the broker has read it.
                return m.ChannelCloseOk()
            self.fail(method.reply_code, method.reply_text, events)
            return m.ChannelCloseOk()
        if self._closed is not None:
            return None
        if self._is_closing and not isinstance(method, m.ChannelCloseOk):
            return None
        if isinstance(method, m.BasicNack):
            self.on_confirm(method.delivery_tag, method.multiple, False, events)
        elif isinstance(method, m.BasicCancel):
            events.append(Cancelled(self.number, method.consumer_tag))
            return None if method.no_wait else m.BasicCancelOk(method.consumer_tag)
        elif isinstance(method, m.ChannelFlow):
            events.append(FlowChanged(self.number, method.active))
            return m.ChannelFlowOk(method.active)
        else:
            events.append(Replied(self.number, self._answered(method), method))
        return None

    def fail(self, code: int, text: str, events: list[ClientEvent]) -> None:
        """End the channel because of a fault, once."""
        if self._closed is None:
            self._closed = (code, text)
            self._requests.clear()
            events.append(ChannelClosed(self.number, code, text))

    def _answered(self, reply: m.Method) -> m.Method:
        """The request `reply` belongs to. Raises: ConnectionFault 503 when there is none."""
        if isinstance(reply, m.ChannelCloseOk):
            # Requests before channel.close may go unanswered; it is the last of them.
            while len(self._requests) > 1:
                self._requests.popleft()
        if not self._requests or type(reply) not in REPLIES[type(self._requests[0])]:
            raise ConnectionFault(
                COMMAND_INVALID,
                f"{reply.NAME} on channel {self.number} answers nothing that was asked",
                reply.CLASS_ID,
                reply.METHOD_ID,
            )
        if isinstance(reply, m.ChannelCloseOk):
            self._closed = (REPLY_SUCCESS, "closed by the client")
            self._is_gone = True
        return self._requests.popleft()


class Channels:
    """The channels of one connection by number, at most channels_max.

    Numbers go round before one is used again, so that a late answer to an old channel is not taken
    for one to a new channel. A channel that the broker closed stays known until its number is
    needed again, so that its user learns why it is closed.
    """

    __slots__ = ("_highest", "_last", "_states")

    def __init__(self) -> None:
        self._states: dict[int, ChannelState] = {}
        self._last = 0
        self._highest = 0

    def open(self, channels_max: int) -> tuple[int, m.Method, bytes]:
        """A fresh channel: number, the request, its frame.

        Raises: ClientError when none is free.
        """
        number = self._free(channels_max)
        self._last = number
        self._highest = max(self._highest, number)
        request = m.ChannelOpen()
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
