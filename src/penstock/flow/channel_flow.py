"""What a client has been told to do with its publishes on one channel, and what it has answered.

channel.flow is on or off, not a window, and each one asks for a flow-ok. The broker's wish may
change faster than a client answers; one frame is outstanding at most, and what is wished by then
decides what follows (scenarios 51-54):

                 stop wished              reply
    FREE  ---------------------> STOPPING -----> STOPPED        (publishes there are violations)
      ^                           |  ^              |
      | reply        send wished  v  | stop wished  | send wished
    RESUMING <--------------- STOP_REVOKED          v
      |  ^                        reply          RESUMING
      v  | send wished
    RESUME_REVOKED --reply--> STOPPING

Replies that clients get wrong are tolerated (flow-semantics 11.3): none at all is waited for so
long and then taken as read; a channel.flow of the same polarity is the reply; one nobody asked for
changes nothing. Nothing here enforces anything: a publish is held whether the client has heard or
not. Pure; the connection's notices send and measure time.
Source: AMQP 0-9-1 section 1.5 (channel.flow); flow-semantics 11.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

ALARM: Final = "alarm"
HOLD: Final = "hold"


NO_CAUSES: Final[list[str]] = []
"""What all notices share whose clients were never told anything."""


class BlockedNotice:
    """Whether one client has been told connection.blocked, for any number of causes at once.

    quiet  --first cause-->  told (send blocked)  --last cause gone-->  quiet (send unblocked)
    causes: why it is told, in the order they came. They come and go in any order and more than
    once; what is sent alternates strictly (scenarios 70 and 118). A second cause sends nothing: the
    reason a client knows is the first one's. Pure; the connection's notices send."""

    __slots__ = ("causes",)

    def __init__(self) -> None:
        self.causes: list[str] = NO_CAUSES

    def add(self, cause: str) -> bool:
        """`cause` holds publishes; True when connection.blocked must go out now."""
        if cause in self.causes:
            return False
        if self.causes is NO_CAUSES:
            self.causes = []
        self.causes.append(cause)
        return len(self.causes) == 1

    def remove(self, cause: str) -> bool:
        """`cause` is over; True when connection.unblocked must go out now."""
        if cause not in self.causes:
            return False
        self.causes.remove(cause)
        return not self.causes


class Told(Enum):
    """What the client knows. IGNORED: it was told to stop and has not answered in time."""

    FREE = "free"
    STOPPING = "stopping"
    STOP_REVOKED = "stopping, to go on again"
    STOPPED = "stopped"
    IGNORED = "told to stop, no answer"
    RESUMING = "resuming"
    RESUME_REVOKED = "resuming, to stop again"


class FlowInput(Enum):
    """What moves it: our wish, the client's answer, or its silence."""

    STOP = "publishes shall stop"
    SEND = "publishes may go on"
    REPLY = "flow-ok, or what this client sends for one"
    OVERDUE = "no reply in time"
    PUBLISH = "a publish arrives that has to be held"


class FlowAction(Enum):
    """What the caller does next."""

    NOTHING = "nothing"
    SEND_STOP = "send channel.flow active=false"
    SEND_GO = "send channel.flow active=true"
    STOP_READING = "stop reading this connection"
    NOTE_SILENCE = "log the missing reply"
    NOTE_SILENCE_SEND_GO = "log the missing reply, and send channel.flow active=true"
    NOTE_SILENCE_SEND_STOP = "log the missing reply, and send channel.flow active=false"


_NOTHING: Final = FlowAction.NOTHING

TRANSITIONS: Final[Mapping[tuple[Told, FlowInput], tuple[Told, FlowAction]]] = MappingProxyType(
    {
        (Told.FREE, FlowInput.STOP): (Told.STOPPING, FlowAction.SEND_STOP),
        (Told.FREE, FlowInput.SEND): (Told.FREE, _NOTHING),
        (Told.FREE, FlowInput.REPLY): (Told.FREE, _NOTHING),
        (Told.FREE, FlowInput.PUBLISH): (Told.FREE, _NOTHING),
        (Told.STOPPING, FlowInput.STOP): (Told.STOPPING, _NOTHING),
        (Told.STOPPING, FlowInput.SEND): (Told.STOP_REVOKED, _NOTHING),
        (Told.STOPPING, FlowInput.REPLY): (Told.STOPPED, _NOTHING),
        (Told.STOPPING, FlowInput.OVERDUE): (Told.IGNORED, FlowAction.NOTE_SILENCE),
        (Told.STOPPING, FlowInput.PUBLISH): (Told.STOPPING, _NOTHING),
        (Told.STOP_REVOKED, FlowInput.STOP): (Told.STOPPING, _NOTHING),
        (Told.STOP_REVOKED, FlowInput.SEND): (Told.STOP_REVOKED, _NOTHING),
        (Told.STOP_REVOKED, FlowInput.REPLY): (Told.RESUMING, FlowAction.SEND_GO),
        (Told.STOP_REVOKED, FlowInput.OVERDUE): (Told.RESUMING, FlowAction.NOTE_SILENCE_SEND_GO),
        (Told.STOP_REVOKED, FlowInput.PUBLISH): (Told.STOP_REVOKED, _NOTHING),
        (Told.STOPPED, FlowInput.STOP): (Told.STOPPED, _NOTHING),
        (Told.STOPPED, FlowInput.SEND): (Told.RESUMING, FlowAction.SEND_GO),
        (Told.STOPPED, FlowInput.REPLY): (Told.STOPPED, _NOTHING),
        (Told.STOPPED, FlowInput.PUBLISH): (Told.STOPPED, FlowAction.STOP_READING),
        # A late flow-ok is still one: from then on the client is taken at its word.
        (Told.IGNORED, FlowInput.STOP): (Told.IGNORED, _NOTHING),
        (Told.IGNORED, FlowInput.SEND): (Told.RESUMING, FlowAction.SEND_GO),
        (Told.IGNORED, FlowInput.REPLY): (Told.STOPPED, _NOTHING),
        (Told.IGNORED, FlowInput.PUBLISH): (Told.IGNORED, _NOTHING),
        (Told.RESUMING, FlowInput.STOP): (Told.RESUME_REVOKED, _NOTHING),
        (Told.RESUMING, FlowInput.SEND): (Told.RESUMING, _NOTHING),
        (Told.RESUMING, FlowInput.REPLY): (Told.FREE, _NOTHING),
        (Told.RESUMING, FlowInput.OVERDUE): (Told.FREE, FlowAction.NOTE_SILENCE),
        (Told.RESUMING, FlowInput.PUBLISH): (Told.RESUMING, _NOTHING),
        (Told.RESUME_REVOKED, FlowInput.STOP): (Told.RESUME_REVOKED, _NOTHING),
        (Told.RESUME_REVOKED, FlowInput.SEND): (Told.RESUMING, _NOTHING),
        (Told.RESUME_REVOKED, FlowInput.REPLY): (Told.STOPPING, FlowAction.SEND_STOP),
        (Told.RESUME_REVOKED, FlowInput.OVERDUE): (
            Told.STOPPING,
            FlowAction.NOTE_SILENCE_SEND_STOP,
        ),
        (Told.RESUME_REVOKED, FlowInput.PUBLISH): (Told.RESUME_REVOKED, _NOTHING),
    }
)

OUTSTANDING: Final[Mapping[Told, bool]] = MappingProxyType(
    {
        Told.STOPPING: False,
        Told.STOP_REVOKED: False,
        Told.RESUMING: True,
        Told.RESUME_REVOKED: True,
    }
)
"""States in which a frame waits for its reply, and the `active` bit of that frame."""

SENDS_STOP: Final = frozenset((FlowAction.SEND_STOP, FlowAction.NOTE_SILENCE_SEND_STOP))
SENDS_GO: Final = frozenset((FlowAction.SEND_GO, FlowAction.NOTE_SILENCE_SEND_GO))
NOTES_SILENCE: Final = frozenset(
    (FlowAction.NOTE_SILENCE, FlowAction.NOTE_SILENCE_SEND_GO, FlowAction.NOTE_SILENCE_SEND_STOP)
)


class ClientFlow:
    """One channel's machine. `since_ns`: when the last frame went out, monotonic nanoseconds.
    Owner: the connection's notices."""

    __slots__ = ("since_ns", "told")

    def __init__(self) -> None:
        self.told = Told.FREE
        self.since_ns = 0

    def take(self, given: FlowInput, now_ns: int) -> FlowAction:
        """Move on and say what to do. Raises: AssertionError for silence nobody waits in."""
        found = TRANSITIONS.get((self.told, given))
        assert found is not None, f"{given} in {self.told}: nothing was outstanding"
        self.told, action = found
        if action in SENDS_STOP or action in SENDS_GO:
            self.since_ns = now_ns
        return action

    def is_outstanding(self) -> bool:
        """Whether a frame of ours waits for its reply."""
        return self.told in OUTSTANDING

    def is_reply(self, is_active: bool) -> bool:
        """Whether a channel.flow from the client stands for a flow-ok: php-amqplib answers with
        the wrong method and the polarity it was told (scenario 59)."""
        return OUTSTANDING.get(self.told) is is_active
