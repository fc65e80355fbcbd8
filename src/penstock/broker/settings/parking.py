"""Settings of the parking lots: how much may be parked, and what happens to what has no room.

    parked.bytes=96MiB         in memory, of each connection; as parked_bytes in the configuration
    parked.node_bytes=1GiB     of all together
    parked.disk_bytes=4GiB     on the disk, of all together
    parked.full=nack           stop, nack or close, where no row and no policy says otherwise

A smaller bound takes nothing away: nothing more is parked until there is room again.
"""

from collections.abc import Callable, Mapping

from penstock.base.errors import OperatorError
from penstock.base.limits import PARKED_BYTES, PARKED_DISK_BYTES, PARKED_NODE_BYTES, Limit
from penstock.base.quantities import parse_bytes, show_bytes
from penstock.broker.channel.full_actions import FullActions, known_action
from penstock.broker.channel.node_parking import NodeParking
from penstock.broker.channel.parking_disk import ParkingDisk
from penstock.broker.connection.connection import Connection
from penstock.broker.session.negotiate import Negotiator
from penstock.broker.settings.settings import Setting, Settings


def add_parking_settings(
    settings: Settings,
    parking: NodeParking,
    actions: FullActions,
    connections: Mapping[str, Connection],
    negotiators: Mapping[str, Negotiator],
) -> None:
    """Offer all four. What waits for room is asked again at every change."""

    def look_again() -> None:
        for connection in connections.values():
            connection.lot.spill_some()
            connection.lot.wake()

    def write_lot(bytes_: int) -> None:
        parking.lot_bytes_max = bytes_
        look_again()

    def write_node(bytes_: int) -> None:
        parking.bytes_max = bytes_
        look_again()

    def write_disk(bytes_: int) -> None:
        _disk_of(parking).bytes_max = bytes_
        look_again()

    def write_full(text: str) -> None:
        actions.default = known_action(text)
        for connection in connections.values():
            negotiator = negotiators.get(connection.name)
            session = None if negotiator is None else negotiator.session
            if session is not None:
                connection.lot.full_action = actions.of(session.vhost.name, session.user)
        look_again()

    settings.add(
        _size(
            "parked.bytes",
            PARKED_BYTES,
            "memory for what each connection has parked for queues that take nothing",
            lambda: int(parking.lot_bytes_max),
            write_lot,
        ),
        _size(
            "parked.node_bytes",
            PARKED_NODE_BYTES,
            "memory for what all connections together have parked",
            lambda: int(parking.bytes_max),
            write_node,
        ),
        _size(
            "parked.disk_bytes",
            PARKED_DISK_BYTES,
            "disk for what all connections together have parked and memory has no room for",
            lambda: 0 if parking.disk is None else int(parking.disk.bytes_max),
            write_disk,
        ),
        Setting(
            "parked.full",
            "stop, nack or close",
            "what happens to a publish that there is no room to park, where no row of "
            "parked_full_actions and no policy says otherwise",
            lambda: actions.default,
            write_full,
        ),
    )


def _disk_of(parking: NodeParking) -> ParkingDisk:
    if parking.disk is None:
        raise OperatorError(
            "there is no disk to park on: start the broker with a data directory (--data)"
        )
    return parking.disk


def _size(
    key: str, limit: Limit, meaning: str, read: Callable[[], int], write: Callable[[int], None]
) -> Setting:
    def write_text(text: str) -> None:
        bytes_ = parse_bytes(text)
        if not limit.lowest <= bytes_ <= limit.highest:
            within = f"{show_bytes(limit.lowest)}..{show_bytes(limit.highest)}"
            raise OperatorError(f"{key}={text} is not within {within}")
        write(bytes_)

    return Setting(key, "size", meaning, lambda: show_bytes(read()), write_text)
