"""Directories of a process for as long as it lives: those of one that was killed are removed by the
next. IO.

A directory has a file that its process holds locked; the kernel lets go of it however the process
ends, so that no pid has to be believed, also where several containers share one TMPDIR.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

OWNER: Final = "penstock-owner"


@contextmanager
def own_directory(prefix: str) -> Iterator[Path]:
    """A new directory in the temporary one, which is gone after the block; others of that prefix,
    whose processes are dead, go now. Raises: OSError."""
    for file in Path(tempfile.gettempdir()).glob(f"{prefix}*/{OWNER}"):
        _remove_abandoned(file)
    place = Path(tempfile.mkdtemp(prefix=prefix))
    new = place / "new"
    with new.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Under its name it is locked from the first moment.
        new.rename(place / OWNER)
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)


def _remove_abandoned(file: Path) -> None:
    """The directory of `file`, unless a process has it, or it is another user's."""
    with suppress(OSError):
        handle = os.open(file, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(file.parent)
        finally:
            os.close(handle)
