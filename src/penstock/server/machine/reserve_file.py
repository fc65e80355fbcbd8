"""A file that only takes room, so that there is some left when the disk is full.

It is there while all is well, is removed when the disk alarm is set, and made again afterwards.
"""

import os
from pathlib import Path

NAME = ".penstock-reserve"


class ReserveFile:
    """size_bytes: 0 for no reserve. trouble: why the last attempt to make or to remove it failed,
    "" if not."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self.path = folder / NAME
        self.size_bytes = size_bytes
        self.trouble = ""

    def missing_bytes(self) -> int:
        """What making it would take from the disk now."""
        if self.size_bytes == 0:
            return 0
        try:
            # Blocks, not length: a file with holes reserves nothing.
            taken = self.path.stat().st_blocks * 512
        except OSError:
            taken = 0
        return max(0, self.size_bytes - taken)

    def make(self) -> None:
        """Take the room for real, if it is not taken; on failure nothing is left behind."""
        if self.missing_bytes() == 0:
            return
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, self.size_bytes)
            finally:
                os.close(file)
        except OSError as error:
            self.trouble = str(error)
            self.remove()
            return
        self.trouble = ""

    def remove(self) -> None:
        """Give the room back."""
        if self.size_bytes == 0:
            return
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            # Called under an alarm and at the end: both have to go on.
            self.trouble = str(error)
