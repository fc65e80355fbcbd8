"""Changes to the topology on their way to the disk, in order, many in one transaction.

While one job runs on the disk's thread every further change joins the next. A job fails as a whole;
on a full disk what it held is handed over again later, together with what came since, so that

    what the disk has  =  the changes up to some point, never one without those before it

and a broker whose disk is full goes on. Any other error of the disk is final: nothing is handed
over any more, because what a failed sync has left behind cannot be known (F4).

A declaration is answered before the disk has it. What makes that sound is the order: whoever waits
for a confirm has to wait for a batch of messages, and whoever submits such a batch calls
`hand_over` first, so its queues and bindings are on disk when it is (adr/0015).
"""

from collections.abc import Callable
from errno import EDQUOT, ENOSPC
from typing import Final

import msgspec

from penstock.base.config import UserConfig
from penstock.base.errors import ChannelFault
from penstock.base.limits import CATALOGUE_CHANGES
from penstock.broker.actors.disk import Disk, JobClient
from penstock.broker.actors.log import Log
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.vhost.catalogue import Catalogue, is_kept, is_kept_queue
from penstock.broker.vhost.catalogue_rows import (
    BindingRow,
    CatalogueChange,
    ExchangeRow,
    ParameterRow,
    Row,
    StoredQueue,
    UserRow,
    VhostRow,
    arguments_bytes,
    identity_bytes,
)
from penstock.routing.bindings import Binding
from penstock.routing.destination import Destination
from penstock.routing.exchange import Exchange
from penstock.storage.log.job import Job

FULL: Final = (ENOSPC, EDQUOT)


Apply = Callable[[int, tuple[CatalogueChange, ...]], None]
"""apply(first, changes): keep all of `changes` or none, on the disk's thread. first: the number of
the first of them, counted from 0 at the start; one that is not the next fails with ENOSPC, because
one before it has. Raises: OSError."""


class MetadataStore(Catalogue):
    """queue_id_max: the highest id that was ever given to a queue. written: changes that the disk
    has; waiting: those it has not, oldest first. Owner: the node."""

    __slots__ = (
        "_apply",
        "_crashed",
        "_disk",
        "_ends",
        "_handed",
        "_log",
        "_running",
        "failure",
        "is_full",
        "queue_id_max",
        "waiting",
        "written",
    )

    def __init__(self, disk: Disk, apply: Apply, log: Log, queue_id_max: int) -> None:
        self._disk = disk
        self._ends = _Ends(self)
        self._apply = apply
        self._log = log
        self._crashed: dict[tuple[str, str], int] = {}
        self._handed = 0
        self._running = 0
        self.queue_id_max = queue_id_max
        self.written = 0
        self.waiting: list[CatalogueChange] = []
        self.is_full = False
        self.failure: OSError | None = None

    # -- what changes ----------------------------------------------------------------------------

    def check_binding(
        self, source: Exchange, destination: Destination, class_id: int, method_id: int
    ) -> None:
        if source.durable and is_kept(destination):
            self._check_room(f"a binding to '{destination.name}'", class_id, method_id)

    def _check_room(self, what: str, class_id: int, method_id: int) -> None:
        if self.failure is not None:
            text = "the disk has failed"
        elif len(self.waiting) >= CATALOGUE_CHANGES.default:
            text = f"{len(self.waiting)} changes wait for the disk, and {CATALOGUE_CHANGES.default}"
            text += " may; try again later"
        else:
            return
        raise ChannelFault(406, f"cannot keep {what}: {text}", class_id, method_id)

    def queue_added(self, actor: QueueActor) -> int:
        if not is_kept_queue(actor):
            return 0
        self._check_room(f"queue '{actor.name}' in vhost '{actor.vhost}'", 50, 10)
        crashed = self._crashed.pop((actor.vhost, actor.name), 0)
        if crashed > 0:
            self._add(False, StoredQueue(crashed, actor.vhost, actor.name))
        self.queue_id_max += 1
        row = StoredQueue(
            self.queue_id_max,
            actor.vhost,
            actor.name,
            actor.auto_delete,
            arguments_bytes(actor.arguments),
        )
        self._add(True, row)
        return self.queue_id_max

    def queue_removed(self, actor: QueueActor, is_crash: bool) -> None:
        if actor.queue_id == 0:
            return
        if is_crash:
            self._crashed[(actor.vhost, actor.name)] = actor.queue_id
        else:
            self._add(False, StoredQueue(actor.queue_id, actor.vhost, actor.name))

    def exchange_added(self, vhost: str, exchange: Exchange) -> None:
        if not exchange.durable:
            return
        self._check_room(f"exchange '{exchange.name}' in vhost '{vhost}'", 40, 10)
        row = ExchangeRow(
            vhost,
            exchange.name,
            exchange.kind,
            exchange.auto_delete,
            exchange.internal,
            arguments_bytes(exchange.arguments),
        )
        self._add(True, row)

    def exchange_removed(self, vhost: str, exchange: Exchange) -> None:
        if exchange.durable:
            self._add(False, ExchangeRow(vhost, exchange.name))

    def bound(self, vhost: str, source: Exchange, binding: Binding) -> None:
        self._add_binding(True, vhost, source, binding)

    def unbound(self, vhost: str, source: Exchange, binding: Binding) -> None:
        self._add_binding(False, vhost, source, binding)

    def _add_binding(self, is_bound: bool, vhost: str, source: Exchange, one: Binding) -> None:
        destination = one.destination
        if not source.durable or not is_kept(destination):
            return
        row = BindingRow(
            vhost,
            source.name,
            isinstance(destination, Exchange),
            destination.name,
            one.routing_key,
            identity_bytes(one.arguments),
            arguments_bytes(one.arguments),
        )
        self._add(is_bound, row)

    def parameter_set(self, vhost: str, component: str, name: str, value: object) -> None:
        text = msgspec.json.encode(value).decode()
        self._add(True, ParameterRow(vhost, component, name, text))

    def parameter_cleared(self, vhost: str, component: str, name: str) -> None:
        self._add(False, ParameterRow(vhost, component, name))

    def vhost_added(self, name: str) -> None:
        self._add(True, VhostRow(name))

    def vhost_removed(self, name: str) -> None:
        for (vhost, queue), number in list(self._crashed.items()):
            if vhost == name:
                del self._crashed[(vhost, queue)]
                self._add(False, StoredQueue(number, vhost, queue))
        self._add(False, VhostRow(name))

    def user_set(self, user: UserConfig) -> None:
        self._add(True, UserRow(user.name, user.password_hash, user.hashing, ",".join(user.tags)))

    def user_removed(self, name: str) -> None:
        self._add(False, UserRow(name))

    def room(self) -> int:
        return 0 if self.failure is not None else CATALOGUE_CHANGES.default - len(self.waiting)

    # -- to the disk -----------------------------------------------------------------------------

    def _add(self, is_kept_now: bool, row: Row) -> None:
        self.waiting.append(CatalogueChange(is_kept_now, row))
        if self._running == 0 and not self.is_full:
            self.hand_over()

    def hand_over(self) -> int:
        if self._handed == len(self.waiting) or self.failure is not None:
            return self.written + len(self.waiting)
        changes = tuple(self.waiting[self._handed :])
        job = CatalogueJob(self._apply, self.written + self._handed, changes)
        self._handed = len(self.waiting)
        self._running += 1
        self._disk.submit(job, self._ends)
        return self.written + len(self.waiting)

    def has(self, mark: int) -> bool:
        return self.written >= mark

    def job_done(self, job: Job, error: OSError | None) -> None:
        """`job` has run, or failed."""
        self._running -= 1
        if self.failure is not None:
            return
        if error is None:
            assert isinstance(job, CatalogueJob), "nothing else was submitted"
            del self.waiting[: job.count]
            self._handed -= job.count
            self.written += job.count
            if self.is_full and self._running == 0:
                self._log.info("the disk takes changes to queues, exchanges and bindings again")
                self.is_full = False
        elif error.errno in FULL:
            if not self.is_full:
                self._log.warning(
                    f"the disk is full: {len(self.waiting)} changes to queues, exchanges and "
                    "bindings are not kept yet; they are tried again every second"
                )
            self.is_full = True
        else:
            self.failure = error
            self._log.error("changes to queues, exchanges and bindings cannot be kept", error)
            return
        if self._running == 0:
            # All that came after a job that failed has failed as well, and is handed over again.
            if self.is_full:
                self._handed = 0
            else:
                self.hand_over()

    def tick(self) -> None:
        if self.is_full and self._running == 0:
            self.hand_over()


class _Ends(JobClient):
    """The catalogue as the disk knows it; apart from it, which has another base."""

    __slots__ = ("catalogue",)

    def __init__(self, catalogue: MetadataStore) -> None:
        self.catalogue = catalogue

    def job_done(self, job: Job, error: OSError | None) -> None:
        self.catalogue.job_done(job, error)


class CatalogueJob(Job):
    """One transaction. count: changes in it."""

    def __init__(self, apply: Apply, first: int, changes: tuple[CatalogueChange, ...]) -> None:
        self.apply = apply
        self.first = first
        self.changes = changes
        self.count = len(changes)

    def run(self) -> None:
        self.apply(self.first, self.changes)
