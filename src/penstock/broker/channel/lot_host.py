"""The connection as its parking lot sees it. COMPILED."""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.actors.actor import Actor
from penstock.broker.actors.output import OutputOwner
from penstock.broker.channel.parked_line import NO_LINES as NO_LINES
from penstock.telemetry.accounting import BlockLedger

NONE_WAITING: Final[dict[Actor, None]] = {}
"""What all lots share that nobody waits for."""


@mypyc_attr(allow_interpreted_subclasses=True)
class LotHost(OutputOwner):
    """The connection as its lot sees it. Nominal base."""

    __slots__ = ()

    def books(self) -> BlockLedger:
        """Where the time of what waits counts."""
        raise NotImplementedError

    def room_freed(self) -> None:
        """There may be room."""
