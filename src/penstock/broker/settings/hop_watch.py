"""The watchdog over a broker's hops: a bounded number each tick, verdicts put into force.

Decisions are in flow/watchdog. Here: which hops there are, whether a blocker sleeps, the event, and
the mending of a hop whose grant was lost.
"""

from collections.abc import Mapping

from penstock.base.limits import WATCHDOG_HOPS
from penstock.broker.actors.actor import Actor
from penstock.broker.actors.lane import Lane
from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.broker.vhost.context import Context
from penstock.flow.watchdog import LOST, STUCK, Watchdog, chain_of, line_for
from penstock.telemetry.events import ESCAPE, HOP_STUCK

STREAMS = ":streams"
"""Ends the name of the store that has a virtual host's streams."""
NS_PER_MS = 1_000_000
LINES_MAX = 10
"""Lines for the log from one tick: a thousand channels that wait for one queue are one matter."""


def lanes_of(connection: Connection) -> list[Lane]:
    """The lanes that the channels of `connection` take from, and those they hand over to."""
    found: list[Lane] = []
    for channel in connection.channels.values():
        if channel.upstream is not None:
            found.append(channel.upstream)
        found.extend(channel.publisher.lanes.values())
    return found


def hops_of(connections: Mapping[str, Connection]) -> list[Lane]:
    """Those of all connections."""
    return [hop for one in connections.values() for hop in lanes_of(one)]


class HopWatch:
    """connections, vhosts, stores, streams: the broker's own, by name."""

    def __init__(self, context: Context, connections: dict[str, Connection]) -> None:
        self.dog = Watchdog(context.config.watchdog_ms * NS_PER_MS)
        self._connections = connections
        self._vhosts = context.vhosts
        self._recorder = context.recorder
        self._left: list[Connection] = []
        self.stores: Mapping[str, Actor] = {}
        self.streams: Mapping[str, Actor] = {}

    def tick(self, now_ns: int) -> list[str]:
        """Look at the next WATCHDOG_HOPS hops, or a few more; lines for the log."""
        if not self._left:
            self.dog.end_round()
            self._left = list(self._connections.values())
        lines: list[str] = []
        budget = WATCHDOG_HOPS.default
        while self._left and budget > 0:
            connection = self._left.pop()
            hops = lanes_of(connection)
            budget -= len(hops) + 1
            for hop in hops:
                if hop.is_spent:
                    self._look(connection, hop, now_ns, lines)
        if len(lines) > LINES_MAX:
            more = len(lines) - LINES_MAX
            lines = [*lines[:LINES_MAX], f"and {more} more hops that wait for credit without end"]
        return lines

    def _look(self, connection: Connection, hop: Lane, now_ns: int, lines: list[str]) -> None:
        verdict = self.dog.look(hop, _is_asleep(hop), now_ns)
        if verdict not in (STUCK, LOST):
            return
        is_lost = verdict == LOST
        waited_ns = self.dog.patience_ns if is_lost else now_ns - self.dog.since_ns(hop)
        reason = "lost grant" if is_lost else "credit"
        self._recorder.record(HOP_STUCK, hop.sender, hop.receiver, reason, waited_ns)
        lines.append(line_for(hop, chain_of(hop.receiver, self._holds), waited_ns, is_lost))
        if is_lost:
            missing = int(hop.window - hop.balance)
            self._recorder.record(ESCAPE, hop.sender, hop.receiver, reason, missing)
            connection.strategy.repair(hop, hop.origin)

    def _holds(self, identity: str) -> tuple[tuple[str, str], ...]:
        actor = self._actor(identity)
        if actor is None:
            return ()
        if isinstance(actor, Channel) and actor.is_stalled:
            # In parking profiles its own gate stays open: it stands behind a parked publish.
            return (actor.stalled_by,)
        return tuple((peer, reason) for peer, reason, _ in actor.gate.snapshot())

    def _actor(self, identity: str) -> Actor | None:
        kind, _, name = identity.partition(":")
        if kind == "conn":
            return self._connections.get(name)
        if kind == "chan":
            owner, _, number = name.rpartition("/")
            connection = self._connections.get(owner)
            return None if connection is None else connection.channels.get(int(number))
        if kind == "store":
            return self.stores.get(name) or self.streams.get(name.removesuffix(STREAMS))
        if kind == "queue":
            for vhost in self._vhosts.values():
                for queue in vhost.queues.values():
                    if queue.identity == identity:
                        return queue
        return None


def _is_asleep(hop: Lane) -> bool:
    """The receiver has nothing from this sender, nothing to do, and no gate holds it."""
    receiver = hop.receiving
    is_empty = hop.head >= len(hop.items)
    return is_empty and not receiver.is_ready and receiver.gate.is_open
