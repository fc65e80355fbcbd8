"""What holds of parked publishes between any two turns: lines, lots, memory and disk.

    line    in the order of the publishes, and counted in memory and on the disk
    lot     memory = its lines, what is read for them, and entrances; on the disk at least what its
            lines need; the account has been charged both
    node    the sum of the lots
The functions only read. Raises: LawBroken naming the actor and the numbers.
"""

from penstock.broker.broker import Broker
from penstock.broker.channel.channel import Channel
from penstock.broker.channel.parked_line import ParkedLine, PieceAt, parked_size
from penstock.broker.channel.parking import ENTRANCE_MAX
from penstock.broker.channel.parking_lot import ParkingLot
from penstock.protocol.content import Message
from penstock.simulation.machine.durable_disks import HandDisk
from penstock.simulation.machine.faults import LawBroken
from penstock.storage.log.parked import ReadParked


def parked_of(channel: Channel) -> list[Message]:
    """What of it counts on the lot by itself."""
    waiting = [one for line in channel.parking.lines.values() for one in line.in_memory()]
    return [*waiting, *(one.message for one in channel.parking.entrance)]


def sequences_of(line: ParkedLine) -> list[int]:
    """The numbers of all that waits in `line`, in its order, wherever it is."""
    found = [int(one.sequence) for one in line.front[line.head :]]
    for piece in line.pieces:
        found.extend(piece.sequences())
    return [*found, *(int(one.sequence) for one in line.back)]


def line_bytes(line: ParkedLine) -> int:
    """What `line` has in memory."""
    on_disk = [one for one in line.pieces if one.at in (PieceAt.RESTING, PieceAt.READING)]
    found = sum(int(parked_size(one)) for one in line.in_memory())
    return found + sum(int(one.overhead_bytes()) for one in on_disk)


def lines_bytes(lot: ParkingLot) -> int:
    """What all lines of `lot` have in memory, and what is being read for them."""
    reading = [] if lot.spill is None else list(lot.spill.reading.values())
    found = sum(line_bytes(line) for line in lot.lines.values())
    return found + sum(int(piece.bytes) for piece in reading)


def files_bytes(lot: ParkingLot) -> int:
    """What files have that lines of `lot` need."""
    pieces = [piece for line in lot.lines.values() for piece in line.pieces]
    files = {piece.file for piece in pieces if piece.file is not None}
    return sum(int(file.size) for file in files)


def check_parking(channel: Channel) -> None:
    """Every line is counted, in order, and waits for its queue."""
    parking = channel.parking
    if len(parking.entrance) > ENTRANCE_MAX:
        raise LawBroken(f"{channel.identity}: more waits at its entrance than may")
    for lane, line in parking.lines.items():
        pieces = line.pieces
        front = sum(int(parked_size(one)) for one in line.front[line.head :])
        on_disk = sum(int(piece.count) for piece in pieces), sum(int(p.disk_bytes) for p in pieces)
        counted = (line.bytes, line.front_bytes, (line.disk_messages, line.disk_bytes))
        if counted != (line_bytes(line), front, on_disk) or line.count() == 0:
            raise LawBroken(f"{lane.name}: the bytes of its line are off")
        if parking.lot.lines.get(lane) is not line or line.is_opened != (line in parking.opened):
            raise LawBroken(f"{lane.name}: its line is not where it is looked for")
        if line.back and not pieces:
            raise LawBroken(f"{lane.name}: a line without pieces has a back")
        if line.has_front() and not (line.is_opened or lane.is_closed):
            raise LawBroken(f"{lane.name}: publishes are parked for a hop that is open")
        numbers = [one for one in sequences_of(line) if one >= 0]
        if numbers != sorted(numbers):
            raise LawBroken(f"{lane.name}: its line is not in the order of the publishes")


def check_lots(broker: Broker, most_bytes: int) -> None:
    """The lots are counted, and none has grown past what it may but for two publishes: one
    that waits at an entrance, and one that begins a line."""
    for connection in broker.connections.values():
        sizes: dict[int, int] = {}
        for channel in connection.channels.values():
            for message in parked_of(channel):
                sizes[id(message)] = sizes.get(id(message), 0) + int(parked_size(message))
        beside = sum(sorted(sizes.values())[:-2])
        # One read goes beyond what may be, and so does what is forced behind what is on the disk.
        disk = broker.parking.disk
        over = 0 if disk is None else int(disk.piece_bytes) + max(sizes.values(), default=0)
        if beside > most_bytes + over and not any(map(is_forced, connection.channels.values())):
            raise LawBroken(f"{connection.identity}: {connection.lot.bytes} bytes in its lot")
    lots = {one.lot for one in broker.connections.values()}
    lots |= {one.parking.lot for one in rests_of(broker)}
    total = sum(int(lot.bytes) for lot in lots), sum(int(lot.disk_bytes) for lot in lots)
    disk = broker.parking.disk
    counted = int(broker.parking.bytes), 0 if disk is None else int(disk.bytes)
    # What was being read or removed when its connection ended is nobody's until that is done.
    is_busy = disk is not None and isinstance(disk.disk, HandDisk) and bool(disk.disk.jobs)
    if (counted < total) if is_busy else (counted != total):
        raise LawBroken(f"{total} bytes are parked in memory and on disk, counted as {counted}")


def rests_of(broker: Broker) -> list[Channel]:
    """The channels that have ended with something on the disk."""
    return [one for one in broker.parking.rests if isinstance(one, Channel)]


def spilled_messages(lot: ParkingLot) -> list[Message]:
    """Those that are being written or read for `lot`, in its lines or not any more."""
    spill = lot.spill
    if spill is None:
        return []
    found = [] if spill.job is None else [one for piece in spill.job.messages for one in piece]
    for job in spill.reading:
        if isinstance(job, ReadParked):
            found.extend(job.messages)
    return found


def is_forced(channel: Channel) -> bool:
    """Whether publishes may have gone past a bound."""
    return channel.escapes > 0 or channel.transaction is not None
