"""The message stores from start to stop: logs recovered, queues filled, the last batch written.

A stop that was clean leaves a file CLEAN, which is gone before anything else is done at the next
start: without it every message that comes back may have been delivered before, and says so.
"""

from pathlib import Path
from typing import Final

from penstock.base.errors import OperatorError
from penstock.broker.broker import Broker
from penstock.broker.disk import Disk
from penstock.broker.keeper import Keeper
from penstock.broker.queue_actor import QueueActor
from penstock.broker.store_actor import StoreActor
from penstock.broker.store_desk import bring_back
from penstock.server.data_directory import DataDirectory
from penstock.server.disk_files import DiskDirectory
from penstock.server.whole_file import sync_directory, write_whole
from penstock.storage.index import QueueIndex
from penstock.storage.recovery import Report, recover

READ_COUNT: Final = 4096
READ_BYTES: Final = 4_194_304
PERSISTENT: Final = "persistent"
CLEAN: Final = "CLEAN"
NS_PER_MS: Final = 1_000_000


class StoreBoot:
    """count: messages that came back. Raises: OperatorError that names the directory."""

    def __init__(self, broker: Broker, directory: DataDirectory, disk: Disk) -> None:
        self.broker = broker
        self.directory = directory
        self.disk = disk
        self.count = 0
        self.paths: dict[str, Path] = {}

    def open(self) -> None:
        """Open the stores of all virtual hosts, and fill their durable queues."""
        self.broker.stores.opener = self.open_vhost
        for name in list(self.broker.vhosts):
            self.open_vhost(name)

    def open_vhost(self, name: str) -> None:
        """Open the store of one virtual host."""
        path = self.directory.vhost(name)
        try:
            self._open(name, path)
        except OSError as error:
            raise OperatorError(
                f"cannot bring back the messages in {path}: {error}; look at the disk, or start "
                "with another directory with --data"
            ) from error

    def _open(self, name: str, path: Path) -> None:
        is_clean = _take_mark(path)
        queues = {
            int(actor.queue_id): actor
            for actor in self.broker.vhosts[name].queues.values()
            if actor.queue_id > 0
        }
        recovered = recover(
            DiskDirectory(str(path / PERSISTENT)),
            self.broker.chance,
            self.broker.config.store_segment_bytes,
            set(queues),
        )
        store = self.broker.stores.open(name, recovered.log, self.disk)
        self.paths[name] = path
        for line in _words(recovered.report):
            self.broker.log.warning(f"{path}: {line}")
        damaged = dict(recovered.report.lost)
        for queue_id, actor in queues.items():
            index = recovered.queues[queue_id]
            self.broker.stores.keep(store, actor, index)
            lost = damaged.get(queue_id, 0) + self._fill(store, actor, index, is_clean)
            if lost > 0:
                self._close_damaged(actor, lost)

    def _fill(self, store: StoreActor, actor: QueueActor, index: QueueIndex, is_clean: bool) -> int:
        """Read everything that rests in `actor`; how many messages cannot be read."""
        now_ms = self.broker.clock.wall_ns() // NS_PER_MS
        origin = self.broker.ledger.page_of_vhost(actor.vhost)
        lost = 0
        position = 0
        while True:
            job = store.log.plan_reads(index, position, READ_COUNT, READ_BYTES)
            job.run()
            lost += len(job.damaged)
            for found in job.found:
                age_ns = max(0, now_ms - int(found.stored_ms)) * NS_PER_MS
                is_redelivered = bool(found.is_redelivered) or not is_clean
                bring_back(actor, origin, found.message, is_redelivered, age_ns)
            self.count += len(job.found)
            if not job.found and not job.damaged:
                return lost
            position = int(job.next_position)

    def _close_damaged(self, actor: QueueActor, lost: int) -> None:
        self.broker.rulebook.pause(actor, True)
        self.broker.log.warning(
            f"{actor.identity}: damaged, {lost} of its messages cannot be read; the queue is "
            f"paused: `penstock queues resume {actor.name}` lets consumers have the others"
        )

    def failure(self) -> str:
        """Why nothing is confirmed any more, "" while it is."""
        return self.broker.stores.failure

    def close(self) -> None:
        """Write what is left, after the disk has done everything; what cannot be written was not
        confirmed, and comes back as far as it did."""
        try:
            self._close()
        except OSError as error:
            self.broker.log.error("the last batch of messages is not on the disk", error)

    def _close(self) -> None:
        for name, store in self.broker.stores.stores.items():
            if store.is_failed or store.batch is not None:
                continue
            for actor in self.broker.vhosts[name].queues.values():
                keeper = actor.keeper
                if isinstance(keeper, Keeper):
                    keeper.note_delivered(actor.messages.returned_messages())
            store.last_batch().run()
            write_whole(self.paths[name] / CLEAN, b"")


def _take_mark(path: Path) -> bool:
    """Whether the last stop was clean; asked once. Raises: OSError."""
    try:
        (path / CLEAN).unlink()
    except FileNotFoundError:
        return not any((path / PERSISTENT).iterdir())
    sync_directory(path)
    return True


def _words(report: Report) -> list[str]:
    """What people should know of a recovery, a line each."""
    lines: list[str] = []
    if report.cut_bytes > 0:
        lines.append(f"{report.cut_bytes} bytes behind the last whole record were cut off")
    if report.ignored_acks > 0:
        lines.append(f"{report.ignored_acks} acknowledgements of unknown messages were ignored")
    for text in report.unreadable:
        lines.append(text)
    if 0 in report.lost:
        lines.append(f"{report.lost[0]} damaged records, of no queue that can be told")
    return lines
