"""Streams from start to stop: their logs recovered, the last batch written."""

from pathlib import Path

from penstock.base.errors import OperatorError
from penstock.broker.actors.disk import Disk
from penstock.broker.broker import Broker
from penstock.broker.stream.stream_actor import StreamActor
from penstock.broker.transaction.outbox_restore import restore_outbox
from penstock.server.disk.data_directory import DataDirectory
from penstock.server.disk.disk_files import DiskDirectory
from penstock.server.disk.freeing import Freeing
from penstock.server.disk.store_boot import orphan_words
from penstock.server.disk.store_marks import STREAMS
from penstock.storage.layout.format import OUTBOX_QUEUE_ID
from penstock.streams.handles import StreamHandles
from penstock.streams.recovery import StreamReport, recover_streams


class StreamBoot:
    """count: messages that were found; queue_id_known, queue_id_max: see StoreBoot. Raises:
    OperatorError that names the directory."""

    def __init__(
        self, broker: Broker, directory: DataDirectory, disk: Disk, freeing: Freeing
    ) -> None:
        self.broker = broker
        self.directory = directory
        self.disk = disk
        self.freeing = freeing
        self.count = 0
        self.queue_id_known = OUTBOX_QUEUE_ID
        self.queue_id_max = 0

    def open(self) -> None:
        """Open the streams of all virtual hosts."""
        self.broker.streams.opener = self.open_vhost
        for name in list(self.broker.vhosts):
            self.open_vhost(name)

    def open_vhost(self, name: str) -> None:
        """Open the streams of one virtual host."""
        path = self.directory.vhost(name) / STREAMS
        try:
            self._open(name, path)
        except OSError as error:
            raise OperatorError(
                f"cannot bring back the streams in {path}: {error}; look at the disk, or start "
                "with another directory with --data"
            ) from error

    def _open(self, name: str, path: Path) -> None:
        actors = {
            int(actor.queue_id): actor
            for actor in self.broker.vhosts[name].queues.values()
            if isinstance(actor, StreamActor) and actor.queue_id > 0
        }
        directory = DiskDirectory(str(path), self.freeing)
        wanted = {number: one.retention(False) for number, one in actors.items()}
        logs, report = recover_streams(directory, self.broker.chance, wanted, self.queue_id_known)
        self.queue_id_max = max(self.queue_id_max, report.queue_id_max)
        store = self.broker.streams.open(name, StreamHandles(directory), self.disk)
        for queue_id, actor in actors.items():
            log = logs[queue_id]
            actor.keep_in(store, log, False)
            self.count += int(log.count()) + self._restore_outbox(name, actor)
        for line in _words(report, actors):
            self.broker.log.warning(f"{path}: {line}")

    def _restore_outbox(self, name: str, actor: StreamActor) -> int:
        """What was committed to `actor` and is not in it; message stores are open by now."""
        store = self.broker.stores.stores[name]
        payer = self.broker.ledger.page_of_vhost(name)
        return restore_outbox(actor, store, payer, self.broker.log)

    def close(self) -> None:
        """Write what is left, after the disk has done everything; what cannot be written was not
        confirmed."""
        for name, store in self.broker.streams.stores.items():
            if store.is_failed or store.disk is not self.disk:
                continue
            for actor in self.broker.vhosts[name].queues.values():
                if isinstance(actor, StreamActor) and actor.holder is not None:
                    # The commit it waits for is not going to be written any more.
                    actor.let_go(actor.holder)
            try:
                if store.batch is not None:
                    # It waited for room.
                    store.batch.run()
                    store.batch_done(store.batch)
                store.last_batch().run()
            except OSError as error:
                self.broker.log.error("the last batch of streams is not on the disk", error)


def _words(report: StreamReport, actors: dict[int, StreamActor]) -> list[str]:
    """What people should know of a recovery, a line each."""
    lines = list(report.lines)
    if report.orphan_count > 0:
        lines.append(orphan_words(report.orphan_count))
    if report.cut_bytes > 0:
        lines.append(f"{report.cut_bytes} bytes behind the last whole chunks were cut off")
    for queue_id, count in report.lost.items():
        lines.append(
            f"{actors[queue_id].identity}: damaged, {count} of its messages cannot be read"
        )
    return lines
