"""The open files of streams. Only jobs touch them, so only the disk thread does."""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.base.limits import STREAM_OPEN_FILES
from penstock.storage.layout.files import Directory, File, SyncFailed, is_scarce
from penstock.storage.log.roster import IS_STREAM, Roster
from penstock.streams.format import parse_name

OPEN_FILES: Final = STREAM_OPEN_FILES.default


@mypyc_attr(allow_interpreted_subclasses=True)
class StreamHandles:
    """files: by name, the longest unused first; dirty: those with writes that were not synced,
    which stay open because an error of writing is told to their handle alone; is_directory_dirty:
    names were changed; is_broken: a sync has failed, nothing is written any more; roster: of the
    files there are."""

    __slots__ = ("directory", "dirty", "files", "is_broken", "is_directory_dirty", "roster")

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.roster = Roster(directory)
        self.files: dict[str, File] = {}
        self.dirty: dict[str, File] = {}
        self.is_directory_dirty = False
        self.is_broken = False

    def open(self, name: str) -> File:
        """An existing file. Raises: FileNotFoundError."""
        file = self.files.pop(name, None)
        if file is None:
            file = self._opened(name)
            self._make_room()
        self.files[name] = file
        return file

    def _opened(self, name: str) -> File:
        try:
            return self.directory.open(name)
        except OSError as error:
            # Whoever reads would be told that it cannot be read.
            if not is_scarce(error) or not self._give_up():
                raise
        return self.directory.open(name)

    def _give_up(self) -> bool:
        """Close what is idle, or else what waits for a sync, which it gets; False when there was
        nothing. Raises: SyncFailed."""
        if not self.give_up_idle():
            self._sync_files()
            return self.give_up_idle()
        return True

    def give_up_idle(self) -> bool:
        """Close every handle that can be had again, because the process has no more; False when
        there was none."""
        idle = [name for name in self.files if name not in self.dirty]
        for name in idle:
            self.files.pop(name).close()
        return len(idle) > 0

    def create(self, name: str) -> File:
        """A new file. Raises: FileExistsError."""
        try:
            file = self.directory.create(name)
        except OSError as error:
            # A batch of more streams than there are handles would never end otherwise.
            if not is_scarce(error) or not self._give_up():
                raise
            file = self.directory.create(name)
        self.is_directory_dirty = True
        parsed = parse_name(name)
        if parsed is not None:
            self.roster.note(IS_STREAM, parsed[0], parsed[1])
        self._make_room()
        self.files[name] = file
        return file

    def _make_room(self) -> None:
        if len(self.files) < OPEN_FILES:
            return
        for name in list(self.files):
            if name not in self.dirty:
                self.files.pop(name).close()
                return

    def written(self, name: str) -> None:
        """The file was written to."""
        self.dirty[name] = self.files[name]

    def sync(self) -> None:
        """Everything that was written to, then the names. Raises: SyncFailed."""
        self._sync_files()
        if not self.is_directory_dirty:
            return
        try:
            self.directory.sync()
        except OSError as error:
            # The directory could not even be opened, and no file waits for a sync any more.
            if not is_scarce(error) or not self.give_up_idle():
                raise self._failed(error) from error
            self._sync_names()
        self.is_directory_dirty = False

    def _sync_names(self) -> None:
        try:
            self.directory.sync()
        except OSError as error:
            raise self._failed(error) from error

    def _sync_files(self) -> None:
        try:
            for name, file in list(self.dirty.items()):
                file.sync()
                del self.dirty[name]
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> OSError:
        """What to raise: nothing is written any more, unless a handle was all that was missing."""
        if is_scarce(error):
            return OSError(error.errno, error.strerror)
        self.is_broken = True
        return SyncFailed(error.errno, f"syncing streams failed: {error.strerror}")

    def remove(self, name: str) -> None:
        """Take a file away, if it is there."""
        self.dirty.pop(name, None)
        file = self.files.pop(name, None)
        if file is not None:
            file.close()
        parsed = parse_name(name)
        if parsed is not None:
            self.roster.drop(parsed[0], parsed[1])
        try:
            self.directory.remove(name)
        except FileNotFoundError:
            return
        self.is_directory_dirty = True

    def close(self) -> None:
        """Give everything back."""
        for file in self.files.values():
            file.close()
        self.files.clear()
        self.dirty.clear()
