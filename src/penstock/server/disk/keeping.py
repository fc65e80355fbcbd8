"""What outlives the broker, opened at the start, closed at the end: directory, database, disk."""

from pathlib import Path

from penstock.base.errors import OperatorError
from penstock.broker.admin.restore import Restored, restore
from penstock.broker.broker import Broker
from penstock.broker.vhost.catalogue_rows import Kept
from penstock.broker.vhost.kept_catalogue import KeptCatalogue
from penstock.server.disk.catalogue_db import CatalogueDb
from penstock.server.disk.data_directory import DataDirectory
from penstock.server.disk.disk_thread import DiskThread
from penstock.server.disk.freeing import Freeing
from penstock.server.disk.scarce_files import ScarceFiles
from penstock.server.disk.store_boot import StoreBoot
from penstock.server.disk.stream_boot import StreamBoot
from penstock.server.net.poller import Poller


class Keeping:
    """Opens `path`, brings back what is kept there, and tells its catalogue of every change.

    Raises: OperatorError, and then nothing is left open."""

    def __init__(
        self,
        path: str,
        boot_id: str,
        broker: Broker,
        poller: Poller,
    ) -> None:
        self.directory = DataDirectory(Path(path), boot_id)
        try:
            refuse_orphans(self.directory)
            self.database = CatalogueDb(self.directory.metadata)
        except OperatorError:
            self.directory.close()
            raise
        try:
            kept = self.database.read()
            self.restored = self._bring_back(broker, kept)
        except OperatorError:
            self.database.close()
            self.directory.close()
            raise
        self.disk = DiskThread(poller)
        self.scarce = ScarceFiles(broker, self.disk)
        self.catalogue = KeptCatalogue(self.disk, self.database, broker.log, kept.queue_id_max)
        broker.keep(self.catalogue)
        broker.delays.keep_all()
        self.freeing = Freeing()
        self.stores = StoreBoot(broker, self.directory, self.disk, self.freeing)
        self.streams = StreamBoot(broker, self.directory, self.disk, self.freeing)
        self.stores.queue_id_known = self.streams.queue_id_known = kept.queue_id_max
        try:
            self.stores.open()
            # A full disk may have kept messages of a queue that the catalogue never got.
            ids = self.catalogue.queue_id_max, self.stores.queue_id_max
            self.catalogue.queue_id_max = max(ids)
            self.streams.open()
            # Readers know a stream by its number, so one that was set aside keeps it.
            ids = self.catalogue.queue_id_max, self.streams.queue_id_max
            self.catalogue.queue_id_max = max(ids)
        except OperatorError:
            self.close()
            raise

    def _bring_back(self, broker: Broker, kept: Kept) -> Restored:
        try:
            restored = restore(broker, kept)
        except OperatorError as error:
            raise OperatorError(f"{self.directory.metadata}: {error}") from error
        for note in restored.notes:
            broker.log.warning(note)
        return restored

    def tick(self) -> OperatorError | None:
        """Once a second: the fault for which the broker has to stop, if there is one (F4)."""
        self.catalogue.tick()
        self.scarce.tick()
        if self.stores.failure() != "":
            return OperatorError(self.stores.failure())
        failure = self.catalogue.failure
        if failure is None:
            return None
        return OperatorError(
            f"the disk of {self.directory.path} failed: {failure.strerror or failure}; changes to "
            "queues, exchanges and bindings since then are not kept, so the broker has stopped; "
            "look at the disk before the next start"
        )

    def close(self) -> int:
        """Write what waits, let go of everything: how many changes could not be kept."""
        self.streams.broker.streams.groups.save_moved()
        self.catalogue.hand_over()
        self.disk.close()
        self.stores.close()
        self.streams.close()
        self.freeing.close()
        self.database.close()
        self.directory.close()
        return len(self.catalogue.waiting)


def refuse_orphans(directory: DataDirectory) -> None:
    """A catalogue that is not there is a new one only where no messages are: a start with an empty
    one would take all of them for those of deleted queues, and remove them.

    Raises: OperatorError."""
    if directory.metadata.exists():
        return
    vhosts = directory.path / "vhosts"
    count = sum(1 for kind in ("log", "stream") for _ in vhosts.glob(f"*/*/*.{kind}"))
    if count > 0:
        raise OperatorError(
            f"{directory.metadata} is not there, but {count} files with messages are, and nothing "
            "else says whose they are: restore the whole data directory from a copy; or, to go on "
            "without those messages, move the directory `vhosts` away"
        )
