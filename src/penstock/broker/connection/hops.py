"""Every hop of a running broker, found where it is kept: beside its channel."""

from penstock.broker.actors.lane import Lane
from penstock.broker.connection.reader import Connection


def hops_of_connection(connection: Connection) -> list[Lane]:
    """The lanes a connection's channels take from, and those they hand over to."""
    found: list[Lane] = []
    for channel in connection.channels.values():
        if channel.upstream is not None:
            found.append(channel.upstream)
        if channel.publisher is not None:
            found.extend(channel.publisher.lanes.values())
    return found


def hops_of(connections: dict[str, Connection]) -> list[Lane]:
    """All of them, now."""
    return [lane for one in connections.values() for lane in hops_of_connection(one)]
