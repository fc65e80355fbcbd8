"""What all parking lots of a node have on the disk: files, their bytes, and its faults.

    cannot be written   what was to go stays in memory, and nobody writes for RETRY_NS
    cannot be read      it is tried again; what is gone (no such file, bytes that were not written,
                        EIO for too long) is lost, and answered basic.nack where there are confirms

Each is said once, and once more when it is over. Nothing here is synced: what is parked has not
been confirmed, and may be lost in a crash. Source: docs/strategies.md, parking. COMPILED.
"""

from collections.abc import Callable
from errno import ENOENT
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.clock import Clock
from penstock.base.limits import PARKED_DISK_BYTES, PARKED_PIECE_BYTES, PARKED_WRITE_BYTES
from penstock.broker.actors.disk import Disk, JobClient
from penstock.broker.actors.log import Log
from penstock.broker.store.group_commit import RETRY_NS
from penstock.flow.due import DueLine, Timer
from penstock.storage.layout.files import Directory
from penstock.storage.log.job import Job
from penstock.storage.log.parked import RemoveParked, WriteParked, file_name

PIECE_OVERHEAD_BYTES: Final = 640
"""What a piece on the disk costs in memory, beside 4 bytes for each number of a confirming
channel and 8 for each publish that another account pays for."""

PIECE_BYTES_MIN: Final = 4 * PIECE_OVERHEAD_BYTES
"""A smaller piece is not worth what it leaves in memory."""

UNITS: Final = 6
"""The fronts of all lines together have this part of a lot's memory. A line has a front, a piece
that was read and half a one that is not worth writing yet: with what is less than half of the lot
it never asks for the disk."""

WORTH_SHARE: Final = 4
"""Less than this part of a file is not worth one: the disk has no room."""

NO_LOOK: Final = -1


@mypyc_attr(acyclic=True)
class Looks:
    """When the lines of a lot are looked through for what may go to the disk: a look goes through
    all of them, and a file of a few publishes would cost as much as a large one.

    added: bytes that ever came to the lot; at: the same when the last look found less than a file,
    NO_LOOK when there is more to find, or may be."""

    __slots__ = ("added", "at")

    def __init__(self, added: i64) -> None:
        self.added: i64 = added
        self.at: i64 = NO_LOOK

    def again(self) -> None:
        """What could not be written may be by now."""
        self.at = NO_LOOK

    def done(self, is_file_full: bool) -> None:
        """What there is has been found, or there is more than a file."""
        self.at = NO_LOOK if is_file_full else self.added

    def is_due(self, is_full: bool, bytes_: i64, write_bytes: i64) -> bool:
        """Whether enough has come since. bytes_: in the lot; is_full: it has no more room, so that
        anything is enough; write_bytes: of a file."""
        added: i64 = self.added - self.at
        if self.at == NO_LOOK or is_full:
            return added > 0
        return added * WORTH_SHARE >= (write_bytes if write_bytes < bytes_ else bytes_)


class ParkedFile:
    """One file. size: bytes, charged until it is removed; pieces: that still need it; repay: called
    with the size when it is gone."""

    __slots__ = ("name", "pieces", "repay", "size")

    def __init__(self, name: str, repay: Callable[[int], None]) -> None:
        self.name = name
        self.size: i64 = 0
        self.pieces: i64 = 0
        self.repay = repay


class Removal(JobClient):
    """Removes a file, and hears that it is gone. What cannot be removed is tried again, and takes
    its room until then."""

    __slots__ = ("file", "has_failed", "job", "parking")

    def __init__(self, parking: "ParkingDisk", file: ParkedFile) -> None:
        self.parking = parking
        self.file = file
        self.job = RemoveParked(parking.directory, file.name, file.size)
        self.has_failed = False

    def begin(self) -> None:
        self.parking.disk.submit(self.job, self)

    def job_done(self, job: Job, error: OSError | None) -> None:
        parking = self.parking
        if error is None or error.errno is None or error.errno == ENOENT:
            parking.repay(self.file)
            return
        if not self.has_failed:
            self.has_failed = True
            parking.log.warning(
                f"cannot remove a file of the parking lot, which is tried again: {error}"
            )
        parking.try_later(self.begin)


class ParkingDisk:
    """directory, disk: where files are, and who runs the jobs; bytes, bytes_max: of files;
    piece_bytes, write_bytes: of one piece and of one file, but one publish in any case;
    piece_bytes_min: of one piece; waiting:
    called when it can be written, or read, again; fault: why it cannot be written, "" if it can;
    read_fault: the same of reading; lost: publishes that could not be read.
    """

    __slots__ = (
        "bytes",
        "bytes_max",
        "clock",
        "directory",
        "disk",
        "dues",
        "fault",
        "log",
        "lost",
        "number",
        "piece_bytes",
        "piece_bytes_min",
        "read_fault",
        "retry",
        "waiting",
        "write_bytes",
    )

    def __init__(
        self, directory: Directory, disk: Disk, clock: Clock, dues: DueLine, log: Log
    ) -> None:
        self.directory = directory
        self.disk = disk
        self.clock = clock
        self.dues = dues
        self.log = log
        self.bytes: i64 = 0
        self.bytes_max: i64 = PARKED_DISK_BYTES.default
        self.piece_bytes: i64 = PARKED_PIECE_BYTES.default
        self.piece_bytes_min: i64 = PIECE_BYTES_MIN
        self.write_bytes: i64 = PARKED_WRITE_BYTES.default
        self.number: i64 = 0
        self.fault = ""
        self.read_fault = ""
        self.lost: i64 = 0
        self.waiting: dict[Callable[[], None], None] = {}
        self.retry = Timer(self._again)

    def room_bytes(self, held: i64) -> i64:
        """Bytes that a lot with `held` bytes on the disk may add: no lot has more than is free."""
        if self.fault != "":
            return 0
        return self._free_bytes(held)

    def writable_bytes(self, held: i64) -> i64:
        """The same, now: a disk that has failed is tried again when it is time."""
        return 0 if self.fault != "" and self.retry.due_ns >= 0 else self._free_bytes(held)

    def _free_bytes(self, held: i64) -> i64:
        # What it takes is taken from both sides of the rule.
        room: i64 = (self.bytes_max - self.bytes - held) // 2
        return room if room > 0 else 0

    def begin(self, repay: Callable[[int], None]) -> tuple[ParkedFile, WriteParked]:
        """A new file, and the job that writes it."""
        file = ParkedFile(file_name(int(self.number)), repay)
        self.number += 1
        return file, WriteParked(self.directory, file.name)

    def charge(self, file: ParkedFile, pieces: i64, bytes_: i64) -> None:
        """`file` gets so much more."""
        file.pieces += pieces
        file.size += bytes_
        self.bytes += bytes_

    def left(self, file: ParkedFile) -> None:
        """One piece of `file` is wanted no more; with the last of them it goes."""
        file.pieces -= 1
        if file.pieces == 0:
            Removal(self, file).begin()

    def repay(self, file: ParkedFile) -> None:
        """`file` is not there, or never was."""
        self.bytes -= file.size
        file.repay(int(file.size))

    # -- faults ----------------------------------------------------------------------------------

    def not_written(self, error: OSError) -> None:
        """Nothing is written for a while."""
        if self.fault == "":
            self.log.warning(
                f"parked publishes cannot go to the disk and stay in memory until they can: {error}"
            )
        self.fault = error.strerror or str(error)
        self._wait()

    def written(self) -> None:
        """The disk takes what it is given."""
        if self.fault != "" and self.retry.due_ns < 0:
            self.fault = ""
            self.log.info("parked publishes go to the disk again")

    def not_read(self, error: OSError) -> None:
        """What was wanted is not there yet."""
        if self.read_fault == "":
            self.log.warning(f"parked publishes cannot be read, which is tried again: {error}")
        self.read_fault = error.strerror or str(error)
        self._wait()

    def read(self) -> None:
        """The disk gives what it is asked for."""
        if self.read_fault != "":
            self.read_fault = ""
            self.log.info("parked publishes can be read again")

    def cannot_read(self, queue: str, count: i64) -> None:
        """So many publishes for `queue` are lost."""
        self.lost += count
        self.log.warning(
            f"{count} publishes that were parked for {queue} cannot be read and are lost; "
            "none of them was confirmed"
        )

    def try_later(self, wake: Callable[[], None]) -> None:
        """Call `wake` when the disk is tried again."""
        self.waiting[wake] = None
        self._wait()

    def _wait(self) -> None:
        if self.retry.due_ns < 0:
            self.dues.put(self.retry, self.clock.monotonic_ns() + RETRY_NS)

    def _again(self, now_ns: int) -> None:
        waiting = list(self.waiting)
        self.waiting.clear()
        for wake in waiting:
            wake()
