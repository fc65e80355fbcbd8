"""The message stores of a broker, one a virtual host, and the queues that keep messages in them.

Pure: logs are opened and recovered by whoever owns the data directory, and handed in.
"""

from collections.abc import Callable
from typing import Final

from penstock.broker.actors.cleanup import Cleanup
from penstock.broker.actors.disk import Disk
from penstock.broker.actors.log import Log
from penstock.broker.actors.syncing import SYNC_ALWAYS
from penstock.broker.alarm.alarm_manager import DISK, AlarmManager
from penstock.broker.node.paging_manager import PagingManager
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.queue.uncommitted import Uncommitted
from penstock.broker.store.durability import StoreDurability
from penstock.broker.store.group_commit import StoreOwner
from penstock.broker.store.mirrors import MirrorListener
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.transaction.transaction_manager import TransactionManager
from penstock.broker.vhost.context import Context
from penstock.broker.vhost.queue_arguments import is_quorum
from penstock.flow.account import Account
from penstock.flow.early_look import WRITE_BYTES_MIN, WRITE_DIVISOR, EarlyLook
from penstock.protocol.content import Message
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.storage.layout.files import is_scarce
from penstock.storage.layout.index import QueueIndex
from penstock.storage.log.log import MessageLog
from penstock.telemetry.events import ACTOR_UP

MORE_HANDLES: Final = "close connections, or raise the limit of open files (ulimit -n)"
SCARCE: Final = f"a batch waits until there are handles again: {MORE_HANDLES}"


class _AllStores(MirrorListener):
    """Mirrors are those of every store; that one is left out is said."""

    __slots__ = ("alarms", "log", "stores")

    def __init__(self, stores: dict[str, StoreActor], alarms: AlarmManager, log: Log) -> None:
        self.stores = stores
        self.alarms = alarms
        self.log = log

    def mirrors_moved(self) -> None:
        for store in self.stores.values():
            store.mirrors_moved()

    def sync_changed(self, name: str, is_in_sync: bool) -> None:
        if is_in_sync:
            self.log.info(f"node '{name}' is in sync: mirrored queues wait for it")
            return
        text = (
            f"node '{name}' is in sync no more: mirrored queues go on without it, and wait for it "
            "again when it has caught up; see penstock cluster status"
        )
        self.log.warning(text)
        self.alarms.tell("mirror out of sync", text)


class StoreRegistry(StoreOwner):
    """stores: by virtual host, none for a broker in memory; opener: opens the store of a new
    virtual host, None in memory; marker: notes on the disk whether one is deleted; failure: why
    nothing is confirmed any more, "" while it is; meter: what is written between two looks at the
    disk; sync_rule, wait_ns: of every store; scratch: stores of transient logs, by virtual host,
    made by scratch_opener when a queue that is not durable pages for the first time; by_name: all
    stores; paging: who pages, None if there is none; transactions: staged messages and commits."""

    def __init__(self, context: Context, alarms: AlarmManager, cleanup: Cleanup) -> None:
        self.stores: dict[str, StoreActor] = {}
        self.scratch: dict[str, StoreActor] = {}
        self.by_name: dict[str, StoreActor] = {}
        self.paging: PagingManager | None = None
        self.scratch_opener: Callable[[str], None] | None = None
        self.failure = ""
        self.opener: Callable[[str], None] | None = None
        self.marker: Callable[[str, bool], None] | None = None
        self.sync_rule = SYNC_ALWAYS
        self.wait_ns = 0
        self._context = context
        context.mirrors.listener = _AllStores(self.stores, alarms, context.log)
        self._alarms = alarms
        self._log = context.log
        self.meter = EarlyLook(context.dues, context.clock, WRITE_DIVISOR, WRITE_BYTES_MIN)
        self.transactions = TransactionManager(
            context.scheduler, context.dues, context.log, self.stores, cleanup
        )

    def vhost_made(self, name: str) -> None:
        """A new virtual host gets its store before anybody can open it."""
        if self.opener is not None:
            self.opener(name)

    def vhost_gone(self, name: str) -> None:
        """The directory of a virtual host that was deleted goes when nobody has it open any more,
        unless there is one of that name again by then."""
        if self.marker is not None:
            self.marker(name, True)

    def vhost_is_back(self, name: str) -> None:
        """A virtual host that was deleted in this life, and goes on with what its store has."""
        if self.marker is not None:
            self.marker(name, False)

    # -- opening ---------------------------------------------------------------------------------

    def open(self, vhost: str, log: MessageLog, disk: Disk) -> StoreActor:
        """`vhost` keeps its durable queues' messages in `log` from now on."""
        store = self._made(vhost, log, disk)
        store.follow(self.sync_rule)
        store.gathering.wait_ns = self.wait_ns
        self.stores[vhost] = store
        return store

    def open_scratch(self, vhost: str, log: MessageLog, disk: Disk) -> StoreActor:
        """What `vhost` pages and does not keep goes to `log`."""
        store = self._made(f"{vhost}/transient", log, disk)
        self.scratch[vhost] = store
        return store

    def scratch_of(self, vhost: str) -> StoreActor | None:
        """The store of the transient log of `vhost`, made if there is none; None in memory."""
        if vhost not in self.scratch and vhost in self.stores and self.scratch_opener is not None:
            self.scratch_opener(vhost)
        return self.scratch.get(vhost)

    def _made(self, name: str, log: MessageLog, disk: Disk) -> StoreActor:
        context = self._context
        store = StoreActor(name, log, disk, context.dues, context.strategy, self, context.scheduler)
        self.by_name[name] = store
        # It raises the disk alarm by itself, beside the node that measures free space.
        self._alarms.node_up(store.identity, ())
        context.recorder.record(ACTOR_UP, store.identity, "", "", 0)
        return store

    def queue_made(self, actor: QueueActor) -> None:
        """A queue is declared: it keeps its messages if it is kept itself."""
        store = self.stores.get(actor.vhost)
        if store is not None and actor.queue_id > 0:
            self.keep(store, actor, store.log.open_queue(actor.queue_id))
        elif store is not None and self.paging is not None:
            self.paging.adopt(actor)

    def keep(self, store: StoreActor, actor: QueueActor, index: QueueIndex) -> None:
        """The persistent messages of `actor` go to `store`, under `index`."""
        context = self._context
        lane = store.join(actor, index)
        durability = StoreDurability(store, lane, index, context.profile.embed_below)
        if is_quorum(actor.arguments):
            lane.keeps_all = True
            durability.soft_limit = context.soft_limit
            durability.uncommitted = actor.uncommitted = Uncommitted()
        elif context.mirrors.own:
            durability.mirrors = context.mirrors
            durability.policies_changed(actor)
        actor.durability = durability
        if self.paging is not None:
            self.paging.adopt(actor)

    def hand_over(self) -> int:
        return self._context.catalogue.hand_over()

    def has(self, mark: int) -> bool:
        return self._context.catalogue.has(mark)

    def will_write(self, size_bytes: int) -> None:
        self.meter.passed(size_bytes)

    def spare_bytes(self) -> int:
        """What all stores have taken for files that are only there to be written over."""
        return sum(int(store.log.spares.kept_bytes) for store in self.stores.values())

    def keep_spares(self, is_wanted: bool) -> None:
        """Whether there is room for such files; without, they are removed."""
        for store in self.stores.values():
            store.spare_watch.allow(is_wanted)

    # -- what the disk does ----------------------------------------------------------------------

    def store_failed(self, name: str, error: OSError) -> None:
        text = (
            f"the message store of vhost '{name}' cannot write any more: {error}; nothing "
            "is confirmed from now on and the broker stops. What was confirmed is on the disk; "
            "look at the disk (dmesg) before the next start"
        )
        self.failure = text
        self._log.error(text, error)
        self._alarms.set(DISK, text, node="store:" + name)

    def disk_full(self, name: str, error: OSError) -> None:
        text = f"the disk of vhost '{name}' is full: {error}; a batch waits for room"
        if is_scarce(error):
            text = f"the store of vhost '{name}' can open no file: {error}; {SCARCE}"
        self._log.warning(text)
        self._alarms.set(DISK, text, node="store:" + name)

    def disk_has_room(self, name: str) -> None:
        self._log.info(f"the batch of vhost '{name}' that waited is on the disk")
        self._alarms.clear(DISK, node="store:" + name)

    def read_failed(self, queue: str, error: OSError, is_lost: bool) -> None:
        end = "it is tried again: look at the disk (dmesg)"
        if is_lost:
            end = "what it was for is lost"
        elif is_scarce(error):
            end = f"it is tried again: {MORE_HANDLES}"
        self._log.warning(f"{queue}: a read of what it has on the disk failed: {error}; {end}")

    def reads_again(self, queue: str) -> None:
        self._log.info(f"{queue}: what it has on the disk can be read again")


def bring_back(
    actor: QueueActor, origin: Account, message: Message, is_redelivered: bool, age_ns: int
) -> None:
    """Put a message that was found on the disk into its queue, behind those brought back before it;
    those that had been delivered come first. `origin` pays for it from now on."""
    message.origin = origin
    origin.store(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
    actor.messages.restore(message, is_redelivered, age_ns)
