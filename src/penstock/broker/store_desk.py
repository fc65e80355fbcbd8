"""The message stores of a broker, one a virtual host, and the queues that keep messages in them.

Pure: logs are opened and recovered by whoever owns the data directory, and handed in.
"""

from collections.abc import Callable

from penstock.broker.alarm_desk import DISK, AlarmDesk
from penstock.broker.catalogue import NOTHING_KEPT, Catalogue
from penstock.broker.disk import Disk
from penstock.broker.keeper import Keeper
from penstock.broker.log import Log
from penstock.broker.queue_actor import QueueActor
from penstock.broker.scheduler import Scheduler
from penstock.broker.store_actor import StoreActor, StoreOwner
from penstock.broker.vhost import QueueKeepers
from penstock.flow.account import Account
from penstock.flow.due import DueLine
from penstock.flow.strategy import Strategy
from penstock.protocol.content import Message
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.storage.index import QueueIndex
from penstock.storage.log import MessageLog
from penstock.telemetry.events import ACTOR_UP


class Keepers(QueueKeepers):
    """The desk as virtual hosts know it; apart from it, because it has another base."""

    __slots__ = ("desk",)

    def __init__(self, desk: "StoreDesk") -> None:
        self.desk = desk

    def queue_made(self, actor: QueueActor) -> None:
        self.desk.queue_made(actor)


class StoreDesk(StoreOwner):
    """stores: by virtual host, none for a broker in memory; catalogue: what queues need beside
    their messages; opener: opens the store of a new virtual host, None in memory; failure: why
    nothing is confirmed any more, "" while it is."""

    def __init__(
        self,
        scheduler: Scheduler,
        strategy: Callable[[], Strategy],
        dues: DueLine,
        alarms: AlarmDesk,
        log: Log,
        embed_below: Callable[[], int],
    ) -> None:
        self.stores: dict[str, StoreActor] = {}
        self.keepers = Keepers(self)
        self.failure = ""
        self.catalogue: Catalogue = NOTHING_KEPT
        self.opener: Callable[[str], None] | None = None
        self._scheduler = scheduler
        self._strategy = strategy
        self._dues = dues
        self._alarms = alarms
        self._log = log
        self._embed_below = embed_below

    def vhost_made(self, name: str) -> None:
        """A new virtual host gets its store before anybody can open it."""
        if self.opener is not None:
            self.opener(name)

    # -- opening ---------------------------------------------------------------------------------

    def open(self, vhost: str, log: MessageLog, disk: Disk) -> StoreActor:
        """`vhost` keeps its durable queues' messages in `log` from now on."""
        store = StoreActor(vhost, log, disk, self._dues, self._strategy(), self, self._scheduler)
        self.stores[vhost] = store
        # It raises the disk alarm by itself, beside the node that measures free space.
        self._alarms.node_up(store.identity, ())
        self._scheduler.recorder.record(ACTOR_UP, store.identity, "", "", 0)
        return store

    def queue_made(self, actor: QueueActor) -> None:
        """A queue is declared: it keeps its messages if it is kept itself."""
        store = self.stores.get(actor.vhost)
        if store is not None and actor.queue_id > 0:
            self.keep(store, actor, store.log.open_queue(actor.queue_id))

    def keep(self, store: StoreActor, actor: QueueActor, index: QueueIndex) -> None:
        """The persistent messages of `actor` go to `store`, under `index`."""
        lane = store.join(actor, index)
        actor.keeper = Keeper(store, lane, index, self._embed_below())

    def hand_over(self) -> int:
        return self.catalogue.hand_over()

    def has(self, mark: int) -> bool:
        return self.catalogue.has(mark)

    # -- what the disk does ----------------------------------------------------------------------

    def store_failed(self, store: StoreActor, error: OSError) -> None:
        text = (
            f"the message store of vhost '{store.name}' cannot write any more: {error}; nothing "
            "is confirmed from now on and the broker stops. What was confirmed is on the disk; "
            "look at the disk (dmesg) before the next start"
        )
        self.failure = text
        self._log.error(text, error)
        self._alarms.set(DISK, text, node=store.identity)

    def disk_full(self, store: StoreActor, error: OSError) -> None:
        text = f"the disk of vhost '{store.name}' is full: {error}; a batch waits for room"
        self._log.warning(text)
        self._alarms.set(DISK, text, node=store.identity)

    def disk_has_room(self, store: StoreActor) -> None:
        self._log.info(f"the disk of vhost '{store.name}' has room again")
        self._alarms.clear(DISK, node=store.identity)


def bring_back(
    actor: QueueActor, origin: Account, message: Message, is_redelivered: bool, age_ns: int
) -> None:
    """Put a message that was found on the disk into its queue, behind those brought back before it;
    those that had been delivered come first. `origin` pays for it from now on."""
    message.origin = origin
    origin.store(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
    actor.messages.restore(message, is_redelivered, age_ns)
