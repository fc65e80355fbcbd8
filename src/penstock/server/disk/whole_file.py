"""Writing a file so that after any crash it is the old one or the new one, never another (F8)."""

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Put `data` into the place of whatever is at `path`, readable by its owner alone.

    Under a name of its own first, so that two at once both succeed. Raises: OSError, and then
    nothing has changed."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    try:
        try:
            _write_fully(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make names that were made or removed in `path` survive a power cut. Raises: OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_fully(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        # Less than all may be written without an error, on a disk that is filling up.
        left = left[os.write(handle, left) :]
