"""The streams of a broker: a store for each virtual host that has some, on the disk or in memory.

Pure: on the disk, logs are recovered by whoever owns the data directory and handed in; in memory a
store begins with the first stream of its virtual host.
"""

from collections.abc import Callable, Mapping

from penstock.broker.actors.disk import Disk, JobClient
from penstock.broker.alarm.alarm_manager import DISK, AlarmManager
from penstock.broker.node.store_registry import SCARCE, StoreRegistry
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.settings.ledger import Ledger
from penstock.broker.store.group_commit import StoreOwner
from penstock.broker.stream.internal_stream import EVENT_STREAM, InternalStream
from penstock.broker.stream.stream_actor import StreamActor, stream_of
from penstock.broker.stream.stream_groups import StreamGroupRegistry
from penstock.broker.stream.stream_store import StreamStore, identity_of
from penstock.broker.vhost.context import Context
from penstock.storage.layout.files import is_scarce
from penstock.storage.log.job import Job
from penstock.streams.handles import StreamHandles
from penstock.streams.log import StreamLog
from penstock.streams.memory_files import MemoryDirectory
from penstock.telemetry.events import ACTOR_UP


class MemoryDisk(Disk):
    """Does every job at once: what is in memory is waited for by nobody."""

    __slots__ = ()

    def submit(self, job: Job, client: JobClient) -> None:
        error: OSError | None = None
        try:
            job.run()
        except OSError as found:
            error = found
        client.job_done(job, error)


class StreamRegistry(StoreOwner):
    """stores: by virtual host; groups: keeps their reader groups; opener: opens those of a new
    virtual host, None in memory; message_stores: whose bad news are shared."""

    def __init__(
        self,
        context: Context,
        alarms: AlarmManager,
        ledger: Ledger,
        message_stores: StoreRegistry,
    ) -> None:
        self.stores: dict[str, StreamStore] = {}
        self.chance = context.chance
        self.groups = StreamGroupRegistry(context)
        self.opener: Callable[[str], None] | None = None
        self._context = context
        self._alarms = alarms
        self._ledger = ledger
        self._message_stores = message_stores
        self._log = context.log
        self._last_id = 0

    def make(self, vhost: str, name: str, arguments: Mapping[str, object]) -> StreamActor:
        """A new stream, without its log."""
        kind = InternalStream if name == EVENT_STREAM else StreamActor
        actor = kind(
            vhost,
            name,
            dict(arguments),
            self._context.scheduler,
            self._context.strategy,
            self._ledger.page_of_vhost(vhost),
            self._log,
        )
        actor.group_registry = self.groups
        return actor

    # -- opening ---------------------------------------------------------------------------------

    def vhost_made(self, name: str) -> None:
        """A new virtual host gets its store before anybody can open it."""
        if self.opener is not None:
            self.opener(name)

    def open(self, vhost: str, handles: StreamHandles, disk: Disk) -> StreamStore:
        """`vhost` keeps its streams with `handles` from now on."""
        store = StreamStore(
            vhost,
            handles,
            disk,
            self._context.dues,
            self._context.strategy,
            self,
            self._context.scheduler,
        )
        store.syncing.follow(self._message_stores.sync_rule)
        self.stores[vhost] = store
        # It raises the disk alarm by itself, beside the node that measures free space.
        self._alarms.node_up(store.identity, ())
        self._context.scheduler.recorder.record(ACTOR_UP, store.identity, "", "", 0)
        return store

    def queue_made(self, actor: QueueActor) -> None:
        """A queue is declared: its way to the disk, if it is a stream or is kept."""
        stream = stream_of(actor)
        if stream is None:
            self._message_stores.queue_made(actor)
        else:
            self._stream_made(stream)

    def _stream_made(self, actor: StreamActor) -> None:
        """A stream is declared, or was found in the catalogue: those get their logs later."""
        store = self.stores.get(actor.vhost)
        is_in_memory = actor.queue_id == 0
        if store is None:
            if not is_in_memory:
                return
            store = self.open(actor.vhost, StreamHandles(MemoryDirectory()), MemoryDisk())
        queue_id = actor.queue_id
        if is_in_memory:
            self._last_id += 1
            queue_id = self._last_id
        retention = actor.retention(is_in_memory)
        log = StreamLog(queue_id, retention, self.chance)
        if is_in_memory:
            # The numbers begin anew with each process.
            log.made_as = self.chance.token(8).hex()
        actor.keep_in(store, log, is_in_memory)

    def hand_over(self) -> int:
        return self._message_stores.hand_over()

    def has(self, mark: int) -> bool:
        return self._message_stores.has(mark)

    def will_write(self, size_bytes: int) -> None:
        self._message_stores.will_write(size_bytes)

    # -- what the disk does ----------------------------------------------------------------------

    def store_failed(self, name: str, error: OSError) -> None:
        text = (
            f"the streams of vhost '{name}' cannot be written any more: {error}; nothing is "
            "confirmed from now on and the broker stops. What was confirmed is on the disk; look "
            "at the disk (dmesg) before the next start"
        )
        self._message_stores.failure = text
        self._log.error(text, error)
        self._alarms.set(DISK, text, node=identity_of(name))

    def disk_full(self, name: str, error: OSError) -> None:
        text = f"the disk of the streams of vhost '{name}' is full: {error}; a batch waits"
        if is_scarce(error):
            text = f"the streams of vhost '{name}' can open no file: {error}; {SCARCE}"
        self._log.warning(text)
        self._alarms.set(DISK, text, node=identity_of(name))

    def disk_has_room(self, name: str) -> None:
        self._log.info(f"the batch of streams of vhost '{name}' that waited is on the disk")
        self._alarms.clear(DISK, node=identity_of(name))
