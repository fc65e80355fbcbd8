"""What a request beyond AMQP is given, and where it puts its answer, at once or later."""

from typing import Final

from penstock.base.errors import ChannelFault
from penstock.broker.channel.channel import Channel
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.session.declare import Declarations
from penstock.broker.session.session import Session
from penstock.protocol.methods import RequestAsk
from penstock.protocol.values import Table

CLASS_ID: Final = RequestAsk.CLASS_ID
METHOD_ID: Final = RequestAsk.METHOD_ID


class Ticket:
    """Takes the answer. is_awaited: the channel waits for it; owner: the session's requests."""

    __slots__ = ("_channel", "answer", "fault", "is_awaited")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.answer: Table | None = None
        self.fault: ChannelFault | None = None
        self.is_awaited = False

    def settle(self, answer: Table) -> None:
        """It is done. Once."""
        self.answer = answer
        self._go_on()

    def refuse(self, text: str, code: int = 406) -> None:
        """It cannot be done; closes the channel. Instead of `settle`, once."""
        self.fault = refused(text, code)
        self._go_on()

    def frame_bytes_max(self) -> int:
        """What an answer has to fit, envelope included; 0 for no bound."""
        return int(self._channel.frame_bytes_max)

    def _go_on(self) -> None:
        if self.is_awaited and not self._channel.is_closed:
            self._channel.inbox.unpark()
            self._channel.wake()


class Ask:
    """One request: its arguments, who asks, and its ticket."""

    __slots__ = ("arguments", "declarations", "number", "session", "ticket")

    def __init__(
        self,
        session: Session,
        declarations: Declarations,
        number: int,
        arguments: Table,
        ticket: Ticket,
    ) -> None:
        self.session = session
        self.declarations = declarations
        self.number = number
        self.arguments = arguments
        self.ticket = ticket

    def text(self, name: str, default: str | None = None) -> str:
        """The argument `name`. Raises: ChannelFault 406 if it is no text, or not there."""
        value = self.arguments.get(name, default)
        if not isinstance(value, str):
            raise refused(f"argument '{name}' is no text, or is missing")
        return value

    def number_of(self, name: str, least: int, most: int, default: int | None = None) -> int:
        """The argument `name`, least..most. Raises: ChannelFault 406 if it is anything else."""
        value = self.arguments.get(name, default)
        if value is None:
            raise refused(f"argument '{name}' is missing; it is a number of {least} to {most}")
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise refused(f"argument '{name}' is {value!r}, not a number of {least} to {most}")
        return value

    def queue(self, name: str) -> QueueActor:
        """The queue that the argument `name` names. Raises: ChannelFault 403 unless the user may
        read it, 404, 405, 406."""
        return self.declarations.readable(self.number, self.text(name), CLASS_ID, METHOD_ID)


def refused(text: str, code: int = 406) -> ChannelFault:
    """What closes the channel of a request that cannot be done."""
    return ChannelFault(code, text, CLASS_ID, METHOD_ID)
