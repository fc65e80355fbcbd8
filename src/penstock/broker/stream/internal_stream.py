"""The broker's own stream: clients read it, and that is all they do with it.

It is in no routing table, so nothing that is published, dead-lettered or delayed can reach it.
Codes and texts are those of RabbitMQ's internal exchanges and predeclared ones. This module is
compiled.
"""

from typing import Final

from penstock.base.errors import ChannelFault
from penstock.broker.actors.actor import Line
from penstock.broker.actors.log import Log
from penstock.broker.stream.stream_actor import StreamActor
from penstock.broker.vhost.stream_arguments import BYTES_KEY, LAG_BYTES_KEY, SEGMENT_KEY
from penstock.broker.vhost.vhost import VirtualHost
from penstock.flow.account import Account
from penstock.flow.credit import Strategy
from penstock.protocol.values import Table
from penstock.routing.exchange import Exchange

EVENT_STREAM: Final = "amq.flow.telemetry"
"""Clients cannot declare a name that begins so."""

ID_KEY: Final = "x-penstock-id"
"""Tells this stream from another one of its name, whose offsets mean something else."""

SEGMENTS: Final = 8
"""Retention takes an eighth of it at a time."""


class InternalStream(StreamActor):
    """is_fed: the broker writes to it; what is left of an earlier life may be deleted; lost_count:
    events that were to be written and are gone."""

    __slots__ = ("is_fed", "lost_count")

    def __init__(
        self,
        vhost: str,
        name: str,
        arguments: dict[str, object],
        line: Line,
        strategy: Strategy,
        origin: Account,
        notes: Log,
    ) -> None:
        super().__init__(vhost, name, arguments, line, strategy, origin, notes)
        self.is_internal = True
        self.is_fed = False
        self.lost_count = 0

    @property
    def stream_id(self) -> str:
        """What ID_KEY says."""
        return str(self.arguments.get(ID_KEY, ""))

    def own_words(self) -> dict[str, str]:
        said = {"internal": "flow events" if self.is_fed else "flow events of before"}
        if self.lost_count > 0:
            said["lost"] = str(self.lost_count)
        return said

    def check_ending(self, what: str, method_id: int) -> None:
        if self.is_fed or what != "deletion":
            raise ChannelFault(
                403,
                f"{what} of internal queue '{self.name}' in vhost '{self.vhost}' not allowed",
                50,
                method_id,
            )

    def feed(self, max_bytes: int) -> None:
        """The broker writes to it from now on, and keeps about `max_bytes` of it."""
        self.is_fed = True
        self.arguments.update(bounds(max_bytes))
        self.policies_changed()


def bounds(max_bytes: int) -> Table:
    """Arguments of a stream with about `max_bytes`. A reader group may pin as much and no more:
    what it is behind beyond that is not written any more."""
    return {
        BYTES_KEY: max_bytes,
        SEGMENT_KEY: max(1024, max_bytes // SEGMENTS),
        LAG_BYTES_KEY: max_bytes,
    }


def refuse_internal(vhost: VirtualHost, exchange: Exchange, key: str) -> None:
    """Raise ChannelFault 403 for a publish to what only the broker publishes to."""
    if exchange.internal:
        raise ChannelFault(
            403, f"cannot publish to internal exchange '{exchange.name}' in vhost '{vhost.name}'",
            60, 40,
        )  # fmt: skip
    if exchange.name == "" and vhost.is_internal(key):
        raise ChannelFault(
            403, f"cannot publish to internal queue '{key}' in vhost '{vhost.name}'", 60, 40
        )
