"""What channels have on their way to replicated queues and is not safe yet, for those who ask.

It is pending until the disk, or a majority of disks, or its mirrors have it; who has more of it
than may be waits for that (flow/pending).
"""

from collections.abc import Iterator
from typing import Final

from penstock.broker.actors.cooperative import Steps
from penstock.broker.broker import Broker
from penstock.broker.channel.channel import Channel
from penstock.broker.channel.publish import Publisher
from penstock.flow.account import Account
from penstock.flow.hop import HELD_MIRROR, HELD_PENDING, HELD_REASONS

STEP_LANES: Final = 256
REASONS: Final = (HELD_REASONS[HELD_PENDING], HELD_REASONS[HELD_MIRROR])


class Pending:
    """Of one page of the ledger with all below it. messages: publishes; holders: who holds hops of
    its own channels for it, and since when the longest of these holds lasts."""

    __slots__ = ("holders", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.holders: dict[str, int] = {}


def pending_commands(publisher: Publisher | None) -> int:
    """Publishes of one channel that are pending, at all of its queues."""
    lanes = [] if publisher is None else list(publisher.lanes.values())
    return sum(int(lane.commands.pending()) for lane in lanes if lane.commands is not None)


def pending_by_page(broker: Broker) -> Steps[dict[Account, Pending]]:
    """All of it, for each page of the ledger with all below it. In steps of STEP_LANES."""
    found: dict[Account, Pending] = {}
    looked = 0
    for publisher in _publishers(broker):
        for lane in list(publisher.lanes.values()):
            looked += 1
            if looked % STEP_LANES == 0:
                yield 0.0
            commands = lane.commands
            if commands is None or commands.pending() == 0:
                continue
            page: Account | None = publisher.account
            while page is not None:
                found.setdefault(page, Pending()).messages += int(commands.pending())
                page = page.parent
            if lane.held & (HELD_PENDING | HELD_MIRROR):
                holders = found[publisher.account].holders
                for peer, reason, since_ns in lane.sender_gate.snapshot():
                    if reason in REASONS:
                        holders[peer] = min(since_ns, holders.get(peer, since_ns))
    return found


def _publishers(broker: Broker) -> Iterator[Publisher]:
    """Of every channel, and of those that have ended and left something on the disk."""
    for connection in list(broker.connections.values()):
        for channel in list(connection.channels.values()):
            if channel.publisher is not None:
                yield channel.publisher
    for rest in list(broker.parking.rests):
        if isinstance(rest, Channel):
            yield rest.publisher
