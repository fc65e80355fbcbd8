"""The message stores from start to stop: logs recovered, queues filled, the last batch written.

How a store has ended is said by the files of server/disk/data_directory.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.base.errors import OperatorError
from penstock.broker.actors.actor import Owed
from penstock.broker.actors.disk import Disk
from penstock.broker.actors.syncing import ALWAYS, NONE
from penstock.broker.broker import Broker
from penstock.broker.dead_letter.clean_stop import settle_dead_letters
from penstock.broker.lease.lease_restore import restore_leases
from penstock.broker.node.failure_handler import close_damaged
from penstock.broker.node.store_registry import bring_back
from penstock.broker.paging.pager import Pager
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.store.durability import StoreDurability
from penstock.broker.store.gathering import WAIT_NS
from penstock.broker.store.store_actor import StoreActor, Unwatched
from penstock.broker.stream.stream_actor import StreamActor, streams_of
from penstock.broker.transaction.outbox_restore import restore_outbox
from penstock.queues.rules import NEVER
from penstock.server.disk.data_directory import (
    PERSISTENT,
    STREAMS,
    DataDirectory,
    MarkDeleted,
    is_unsynced,
    leave_clean,
    mark_unsynced,
    take_clean,
)
from penstock.server.disk.disk_files import DiskDirectory, FileReclaimer
from penstock.server.disk.inventory import (
    Inventory,
    VhostFiles,
    missing_segments,
    missing_streams,
    no_folder,
    store_files,
    stream_files,
)
from penstock.server.disk.recovery_words import store_words, stream_words
from penstock.server.machine.machine import machine_start
from penstock.storage.layout.format import MARKS_QUEUE_ID, OUTBOX_QUEUE_ID
from penstock.storage.layout.index import QueueIndex
from penstock.storage.log.log import MessageLog
from penstock.storage.log.roster import disown
from penstock.storage.recovery.recovery import empty, listed, recover
from penstock.streams.handles import StreamHandles
from penstock.streams.recovery import listed as listed_streams
from penstock.streams.recovery import recover_streams


class VhostBoot:
    """Opens what every virtual host has on the disk. what: for errors; folder: below its own;
    count: messages that came back; queue_id_max: the highest of all that was found; queue_id_known:
    the highest that was ever given, as far as the catalogue says; kept: what there was at the last
    clean stop, until it is compared; left: what there is at this one, of what could be closed;
    machine: of this start of it.

    Raises: OperatorError that names the directory."""

    what = ""
    folder = ""

    def __init__(
        self, broker: Broker, directory: DataDirectory, disk: Disk, freeing: FileReclaimer
    ) -> None:
        self.broker = broker
        self.directory = directory
        self.files = directory.files
        self.disk = disk
        self.freeing = freeing
        self.count = 0
        self.queue_id_max = 0
        self.queue_id_known = OUTBOX_QUEUE_ID
        self.kept: Inventory = {}
        self.left: Inventory = {}
        self.machine = machine_start()

    def open_all(self) -> None:
        for name in list(self.broker.vhosts):
            self.open_vhost(name)

    def open_vhost(self, name: str) -> None:
        """Open what one virtual host has."""
        with self.files.working():
            self._open_vhost(name)

    def _open_vhost(self, name: str) -> None:
        path = self.directory.vhost(name) / self.folder
        try:
            self._open(name, path)
            self.kept.pop(name, None)
        except OSError as error:
            raise OperatorError(
                f"cannot bring back the {self.what} in {path}: {error}; look at the disk, or start "
                "with another directory with --data"
            ) from error

    def _open(self, name: str, path: Path) -> None:
        raise NotImplementedError


class StreamBoot(VhostBoot):
    """The streams."""

    what = "streams"
    folder = STREAMS

    def open(self) -> None:
        """Open the streams of all virtual hosts."""
        self.broker.streams.opener = self.open_vhost
        self.open_all()

    def _open(self, name: str, path: Path) -> None:
        actors = {
            int(actor.queue_id): actor
            for actor in streams_of(self.broker.vhosts[name].queues.values())
            if actor.queue_id > 0
        }
        missing = missing_streams(self.kept.get(name, VhostFiles()), path)
        missing.add_listed(path, self.machine)
        if actors and not path.exists():
            self.broker.log.warning(no_folder(path, len(actors)))
        directory = self.files.directory(path, self.freeing)
        disown(directory)
        wanted = {number: one.retention(False) for number, one in actors.items()}
        logs, report = recover_streams(
            directory, self.broker.chance, wanted, self.queue_id_known, missing.offsets
        )
        for line in missing.words():
            self.broker.log.warning(f"{path}: {line}")
        self.queue_id_max = max(self.queue_id_max, report.queue_id_max)
        handles = StreamHandles(directory)
        handles.roster.begin(self.machine, listed_streams(logs.values()))
        store = self.broker.streams.open(name, handles, self.disk)
        for queue_id, actor in actors.items():
            log = logs[queue_id]
            actor.keep_in(store, log, False)
            self.count += int(log.count()) + self._restore_outbox(name, actor)
        for line in stream_words(report, actors):
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
            for actor in streams_of(self.broker.queues_in(name)):
                if actor.holder is not None:
                    # The commit it waits for is not going to be written any more.
                    actor.let_go(actor.holder)
            try:
                if store.batch is not None:
                    # It waited for room.
                    store.batch.run()
                    store.batch_done(store.batch)
                store.last_batch().run()
                actors = streams_of(self.broker.queues_in(name))
                logs = [one.counts.log for one in actors if one.counts.log and one.queue_id > 0]
                path = self.directory.vhost(name) / self.folder
                self.left[name] = stream_files(logs, path)
            except OSError as error:
                self.broker.log.error("the last batch of streams is not on the disk", error)


READ_COUNT: Final = 4096
READ_BYTES: Final = 4_194_304
TRANSIENT: Final = "transient"
NS_PER_MS: Final = 1_000_000


class StoreBoot(VhostBoot):
    """The message stores, and the queues in them. paths: of the virtual hosts."""

    what = "messages"

    def __init__(
        self, broker: Broker, directory: DataDirectory, disk: Disk, freeing: FileReclaimer
    ) -> None:
        super().__init__(broker, directory, disk, freeing)
        self.paths: dict[str, Path] = {}

    def open(self) -> None:
        """Open the stores of all virtual hosts, and fill their durable queues."""
        self.broker.stores.opener = self.open_vhost
        self.broker.stores.marker = self.mark_deleted
        self.broker.stores.scratch_opener = self.open_scratch
        rule = self.broker.stores.sync_rule
        if rule.mode == ALWAYS:
            self.broker.stores.wait_ns = WAIT_NS
        if rule.mode == NONE:
            self.broker.log.warning(f"messages are not synced (store_sync) - {rule.words()}")
        for name, vhost in self.broker.vhosts.items():
            queues = sum(1 for actor in vhost.queues.values() if actor.queue_id > 0)
            path = self.directory.vhost_path(name)
            if queues > 0 and not path.exists():
                self.broker.log.warning(no_folder(path, queues))
        self.open_all()

    def _open(self, name: str, path: Path) -> None:
        missing = missing_segments(self.kept.get(name, VhostFiles()), path / PERSISTENT)
        missing.add_listed(path / PERSISTENT, self.machine)
        is_clean = take_clean(path, self.files)
        if (path / TRANSIENT).exists():
            empty(DiskDirectory(str(path / TRANSIENT)))
        queues = {
            int(actor.queue_id): actor
            for actor in self.broker.queues_in(name)
            if actor.queue_id > 0 and not actor.has_own_log
        }
        directory = self.files.directory(path / PERSISTENT, self.freeing)
        disown(directory)
        recovered = recover(
            directory,
            self.broker.chance,
            self.broker.config.store_segment_bytes,
            {*queues, MARKS_QUEUE_ID, *self._outboxes(name)},
            trusts_footers=is_clean or not is_unsynced(path),
            spares_max=self.broker.config.store_spare_segments,
            queue_id_known=self.queue_id_known,
        )
        roster = recovered.log.handles.roster
        roster.begin(self.machine, listed(recovered.log, directory))
        mark_unsynced(path, self.broker.stores.sync_rule.mode == NONE, self.files)
        store = self.broker.stores.open(name, recovered.log, self.disk)
        self.paths[name] = path
        self.queue_id_max = max(self.queue_id_max, recovered.report.queue_id_max)
        for line in [*missing.words(), *store_words(recovered.report)]:
            self.broker.log.warning(f"{path}: {line}")
        self.broker.stores.transactions.restore(name, store)
        damaged = dict(recovered.report.lost)
        for queue_id, actor in queues.items():
            index = recovered.queues[queue_id]
            self.broker.stores.keep(store, actor, index)
            origin = self.broker.ledger.page_of_vhost(actor.vhost)
            leased = restore_leases(self.broker.leases, store, actor, index, origin)
            self.count += len(leased)
            lost = damaged.get(queue_id, 0) + missing.lost.get(queue_id, 0)
            lost += self._fill(store, actor, index, is_clean, leased)
            if lost > 0:
                close_damaged(self.broker.log, actor, lost)

    def _outboxes(self, name: str) -> set[int]:
        """Where commits to streams of a virtual host are, until those have them."""
        return {
            OUTBOX_QUEUE_ID + actor.queue_id
            for actor in self.broker.queues_in(name)
            if actor.queue_id > 0 and actor.has_own_log
        }

    def _fill(
        self,
        store: StoreActor,
        actor: QueueActor,
        index: QueueIndex,
        is_clean: bool,
        leased: list[int],
    ) -> int:
        """Everything that rests in `actor` is there again but what is `leased`; how many messages
        cannot be read, as far as they are read now. That is only done for queues whose rules look
        at single ones."""
        if index.live_count() == 0:
            return 0
        if not is_clean:
            # A clean stop knows only what came back in this life, and has to hand the mark on.
            store.log.note_delivered(index, int(index.next_position))
        pager = self._pager(actor)
        if pager is not None and actor.messages.can_restore_unread():
            origin = self.broker.ledger.page_of_vhost(actor.vhost)
            body_bytes = _body_bytes(store, index, set(leased)) if _is_bounded(actor) else 0
            self.count += int(pager.restore(origin, is_clean, body_bytes, leased))
            return 0
        now_ms = self.broker.clock.wall_ns() // NS_PER_MS
        actor.messages.restores_at(self.broker.clock.monotonic_ns())
        origin = self.broker.ledger.page_of_vhost(actor.vhost)
        held = set(leased)
        lost = 0
        position = 0
        while True:
            job = store.log.plan_reads(index, position, READ_COUNT, READ_BYTES)
            job.run()
            if job.damaged and isinstance(actor.durability, StoreDurability):
                actor.durability.cannot_read(job.damaged)
            lost += len(job.damaged)
            for found in job.found:
                if found.position in held:
                    continue
                age_ns = max(0, now_ms - int(found.stored_ms)) * NS_PER_MS
                is_redelivered = bool(found.is_redelivered) or not is_clean
                bring_back(actor, origin, found.message, is_redelivered, age_ns)
                self.count += 1
            if pager is not None:
                pager.page_restored()
            if not job.found and not job.damaged:
                return lost
            position = int(job.next_position)

    def _pager(self, actor: QueueActor) -> Pager | None:
        paging = self.broker.stores.paging
        if paging is None or actor.paging is None:
            return None
        return paging.pager_of(actor)

    def open_scratch(self, name: str) -> None:
        """Open the transient log of a virtual host, which was emptied at the start. It is tried
        again when this fails: until then nothing is paged that is not kept."""
        path = self.paths[name] / TRANSIENT
        try:
            path.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            self.broker.log.error(f"cannot make {path}", error)
            return
        log = MessageLog(
            DiskDirectory(str(path), self.freeing),
            self.broker.chance,
            self.broker.config.store_segment_bytes,
            is_scratch=True,
        )
        self.broker.stores.open_scratch(name, log, self.disk)

    def mark_deleted(self, name: str, is_deleted: bool) -> None:
        """Behind everything that the disk has been given for the virtual host `name`."""
        self.disk.submit(MarkDeleted(self.paths[name], is_deleted, self.files), Unwatched())

    def failure(self) -> str:
        """Why nothing is confirmed any more, "" while it is."""
        return self.broker.stores.failure

    def close(self) -> None:
        """Write what is left, after the disk has done everything; what cannot be written was not
        confirmed, and comes back as far as it did. No store keeps another from its last batch."""
        for errand in self.broker.cleanup.errands:
            if isinstance(errand, Owed):
                # Or what was purged or acknowledged comes back.
                while errand.step():
                    pass
        for name, store in self.broker.stores.stores.items():
            if store.is_failed:
                continue
            try:
                self._close(name, store)
            except OSError as error:
                self.broker.log.error("the last batch of messages is not on the disk", error)
        for scratch in self.broker.stores.scratch.values():
            with suppress(OSError):
                # Nothing in it is of use to the next start.
                scratch.log.handles.close()

    def _close(self, name: str, store: StoreActor) -> None:
        while store.batch is not None:
            # It was made when the disk's thread had ended already, or waited for room.
            batch = store.batch
            batch.run()
            store.batch_done(batch)
        for actor in self.broker.queues_in(name):
            durability = actor.durability
            if isinstance(durability, StoreDurability) and durability.is_lasting:
                durability.note_delivered(actor.messages.returned_messages())
        settle_dead_letters(store, self.broker.queues_in(name))
        store.last_batch().run()
        self.left[name] = store_files(store.log, self.paths[name] / PERSISTENT)
        leave_clean(self.paths[name], self.files)


def _is_bounded(actor: QueueActor) -> bool:
    """Whether the bytes of its messages decide what `actor` may take."""
    return actor.queue_limits is not None and actor.queue_limits.rules.max_bytes != NEVER


def _body_bytes(store: StoreActor, index: QueueIndex, leased: set[int]) -> int:
    """Bytes of all bodies a queue has in the log, which only the messages tell, without those that
    are leased. What cannot be read is found again when it is wanted."""
    total = 0
    position = 0
    while True:
        job = store.log.plan_reads(index, position, READ_COUNT, READ_BYTES)
        job.run()
        ready = [found for found in job.found if found.position not in leased]
        total += sum(int(found.message.body_bytes) for found in ready)
        if not job.found and not job.damaged:
            return total
        position = int(job.next_position)
