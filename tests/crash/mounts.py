"""File systems of their own for a test: a small one that fills up, one whose power can be cut.

They need root and loop devices or tmpfs; where the machine has none the tests that ask say so.
"""

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN: the file system is gone at once."""
WITHOUT_FLUSH = (2).to_bytes(4, "little")
"""Not even the journal is written: what was not synced is lost."""

LET_GO_S = 10.0


class NoMount(Exception):
    """This machine does not let us."""


SYSTEM = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
"""mkfs and mount are often not where a user's PATH looks."""


def _run(*command: str) -> None:
    whole = shutil.which(command[0], path=SYSTEM) or command[0]
    try:
        subprocess.run([whole, *command[1:]], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoMount(f"{' '.join(command)}: {error}") from error


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A tmpfs of so many MiB. Raises: NoMount."""
    path = folder / "small"
    path.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path))
    try:
        yield path
    finally:
        _run("umount", "-l", str(path))


@contextmanager
def shared_mounts(folder: Path) -> Iterator[None]:
    """What is unmounted below `folder` is unmounted in the mount namespaces of processes that were
    started meanwhile, too. Raises: NoMount."""
    _run("mount", "--bind", str(folder), str(folder))
    try:
        _run("mount", "--make-shared", str(folder))
        yield
    finally:
        _run("umount", str(folder))


class CutDisk:
    """An ext4 in a file, `path` where it is mounted."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.image = folder / "disk.img"
        self.path = folder / "disk"
        self.path.mkdir()
        with self.image.open("wb") as file:
            file.truncate(megabytes << 20)
        _run("mkfs.ext4", "-q", "-F", str(self.image))
        self.mount()

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self.image), str(self.path))

    def cut(self) -> None:
        """The power is gone: nothing that was not synced survives. Raises: NoMount."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, SHUTDOWN, WITHOUT_FLUSH)
        except OSError as error:
            raise NoMount(f"the file system cannot be shut down: {error}") from error
        finally:
            os.close(handle)

    def freeze(self) -> None:
        """Whoever writes or syncs waits until `thaw`."""
        _run("fsfreeze", "-f", str(self.path))

    def thaw(self) -> None:
        _run("fsfreeze", "-u", str(self.path))

    def unmount(self) -> None:
        """Also when who was killed lets go of its files only in a moment. Raises: NoMount."""
        end = time.monotonic() + LET_GO_S
        while True:
            try:
                _run("umount", str(self.path))
            except NoMount:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
            else:
                return


@contextmanager
def cut_disk(folder: Path, megabytes: int) -> Iterator[CutDisk]:
    """Raises: NoMount."""
    disk = CutDisk(folder, megabytes)
    try:
        yield disk
    finally:
        subprocess.run(
            ["umount", "-l", str(disk.path)], check=False, capture_output=True, timeout=60
        )
