"""How whatever lies below a data directory is made, written and removed: all of it passes here, so
that somebody who has to know of every change can put another in this one's place.

Not what nobody wants to have elsewhere: lock, audit, what is parked, and what is transient.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from penstock.base.errors import OperatorError
from penstock.server.disk.disk_files import DiskDirectory, FileReclaimer
from penstock.server.disk.disk_thread import DiskThread
from penstock.server.disk.metadata_db import MetadataDb
from penstock.server.disk.whole_file import sync_directory, write_whole
from penstock.server.net.poller import Poller
from penstock.storage.layout.files import Directory


class LocalFiles:
    """Files of this machine alone. Raises, everywhere: OSError."""

    def directory(self, path: Path, freeing: FileReclaimer | None = None) -> Directory:
        """One with messages; made if it is not there."""
        return DiskDirectory(str(path), freeing)

    def make_folder(self, path: Path) -> None:
        """A new one, for its owner alone; safe when this returns."""
        path.mkdir(0o700)
        sync_directory(path.parent)

    def write_whole(self, path: Path, data: bytes) -> None:
        """See whole_file."""
        write_whole(path, data)

    def remove(self, path: Path) -> None:
        """Safe when this returns. Raises: FileNotFoundError."""
        os.unlink(path)
        sync_directory(path.parent)

    def database(self, path: Path) -> MetadataDb:
        """Raises: OperatorError."""
        return MetadataDb(path)

    def disk(self, poller: Poller) -> DiskThread:
        """Of the stores, the streams and the catalogue."""
        return DiskThread(poller)

    def working(self) -> AbstractContextManager[None]:
        """Around what is done outside of a disk's jobs."""
        return nullcontext()

    def failure(self) -> OperatorError | None:
        """Why the broker has to stop, if it has to."""
        return None

    def when_failed(self, look: Callable[[], None]) -> None:
        """`look` is called on the loop when `failure` has something to say that cannot wait."""


LOCAL = LocalFiles()
