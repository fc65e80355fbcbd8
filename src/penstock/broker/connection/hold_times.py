"""For how long a connection's publishes have been held without a pause, by whom and why.

Looked at from time to time, and only where somebody wants to be told: nothing here is kept, all of
it is read from the gates.
"""

from dataclasses import dataclass

from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.flow.gate import Gate

NOT_HOLDS = frozenset(("alarm", "socket", "flow"))
"""Alarms have a notice of their own; a full socket and a broken promise are the client's doing."""


@dataclass(frozen=True, slots=True)
class Hold:
    """peer: the id of who holds; reason: the gate's word; since_ns: monotonic nanoseconds."""

    peer: str
    reason: str
    since_ns: int


def channel_hold(channel: Channel) -> Hold | None:
    """What has held publishes of `channel` longest, downstream of its connection."""
    found: Hold | None = None
    for lane in channel.parking.lanes:
        if lane.is_closed:
            held = _longest(lane.sender_gate)
            receiving = lane.receiving
            # A queue that takes no more keeps its grants back: credit is only how it is felt.
            reason = receiving.stop_reason()
            if held is not None and reason != "":
                held = Hold(held.peer, reason, held.since_ns)
            found = _older(found, held)
    upstream = channel.upstream
    if upstream is not None and upstream.is_closed:
        found = _older(found, _longest(channel.gate))
    return found


def connection_hold(connection: Connection) -> Hold | None:
    """What has held publishes of any channel, or of the whole connection, longest."""
    found: Hold | None = None
    for channel in connection.channels.values():
        found = _older(found, channel_hold(channel))
    if not connection.gate.is_open:
        found = _older(found, _longest(connection.gate))
    return found


def _longest(gate: Gate) -> Hold | None:
    found: Hold | None = None
    for peer, reason, since_ns in gate.snapshot():
        # A channel only hands on what holds it, and that is looked at where it is.
        if reason not in NOT_HOLDS and not peer.startswith("chan:"):
            found = _older(found, Hold(peer, reason, since_ns))
    return found


def _older(first: Hold | None, second: Hold | None) -> Hold | None:
    if first is None or (second is not None and second.since_ns < first.since_ns):
        return second
    return first
