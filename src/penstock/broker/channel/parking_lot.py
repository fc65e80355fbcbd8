"""How much the connections of a node may park, and what each of them has parked by queue.

The lots share the node's room: a lot may grow as long as it has no more than is still free, so one
that was there first cannot keep the others out (Choudhury and Hahne 1998, dynamic thresholds). The
first publish of the first line is always taken. On a connection where nobody would stand behind
another, because all it does is publish to one queue without confirms, it is the only one: what is
held there belongs into its client.

Where there is a data directory, a lot that uses more than half of its memory lets the middle of its
lines go to the disk, which is shared by the same rule. Source: docs/strategies.md. COMPILED.
"""

from mypy_extensions import i64

from penstock.broker.actors.actor import Actor
from penstock.broker.actors.disk import JobClient
from penstock.broker.actors.lane import Lane
from penstock.broker.channel.full_actions import STOP
from penstock.broker.channel.lot_host import NO_LINES, NONE_WAITING, LotHost
from penstock.broker.channel.node_parking import NodeParking
from penstock.broker.channel.parked_line import ParkedLine, ParkedPiece, PieceAt, PieceEvent
from penstock.broker.channel.parking_disk import UNITS, WORTH_SHARE, Looks, ParkedFile, ParkingDisk
from penstock.broker.paging.read_again import NO_FAILURE, is_lost_by
from penstock.flow.account import Account
from penstock.storage.log.job import Job
from penstock.storage.log.parked import ReadParked, WriteParked
from penstock.telemetry.accounting import BlockLedger


class ParkingLot:
    """What the channels of one connection have parked.

    account: pays for it; host: its connection, None once that has ended; books: of the
    connection, None until something waited; node: the room it shares; bytes: parked in memory;
    messages: parked there and on the disk; disk_bytes: of its files; spill: brings
    publishes to the disk and back, None until there were any;
    lines: of all its channels, by lane; is_shared: the connection has confirms, consumers, a
    second queue it publishes to, or a second channel, or had; waiting: channels that stand
    behind a publish without room; full_action: STOP, NACK or CLOSE, where no policy
    (`parked-full`) says otherwise.
    """

    __slots__ = (
        "account",
        "books",
        "bytes",
        "disk_bytes",
        "full_action",
        "host",
        "is_shared",
        "lines",
        "messages",
        "node",
        "spill",
        "waiting",
    )

    def __init__(
        self,
        account: Account,
        node: NodeParking,
        host: LotHost,
    ) -> None:
        self.account = account
        self.host: LotHost | None = host
        self.books: BlockLedger | None = None
        self.node = node
        self.bytes: i64 = 0
        self.messages: i64 = 0
        self.disk_bytes: i64 = 0
        self.spill: LotSpill | None = None
        self.lines: dict[Lane, ParkedLine] = NO_LINES
        self.is_shared = False
        self.full_action = STOP
        self.waiting: dict[Actor, None] = NONE_WAITING

    def has_room(self, bytes_: i64) -> bool:
        """Whether so many may be added to a line; while there is none, one publish may begin it,
        whatever its size."""
        return not self.lines or (self.is_shared and self.fits(bytes_))

    def has_place(self, bytes_: i64) -> bool:
        """Whether so many may wait at the entrance of a channel."""
        return not self.is_shared or self.bytes == 0 or self.fits(bytes_)

    def fits(self, bytes_: i64) -> bool:
        """Whether memory has room for so many more."""
        after: i64 = self.bytes + bytes_
        node = self.node
        return after <= node.lot_bytes_max and after <= node.bytes_max - node.bytes

    def share(self) -> None:
        """Somebody on the connection would stand behind what is held for one queue."""
        if not self.is_shared:
            self.is_shared = True
            self.wake()

    def room_bytes(self) -> i64:
        """How many more it may take into memory now, beside the one that an empty lot takes."""
        if not self.is_shared:
            return 0
        node = self.node
        own: i64 = node.lot_bytes_max - self.bytes
        # What it takes is taken from both sides of the node's rule.
        shared: i64 = (node.bytes_max - node.bytes - self.bytes) // 2
        return max(0, min(own, shared))

    def disk_room_bytes(self) -> i64:
        """How many more it may have on the disk now."""
        disk = self.node.disk
        return 0 if disk is None or not self.is_shared else disk.room_bytes(self.disk_bytes)

    def charge(self, messages: i64, bytes_: i64) -> None:
        """So much is parked in memory from now on."""
        self.messages += messages
        self.bytes += bytes_
        if self.spill is not None:
            self.spill.looks.added += bytes_
        self.node.bytes += bytes_
        self.account.park(messages, bytes_)

    def repay(self, messages: i64, bytes_: i64) -> None:
        """It has left, wherever to; `note_freed` comes after the last of a batch."""
        self.messages -= messages
        self.bytes -= bytes_
        self.node.bytes -= bytes_
        self.account.unpark(messages, bytes_)

    def charge_disk(self, bytes_: i64) -> None:
        """A file is about to be written, of so many bytes."""
        self.disk_bytes += bytes_
        self.account.spill(bytes_)

    def repay_disk(self, bytes_: int) -> None:
        """It is gone."""
        self.disk_bytes -= bytes_
        self.account.unspill(bytes_)
        if self.spill is not None:
            self.spill.looks.again()
        self.wake()
        self.node.wake_all()

    def spill_some(self, is_full: bool = False) -> None:
        """Something was parked, or `is_full` has kept it out: when it is more than half of what may
        be, some goes to the disk."""
        disk = self.node.disk
        if disk is None or not self.is_shared or self.bytes <= self.room_bytes():
            return
        spill = self.spill
        if spill is None:
            self.spill = spill = LotSpill(self, disk)
        spill.write(is_full)

    def is_spilling(self) -> bool:
        """Whether the disk is about to make room."""
        return self.spill is not None and self.spill.job is not None

    def wait(self, actor: Actor) -> None:
        """`actor` is woken when there may be room."""
        self.waiting = self.waiting or {}
        self.waiting[actor] = None
        self.wait_for_node()

    def wait_for_node(self) -> None:
        """What this lot was refused may fit when others have left."""
        self.node.wait(self.wake)

    def note_freed(self) -> None:
        """Something has left: others may have room."""
        if self.spill is not None:
            self.spill.serve_starving()
        self.wake()
        if self.node.waiting:
            self.node.wake()

    def wake(self) -> None:
        """There may be room for those that wait for it here."""
        if self.waiting:
            waiting = list(self.waiting)
            self.waiting.clear()
            for actor in waiting:
                actor.wake()
        if self.host is not None:
            self.host.room_freed()

    def wake_lines(self) -> None:
        """The account is not held any more: whose queue takes again may go on."""
        for line in self.lines.values():
            if line.is_opened:
                line.owner.wake()

    def leave(self, actor: Actor) -> None:
        """`actor` waits for nothing any more."""
        self.waiting.pop(actor, None)

    def close(self) -> None:
        """The connection has ended, and with it all that was parked."""
        self.host = None
        self.waiting.clear()
        self.node.waiting.pop(self.wake, None)


class LotSpill(JobClient):
    """Writes one file of a lot at a time, and reads one piece of each line.

    looks: when the lines are looked through; job, file, pieces: the write under way; reading: by
    job; starving: lines that have nothing in front, and no room to read it; failing_since_ns:
    monotonic, since when reads fail, NO_FAILURE while they do not.
    """

    __slots__ = (
        "disk",
        "failing_since_ns",
        "file",
        "job",
        "looks",
        "lot",
        "pieces",
        "reading",
        "starving",
    )

    def __init__(self, lot: ParkingLot, disk: ParkingDisk) -> None:
        self.lot = lot
        self.disk = disk
        self.looks = Looks(lot.bytes)
        self.job: WriteParked | None = None
        self.file: ParkedFile | None = None
        self.pieces: list[ParkedPiece] = []
        self.reading: dict[Job, ParkedPiece] = {}
        self.starving: dict[ParkedLine, None] = {}
        self.failing_since_ns: i64 = NO_FAILURE

    def job_done(self, job: Job, error: OSError | None) -> None:
        if isinstance(job, ReadParked):
            self._was_read(job, error)
        else:
            self._was_written(error)

    def unit_bytes(self) -> i64:
        """What the front of a line is to have, and a piece at most: a piece of the disk's size, or
        less where many lines share the lot."""
        lot = self.lot
        count: i64 = len(lot.lines)
        shared: i64 = (lot.bytes + lot.room_bytes()) // (UNITS * (count if count > 0 else 1))
        return shared if shared < self.disk.piece_bytes else self.disk.piece_bytes

    # -- to the disk -----------------------------------------------------------------------------

    def write(self, is_full: bool) -> None:
        """Let the middle of the larger lines go, as much as one file has; nothing while one is
        being written, or without room. is_full: the lot has no room in memory."""
        lot, disk = self.lot, self.disk
        room: i64 = disk.writable_bytes(lot.disk_bytes)
        count: i64 = len(lot.lines)
        if self.job is not None or count == 0 or room * WORTH_SHARE < disk.write_bytes:
            return
        if not self.looks.is_due(is_full, lot.bytes, disk.write_bytes):
            return
        unit: i64 = self.unit_bytes()
        least: i64 = lot.bytes // (2 * count)
        smallest: i64 = unit // 2 if unit // 2 > disk.piece_bytes_min else disk.piece_bytes_min
        largest: i64 = unit if unit > 2 * smallest else 2 * smallest
        left: i64 = disk.write_bytes if disk.write_bytes < room else room
        file, job = disk.begin(lot.repay_disk)
        pieces: list[ParkedPiece] = []
        for line in lot.lines.values():
            front: i64 = line.front_bytes if line.pieces else unit
            if line.bytes < least or line.bytes - front < smallest:
                continue
            if not line.pieces:
                line.part(unit)
            while left > 0:
                piece = line.cut(smallest, largest, room, lot.account)
                if piece is None:
                    break
                pieces.append(piece)
                left -= piece.disk_bytes
                room -= piece.disk_bytes
                disk.charge(file, 1, piece.disk_bytes)
                piece.file = file
                piece.place = job.add(piece.messages, piece.disk_bytes)
            line.close_up()
            if left <= 0:
                break
        self.looks.done(left <= 0)
        if pieces:
            self.job, self.file, self.pieces = job, file, pieces
            lot.charge_disk(file.size)
            disk.disk.submit(job, self)

    def _was_written(self, error: OSError | None) -> None:
        lot, disk = self.lot, self.disk
        pieces, file = self.pieces, self.file
        assert file is not None, "because a write has ended"
        self.job, self.file, self.pieces = None, None, []
        if error is not None:
            disk.not_written(error)
            disk.waiting[self._again] = None
            for piece in reversed(pieces):
                if piece.at is PieceAt.WRITING:
                    piece.line.not_written(piece)
            disk.repay(file)
            return
        disk.written()
        for piece in pieces:
            if piece.at is PieceAt.WRITING:
                lot.repay(0, piece.bytes - piece.overhead_bytes())
                piece.line.written(piece)
            else:
                disk.left(file)
        for piece in pieces:
            self.ahead(piece.line)
        lot.note_freed()
        lot.spill_some()

    def _again(self) -> None:
        """The disk may work by now."""
        self.looks.again()
        self.lot.spill_some()
        for line in list(self.lot.lines.values()):
            self.ahead(line)

    # -- from the disk ---------------------------------------------------------------------------

    def ahead(self, line: ParkedLine) -> bool:
        """Read what comes next in `line`, if little of it is in memory; False for want of room.
        There is always room for one read of a lot, if a queue would get nothing otherwise."""
        if line.front_bytes * 2 >= self.unit_bytes() and line.has_front():
            return True
        piece = line.next_on_disk()
        place = None if piece is None else piece.place
        if piece is None or place is None:
            return True
        lot, disk = self.lot, self.disk
        if not lot.fits(piece.bytes) and (line.has_front() or self.reading):
            if not line.has_front():
                self.starving[line] = None
            return False
        if disk.read_fault != "" and disk.retry.due_ns >= 0:
            disk.waiting[self._again] = None
            return True
        lot.charge(0, piece.bytes)
        piece.move(PieceEvent.WANTED)
        job = ReadParked(disk.directory, place)
        self.reading[job] = piece
        disk.disk.submit(job, self)
        return True

    def serve_starving(self) -> None:
        """There may be room for a read."""
        while self.starving:
            line = next(iter(self.starving))
            del self.starving[line]
            if not self.ahead(line):
                return

    def _was_read(self, job: ReadParked, error: OSError | None) -> None:
        lot, disk = self.lot, self.disk
        piece = self.reading.pop(job)
        line, file = piece.line, piece.file
        assert file is not None, "because it was written"
        if piece.at is PieceAt.READING:
            if error is not None and not self._is_lost(error):
                lot.repay(0, piece.bytes)
                piece.move(PieceEvent.AGAIN)
                disk.not_read(error)
                disk.waiting[self._again] = None
                lot.note_freed()
                return
            if error is not None or job.is_damaged:
                lot.repay(piece.count, piece.bytes + piece.overhead_bytes())
                line.drop(piece, PieceEvent.READ)
                disk.cannot_read(line.lane.receiver, piece.count)
                line.lane.answerable.lost(piece.sequences())
            else:
                disk.read()
                self.failing_since_ns = NO_FAILURE
                lot.repay(0, piece.overhead_bytes())
                line.came(piece, job.messages, lot.account)
            self._serve(line)
        else:
            lot.repay(0, piece.bytes)
        disk.left(file)
        lot.note_freed()

    def _is_lost(self, error: OSError) -> bool:
        now_ns: i64 = self.disk.clock.monotonic_ns()
        if self.failing_since_ns == NO_FAILURE:
            self.failing_since_ns = now_ns
        return is_lost_by(error, now_ns - self.failing_since_ns)

    def _serve(self, line: ParkedLine) -> None:
        """Something has come into the front of `line`, or it has come to its end."""
        lane = line.lane
        if not lane.is_closed or not lane.receiving.is_alive or line.is_empty():
            line.open()
            line.owner.wake()
        self.ahead(line)

    def drop_next(self, line: ParkedLine) -> ParkedPiece:
        """The first piece of `line` ends on the disk: its queue is gone."""
        piece = line.pieces[0]
        file = piece.file
        assert file is not None, "because only what is written is dropped"
        is_read = piece.at is PieceAt.READING
        self.lot.repay(piece.count, piece.overhead_bytes())
        line.drop(piece, PieceEvent.DROPPED)
        if not is_read:
            self.disk.left(file)
        return piece
