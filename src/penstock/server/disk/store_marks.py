"""Two empty files beside a store that say how its last life has ended.

CLEAN      the stop was clean; gone before anything else is done at the next start. Without it every
           message that comes back may have been delivered before, and says so
UNSYNCED   nothing was synced while it ran (mode none): after a crash nothing is believed that was
           not read itself
"""

from pathlib import Path
from typing import Final

from penstock.server.disk.whole_file import sync_directory, write_whole

PERSISTENT: Final = "persistent"
STREAMS: Final = "streams"
CLEAN: Final = "CLEAN"
UNSYNCED: Final = "UNSYNCED"


def take_clean(path: Path) -> bool:
    """Whether the last stop was clean; asked once. Raises: OSError."""
    try:
        (path / CLEAN).unlink()
    except FileNotFoundError:
        return not any((path / PERSISTENT).iterdir())
    sync_directory(path)
    return True


def leave_clean(path: Path) -> None:
    """The last batch is safe. Raises: OSError."""
    write_whole(path / CLEAN, b"")


def is_unsynced(path: Path) -> bool:
    """Whether what lies in `path` may be in memory only, after a stop that was not clean."""
    return (path / UNSYNCED).exists()


def mark_unsynced(path: Path, is_lazy: bool) -> None:
    """Before anything is written, and when what was there is safe: whether it will be synced.

    Raises: OSError."""
    if is_lazy:
        write_whole(path / UNSYNCED, b"")
    elif is_unsynced(path):
        (path / UNSYNCED).unlink()
        sync_directory(path)
