"""What outlives the broker, opened at the start, closed at the end: directory, database, disk.

Files that stores need not have open are closed while a store waits because it can open none. Each
store gives up its own before it waits (storage/log/handles, streams/handles); but a process has one
limit for all of them, and those that rest are closed here.
"""

from contextlib import suppress
from pathlib import Path

from penstock.base.errors import OperatorError
from penstock.broker.actors.disk import Disk, JobClient
from penstock.broker.admin.restore import Restored, restore
from penstock.broker.broker import Broker
from penstock.broker.vhost.catalogue_rows import StoredCatalogue
from penstock.broker.vhost.metadata_store import MetadataStore
from penstock.server.disk.data_directory import DataDirectory
from penstock.server.disk.disk_files import DiskDirectory, FileReclaimer
from penstock.server.disk.disk_thread import DiskThread
from penstock.server.disk.inventory import (
    Inventory,
    VhostFiles,
    take_inventory,
    write_inventory,
)
from penstock.server.disk.local_files import LOCAL, LocalFiles
from penstock.server.disk.store_boot import StoreBoot, StreamBoot
from penstock.server.net.poller import Poller
from penstock.storage.log.handles import Handles
from penstock.storage.log.job import Job
from penstock.storage.log.parked import forget_all
from penstock.streams.handles import StreamHandles


class GiveUpFiles(Job):
    """Closes whatever in `logs` and `streams` nobody is using and nobody waits for."""

    def __init__(self, logs: list[Handles], streams: list[StreamHandles]) -> None:
        self.logs = logs
        self.streams = streams

    def run(self) -> None:
        for log in self.logs:
            log.give_up_idle()
        for one in self.streams:
            one.give_up_idle()


class ScarceFiles(JobClient):
    """is_under_way: they are being closed. Owner: the node's tick."""

    def __init__(self, broker: Broker, disk: Disk) -> None:
        self.broker = broker
        self.disk = disk
        self.is_under_way = False

    def tick(self) -> None:
        """Once a second. A disk without room is none the worse for it: it opens them again."""
        broker = self.broker
        stores = [*broker.stores.stores.values(), *broker.stores.scratch.values()]
        streams = [one for one in broker.streams.stores.values() if one.disk is self.disk]
        is_waiting = any(one.is_full for one in stores) or any(one.is_full for one in streams)
        if is_waiting and not self.is_under_way:
            self.is_under_way = True
            job = GiveUpFiles([one.log.handles for one in stores], [one.handles for one in streams])
            self.disk.submit(job, self)

    def job_done(self, job: Job, error: OSError | None) -> None:
        self.is_under_way = False


class ParkedState:
    """Where parking lots go that are large: nothing in it outlives the broker. A broker that cannot
    have it keeps its lots in memory."""

    def __init__(
        self, broker: Broker, directory: DataDirectory, freeing: FileReclaimer, poller: Poller
    ) -> None:
        self.broker = broker
        self.disk = DiskThread(poller, "penstock-parked")
        try:
            broker.park_on(DiskDirectory(str(directory.parked), freeing), self.disk)
        except OSError as error:
            broker.log.warning(f"parked publishes stay in memory: {directory.parked}: {error}")

    def close(self) -> None:
        """No client is connected any more: what has not reached its queue is dropped."""
        self.disk.close()
        broker = self.broker
        count = sum(int(one.parked_messages) for one in broker.parking_accounts())
        if count > 0:
            broker.log.warning(
                f"{count} publishes that were parked on the disk have not reached their queues and "
                "are dropped; none of them was confirmed"
            )
        parking = broker.parking.disk
        if parking is not None:
            with suppress(OSError):
                # The next start removes them.
                forget_all(parking.directory)


class DurableState:
    """Opens `path`, brings back what is kept there, and tells its catalogue of every change. files:
    who changes what is in it.

    Raises: OperatorError, and then nothing is left open."""

    def __init__(
        self,
        path: str,
        boot_id: str,
        broker: Broker,
        poller: Poller,
        files: LocalFiles = LOCAL,
    ) -> None:
        self.files = files
        with files.working():
            self._open(path, boot_id, broker, poller)

    def _open(self, path: str, boot_id: str, broker: Broker, poller: Poller) -> None:
        files = self.files
        self.directory = DataDirectory(Path(path), boot_id, files)
        try:
            refuse_orphans(self.directory)
            self.database = files.database(self.directory.metadata)
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
        self.disk = files.disk(poller)
        self.scarce = ScarceFiles(broker, self.disk)
        self.catalogue = MetadataStore(
            self.disk, self.database.apply, broker.log, kept.queue_id_max
        )
        broker.keep(self.catalogue)
        broker.delays.keep_all()
        self.freeing = FileReclaimer()
        self.parking = ParkedState(broker, self.directory, self.freeing, poller)
        self.stores = StoreBoot(broker, self.directory, self.disk, self.freeing)
        self.streams = StreamBoot(broker, self.directory, self.disk, self.freeing)
        self.stores.queue_id_known = self.streams.queue_id_known = kept.queue_id_max
        kept_files = self._take_inventory(broker)
        # Each takes from its own what it has compared.
        self.stores.kept, self.streams.kept = dict(kept_files), dict(kept_files)
        self.ends = {name: one.ends for name, one in kept_files.items()}
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

    def _bring_back(self, broker: Broker, kept: StoredCatalogue) -> Restored:
        try:
            restored = restore(broker, kept)
        except OperatorError as error:
            raise OperatorError(f"{self.directory.metadata}: {error}") from error
        for note in restored.notes:
            broker.log.warning(note)
        return restored

    def _take_inventory(self, broker: Broker) -> Inventory:
        try:
            return take_inventory(self.directory.path, self.files)
        except OperatorError as error:
            broker.log.warning(str(error))
        except OSError as error:
            broker.log.error(f"cannot read what {self.directory.path} had", error)
        return {}

    def _leave_inventory(self) -> None:
        """What there is now. What could not be closed has the ends of its streams alone; what was
        not opened, all it had."""
        stores, streams = self.stores, self.streams
        inventory: Inventory = {}
        for name in stores.broker.vhosts:
            of_stores = stores.left.get(name) or stores.kept.get(name) or VhostFiles()
            known = VhostFiles(ends=self.ends.get(name, {}))
            of_streams = streams.left.get(name) or streams.kept.get(name) or known
            inventory[name] = VhostFiles(
                of_stores.segments, of_stores.acks, of_streams.streams, of_streams.ends
            )
        try:
            write_inventory(self.directory.path, inventory, self.files)
        except OSError as error:
            stores.broker.log.error("which files there are cannot be written", error)

    def tick(self) -> OperatorError | None:
        """Once a second: the fault for which the broker has to stop, if there is one (F4)."""
        self.catalogue.tick()
        self.scarce.tick()
        lost = self.files.failure()
        if lost is not None:
            return lost
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
        self.parking.close()
        self.catalogue.hand_over()
        self.disk.close()
        if self.files.failure() is None:
            with self.files.working():
                self.stores.close()
                self.streams.close()
                self._leave_inventory()
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
