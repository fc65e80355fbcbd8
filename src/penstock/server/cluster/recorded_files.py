"""The files of a leader's broker: as any broker's, and every change of them is recorded."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from penstock.base.errors import OperatorError
from penstock.replication.operations import REMOVE_FOLDER
from penstock.server.cluster.catalogue_replica import RecordedDb
from penstock.server.cluster.committed_disk import CommittedDisk
from penstock.server.cluster.pipe import Nodes, Places
from penstock.server.cluster.recorder import (
    RecordedDirectory,
    Recorder,
    make_folder,
    put_whole,
    take_away,
)
from penstock.server.disk.disk_files import FileReclaimer
from penstock.server.disk.disk_thread import DiskThread
from penstock.server.disk.local_files import LocalFiles
from penstock.server.disk.metadata_db import MetadataDb
from penstock.server.net.poller import Poller
from penstock.storage.layout.files import Directory

TRANSIENT = "transient"
"""The folder of a virtual host whose files nobody wants elsewhere."""
STALLED_MS = 1000
"""A disk that is at one job for longer is told of."""


class RecordedFiles(LocalFiles):
    """on_stop: called on the loop when the member wants a clean stop; on_nodes: when it has said
    how far the nodes of the cluster are; on_places: which broker of this node has which virtual
    host.

    Raises, everywhere: OSError."""

    def __init__(self, recorder: Recorder, on_stop: Callable[[], None]) -> None:
        self.recorder = recorder
        self._on_stop = on_stop
        self._look: Callable[[], None] | None = None
        self._disk: CommittedDisk | None = None
        self.on_nodes: Callable[[Nodes], None] | None = None
        self.on_places: Callable[[Places], None] | None = None

    def directory(self, path: Path, freeing: FileReclaimer | None = None) -> Directory:
        return RecordedDirectory(path, self.recorder, freeing)

    def make_folder(self, path: Path) -> None:
        if path.name == TRANSIENT:
            super().make_folder(path)
        else:
            make_folder(path, self.recorder)

    def write_whole(self, path: Path, data: bytes) -> None:
        put_whole(path, data, self.recorder)

    def remove(self, path: Path) -> None:
        take_away(path, self.recorder)

    def remove_folder(self, path: Path) -> None:
        self.recorder.check()
        had = path.exists()
        super().remove_folder(path)
        if had and not path.exists():
            self.recorder.add(REMOVE_FOLDER, self.recorder.path_of(path))

    def database(self, path: Path) -> MetadataDb:
        return RecordedDb(path, self.recorder)

    def disk(self, poller: Poller) -> DiskThread:
        self._disk = CommittedDisk(poller, self.recorder, self._heard)
        self._disk.on_nodes = self.on_nodes
        self._disk.on_places = self.on_places
        return self._disk

    def working(self) -> AbstractContextManager[None]:
        return self.recorder.working()

    def failure(self) -> OperatorError | None:
        pipe = self.recorder.pipe
        if pipe.ended:
            return OperatorError(
                f"the cluster's member of this broker is gone ({pipe.ended}): nothing is confirmed "
                "any more, so the broker has stopped; another node leads, or this one does again"
            )
        return None

    def when_failed(self, look: Callable[[], None]) -> None:
        self._look = look

    def tick(self) -> None:
        """Once a second: tell of a disk that does not get on."""
        stalled_ms = 0 if self._disk is None else self._disk.stalled_ms()
        if stalled_ms > STALLED_MS:
            self.recorder.pipe.tell_stalled(stalled_ms)

    def _heard(self) -> None:
        if self.recorder.pipe.ended:
            if self._look is not None:
                self._look()
        else:
            self._on_stop()
