"""The open files of a log. Only jobs touch them, so only the disk thread does."""

from errno import ENOENT
from typing import Final

from mypy_extensions import i64

from penstock.base.limits import STORE_OPEN_FILES
from penstock.storage.layout.files import Directory, File, SyncFailed, is_scarce
from penstock.storage.layout.format import acks_name, log_name
from penstock.storage.layout.segment import Segment
from penstock.storage.log.recycled import RecycledSegments
from penstock.storage.log.roster import IS_ACKED, IS_LOG, Roster

OPEN_FILES: Final = STORE_OPEN_FILES.default
ACK_FILES: Final = 8
"""Of them those of acknowledgements: most go to the segments of the last seconds."""
EVERY: Final = 1 << 30
ORPHANS_MAX: Final = 16
"""Acknowledgements of removed segments: with more the next sync is one of the directory as well."""


class Handles:
    """files: open segments, the longest unused first; ack_files: open acknowledgements; dirty:
    segments with writes that were not synced, whose handle stays open because an error of writing
    is told to it alone; is_directory_dirty: there are names that have to be safe before the next
    confirm; has_loose_names: names were changed, maybe such that nobody waits for; orphans: numbers
    of acknowledgements to be removed when the log they are of is safely gone; is_broken: a sync has
    failed, nothing is written any more; is_scratch: nothing is synced; is_lazy: it is synced at the
    end only, until which dirty handles may be closed; owed: numbers of those that were; owed_acks:
    numbers of acknowledgements that are not synced; ack_round: those of them that are being synced,
    a few with a batch; spares: files to be used again; roster: of the files there are."""

    __slots__ = (
        "ack_files",
        "ack_round",
        "directory",
        "dirty",
        "files",
        "has_loose_names",
        "is_broken",
        "is_directory_dirty",
        "is_lazy",
        "is_scratch",
        "orphans",
        "owed",
        "owed_acks",
        "roster",
        "spares",
    )

    def __init__(self, directory: Directory, is_scratch: bool, spares: RecycledSegments) -> None:
        self.directory = directory
        self.roster = Roster(directory)
        self.spares = spares
        self.is_scratch = is_scratch
        self.files: dict[int, File] = {}
        self.ack_files: dict[int, File] = {}
        self.dirty: dict[int, File] = {}
        self.is_directory_dirty = False
        self.has_loose_names = False
        self.orphans: dict[int, None] = {}
        self.is_broken = False
        self.is_lazy = False
        self.owed: dict[int, None] = {}
        self.owed_acks: dict[int, None] = {}
        self.ack_round: list[int] = []

    def log(self, segment: Segment) -> File:
        """The file of `segment`; for a new one a spare, or one that is created."""
        number = int(segment.number)
        file = self.files.pop(number, None)
        if file is None:
            name = log_name(number)
            file = self.directory.open(name) if segment.is_created else self._begun(segment, name)
            self._make_room()
        self.files[number] = file
        return file

    def _begun(self, segment: Segment, name: str) -> File:
        file = self.spares.take(name)
        if file is None:
            file = self.directory.create(name)
        else:
            segment.was_used = True
        segment.is_created = True
        self.is_directory_dirty = True
        self.roster.note(IS_LOG, segment.number, 0)
        return file

    def acks(self, number: i64, is_created: bool) -> File:
        """The file of acknowledgements of a segment, created unless `is_created`."""
        file = self.ack_files.pop(int(number), None)
        if file is None:
            name = acks_name(number)
            if is_created:
                file = self.directory.open(name)
            else:
                file = self.directory.create(name)
                self.has_loose_names = True
                self.roster.note(IS_ACKED, number, 0)
            if len(self.ack_files) >= ACK_FILES:
                self.ack_files.pop(next(iter(self.ack_files))).close()
        self.ack_files[int(number)] = file
        self.owed_acks[int(number)] = None
        return file

    def existing(self, segment: Segment) -> File:
        """The file of `segment` for reading. Raises: FileNotFoundError."""
        if not segment.is_created:
            raise FileNotFoundError(ENOENT, "a segment is gone", log_name(segment.number))
        try:
            return self.log(segment)
        except OSError as error:
            # Whoever reads would take what it cannot open for damaged.
            if not is_scarce(error) or not self.give_up_idle():
                raise
        return self.log(segment)

    def give_up_idle(self) -> bool:
        """Close every handle that can be had again, because somebody needs one and the process has
        no more; False when there was none."""
        idle = [number for number in self.files if number not in self.dirty]
        count = len(idle) + len(self.ack_files)
        for number in idle:
            self.files.pop(number).close()
        for file in self.ack_files.values():
            file.close()
        self.ack_files.clear()
        return count > 0

    def _make_room(self) -> None:
        if len(self.files) < OPEN_FILES - ACK_FILES:
            return
        for number in list(self.files):
            if self.is_scratch or self.is_lazy or number not in self.dirty:
                if self.dirty.pop(number, None) is not None and not self.is_scratch:
                    self.owed[number] = None
                self.files.pop(number).close()
                return

    def written(self, segment: Segment) -> None:
        """`segment` was written to."""
        number = int(segment.number)
        self.dirty[number] = self.files[number]

    def sync(self, number: i64) -> None:
        """Sync one file if it was written to. Raises: SyncFailed."""
        file = self.dirty.get(int(number))
        if file is None or self.is_scratch:
            return
        try:
            file.sync()
        except OSError as error:
            raise self.failed(error) from error
        del self.dirty[int(number)]

    def secure(self, number: i64) -> None:
        """What is in one file is safe, its name too, before something is written that relies on it,
        unless a start after a crash will not rely on anything. Raises: SyncFailed."""
        if not self.is_lazy:
            self.sync(number)
            self.sync_directory()

    def sync_all(self) -> None:
        """Sync everything that was written to, then the directory if it has names that somebody
        relies on. Raises: SyncFailed."""
        for number in list(self.dirty):
            self.sync(number)
        if self.owed and not self.is_scratch:
            self._sync_owed()
        self.sync_directory()

    def _sync_owed(self) -> None:
        for number in list(self.owed):
            self._sync_closed(log_name(number))
            del self.owed[number]

    def sync_acks(self, most: int = EVERY) -> None:
        """Sync acknowledgements that this life has written: after a clean stop, which syncs all,
        nothing that was settled comes back. most: so many files of a round, which are those that
        waited when it began. Their names have to be safe, too. Raises: SyncFailed.
        """
        self.is_directory_dirty = self.is_directory_dirty or self.has_loose_names
        due = self.ack_round
        if not due or most == EVERY:
            due = list(self.owed_acks)
        for number in due[:most]:
            if number in self.owed_acks:
                self._sync_closed(acks_name(number))
                del self.owed_acks[number]
        self.ack_round = due[most:]

    def sync_acks_of(self, number: i64) -> None:
        """Sync the acknowledgements of one segment, as `sync_acks` does. Raises: SyncFailed."""
        self.is_directory_dirty = self.is_directory_dirty or self.has_loose_names
        if int(number) in self.owed_acks:
            self._sync_closed(acks_name(number))
            del self.owed_acks[int(number)]

    def _sync_closed(self, name: str) -> None:
        try:
            file = self.directory.open(name)
            try:
                file.sync()
            finally:
                file.close()
        except OSError as error:
            raise self.failed(error) from error

    def sync_directory(self) -> None:
        """Sync the names if one was changed. Raises: SyncFailed."""
        if not self.is_directory_dirty or self.is_scratch:
            return
        try:
            self.directory.sync()
        except OSError as error:
            raise self.failed(error) from error
        self.is_directory_dirty = False
        self.has_loose_names = False
        self.spares.names_are_safe()

    def failed(self, error: OSError) -> OSError:
        """What to raise: this was the last write, unless what was to be synced could not even be
        opened."""
        if is_scarce(error):
            return OSError(error.errno, error.strerror)
        self.is_broken = True
        return SyncFailed(error.errno, f"syncing the message store failed: {error.strerror}")

    def let_go(self, segment: Segment) -> None:
        """Nothing in `segment` counts: its file is kept for another one, or removed."""
        self.forget(segment.number)
        if not segment.is_created:
            return
        self.roster.drop(segment.number, 0)
        # Without syncs the new name would never be safe.
        if self.is_scratch or self.is_lazy or not self.spares.keep(segment):
            self.directory.remove(log_name(segment.number))
        segment.is_created = False
        # What a loss of power brings back has its acknowledgements, as long as they are there.
        self.has_loose_names = True

    def leave_acks(self, number: i64) -> None:
        """The log they are of was let go."""
        self.forget(number)
        self.orphans[int(number)] = None
        if len(self.orphans) > ORPHANS_MAX:
            self.is_directory_dirty = True

    def remove_orphans(self, may_wait: bool) -> None:
        """Remove acknowledgements of which the log is safely gone. may_wait: as a sync of the
        directory for that alone would be one more that confirms wait for, it is left to the next.
        Raises: OSError, SyncFailed."""
        if not self.orphans:
            return
        if self.has_loose_names and not self.is_lazy and not self.is_scratch:
            if may_wait:
                return
            # A loss of power may keep this removal and undo that of the log.
            self.is_directory_dirty = True
            self.sync_directory()
        for number in self.orphans:
            self.directory.remove(acks_name(number))
        self.orphans.clear()
        self.has_loose_names = True

    def forget(self, number: i64) -> None:
        """The file is going to have another name, or none."""
        self.dirty.pop(int(number), None)
        self.owed.pop(int(number), None)
        self.owed_acks.pop(int(number), None)
        for files in (self.files, self.ack_files):
            file = files.pop(int(number), None)
            if file is not None:
                file.close()

    def close(self) -> None:
        """Give everything back."""
        for files in (self.files, self.ack_files):
            for file in files.values():
                file.close()
            files.clear()
        self.dirty.clear()
