"""Leases of a broker: who holds what of which queue, kept on the disk before anybody is told of it.

    acquire   done with all below `start`; hold more; on the disk; answered
    timer     no sign of life for too long: everything goes back to the queue, in its old order
Requests of one group are done one after the other. Before one is answered, the group's row of the
catalogue, the messages it names and what it is done with are as safe as a confirm says: the row is
handed over first, and an empty request on the queue's way to the store comes back when everything
before it is there (adr/0019). Source: design/spark.md 5.3.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from msgspec import ValidationError

from penstock.base.errors import ChannelFault
from penstock.base.limits import LEASE_GROUPS, LEASE_WAITING
from penstock.broker.actors.lane import Answerable
from penstock.broker.lease.lease_actor import LeaseActor, Taking
from penstock.broker.lease.lease_places import note_settled, waits_for_place
from penstock.broker.lease.lease_rows import (
    COMPONENT,
    row_name,
    row_of,
)
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.store.durability import StoreDurability
from penstock.broker.store.write_request import StoreRequest
from penstock.broker.vhost.context import Context
from penstock.flow.account import Account
from penstock.flow.due import Timer
from penstock.protocol.content import Message
from penstock.protocol.methods import RequestAsk
from penstock.protocol.values import Table
from penstock.queues.consumers import Consumer, Delivery, Unsent
from penstock.queues.leases import LeaseGroup

KEPT_LOOK_NS: Final = 5_000_000
"""How soon the catalogue is asked again whether it has a row; mostly it has it by then."""
NS_PER_MS: Final = 1_000_000
GROUP_ARGUMENT: Final = "x-lease-group"


class Order:
    """One lease.acquire. settle, refuse: take the answer, one of them once; count, bytes: what the
    group is to hold afterwards; lost: how many messages the answer has to own up to; mark: what
    the catalogue has to have before it; is_forgettable: of its group, see `may_go`."""

    __slots__ = (
        "accepts_loss",
        "bytes",
        "count",
        "group",
        "holder",
        "is_forgettable",
        "lost",
        "mark",
        "query",
        "refuse",
        "settle",
        "start",
        "timeout_ms",
    )

    def __init__(
        self,
        settle: Callable[[Table], None],
        refuse: Callable[[str, int], None],
        group: str,
        start: int,
        count: int,
        bytes_: int,
    ) -> None:
        self.settle = settle
        self.refuse = refuse
        self.group = group
        self.start = start
        self.count = count
        self.bytes = bytes_
        self.timeout_ms = 0
        self.query = ""
        self.holder = ""
        self.accepts_loss = False
        self.is_forgettable = False
        self.lost = 0
        self.mark = 0


class LeaseBook:
    """The leases of one queue. under_way, waiting: requests, by group."""

    __slots__ = ("actor", "groups", "timers", "under_way", "waiting")

    def __init__(self, actor: LeaseActor) -> None:
        self.actor = actor
        self.groups: dict[str, LeaseGroup] = {}
        self.timers: dict[str, Timer] = {}
        self.under_way: dict[str, Order] = {}
        self.waiting: dict[str, list[Order]] = {}

    def may_go(self, now_ns: int) -> str:
        """The group that makes room for another one, "" when all have to stay. now_ns: monotonic.

        Only a group that its client lets go for this, as one does whose name was made up for a
        single checkpoint: nobody would ever release it. It has to hold nothing, and to have been
        silent for its time; of several the one that has been for longest. If it asks again after
        all, it is told LEASE_LOST, and nothing is lost without a word.
        """
        found = ""
        since_ns = now_ns
        for name, group in self.groups.items():
            renewed_ns = int(group.renewed_ns)
            if (
                group.is_forgettable
                and group.held_count == 0
                and name not in self.under_way
                and now_ns - renewed_ns >= int(group.timeout_ns)
                and renewed_ns < since_ns
            ):
                found, since_ns = name, renewed_ns
        return found


class _Kept(Answerable):
    """An empty request's answer: everything before it on its way is on the disk."""

    __slots__ = ("book", "leases", "order")

    def __init__(self, leases: "LeaseManager", book: LeaseBook, order: Order) -> None:
        self.leases = leases
        self.book = book
        self.order = order

    def accepted(self, messages: list[Message], count: int) -> None:
        self.leases.is_on_disk(self.book, self.order)


class LeaseManager:
    """books: by queue identity; found: rows of the catalogue that no queue has claimed yet, by
    their names; payer: of what costs nothing."""

    def __init__(self, context: Context, payer: Account) -> None:
        self.books: dict[str, LeaseBook] = {}
        self.found: dict[str, dict[str, object]] = {}
        self.line = context.scheduler
        self.dues = context.dues
        self._context = context
        self._payer = payer
        self._log = context.log

    # -- books -----------------------------------------------------------------------------------

    def claim(self, queue_id: int) -> dict[str, dict[str, object]]:
        """Rows that were kept for that queue, by group; they are not found again."""
        prefix = row_name(queue_id, "")
        names = [name for name in self.found if name.startswith(prefix)]
        return {name[len(prefix) :]: self.found.pop(name) for name in names}

    def unreadable(self, queue: QueueActor, group: str, error: ValidationError) -> None:
        """The row of a group of `queue` is not one: what it held is in the queue again."""
        self._context.log.warning(
            f"{queue.identity}: the leases of '{group}' cannot be restored, their row in the "
            f"catalogue is damaged ({error}); its messages are in the queue again, and its reader "
            f"is told that the lease is lost"
        )

    def book_of(self, queue: QueueActor) -> LeaseBook | None:
        """The leases of `queue`, None if it never had any."""
        book = self.books.get(queue.identity)
        return book if book is not None and book.actor.queue is queue else None

    def open_book(self, queue: QueueActor) -> LeaseBook:
        """The leases of `queue`, in place of those of an earlier one of its name."""
        book = self.book_of(queue)
        if book is None:
            earlier = self.books.get(queue.identity)
            if earlier is not None:
                earlier.actor.end()
            book = LeaseBook(LeaseActor(queue, self.line, self.taken, self.queue_gone))
            self.books[queue.identity] = book
        return book

    def held(self) -> Iterator[tuple[QueueActor, list[Delivery]]]:
        """Everything that is leased, by queue and group."""
        for book in self.books.values():
            for group in book.groups.values():
                yield book.actor.queue, group.held()

    def open_group(self, book: LeaseBook, name: str, timeout_ms: int) -> LeaseGroup:
        """The group `name`, a new one if there is none. Raises: ChannelFault 406 at the bound."""
        group = book.groups.get(name)
        if group is not None:
            return group
        queue = book.actor.queue
        if len(book.groups) >= LEASE_GROUPS.default:
            silent = book.may_go(self.line.clock.monotonic_ns())
            if silent != "":
                self.release(queue, silent, True)
        if len(book.groups) >= LEASE_GROUPS.default:
            raise refused(
                f"{len(book.groups)} groups lease messages of queue '{queue.name}' in vhost "
                f"'{queue.vhost}', and {LEASE_GROUPS.default} may: {', '.join(sorted(book.groups))}"
                "; end one with lease.release and forget=true"
            )
        arguments: dict[str, object] = {GROUP_ARGUMENT: name}
        consumer = Consumer(
            name, queue.client, book.actor.sink, Unsent(1), False, False, 0, arguments
        )
        group = LeaseGroup(name, consumer, timeout_ms * NS_PER_MS)
        book.groups[name] = group
        book.timers[name] = Timer(partial(self.look_at, book, group))
        return group

    # -- acquiring -------------------------------------------------------------------------------

    def acquire(self, queue: QueueActor, order: Order) -> None:
        """Do `order`, or have it wait for those of its group before it.

        Raises: ChannelFault 406."""
        book = self.open_book(queue)
        self.open_group(book, order.group, order.timeout_ms)
        if order.group not in book.under_way:
            self._begin(book, order)
            return
        waiting = book.waiting.setdefault(order.group, [])
        if len(waiting) >= LEASE_WAITING.default:
            raise refused(
                f"{len(waiting)} requests of group '{order.group}' wait already, and "
                f"{LEASE_WAITING.default} may; is one query running twice?"
            )
        waiting.append(order)

    def _begin(self, book: LeaseBook, order: Order) -> None:
        group = book.groups[order.group]
        fault = self._refusal(book, group, order)
        if fault is not None and not order.accepts_loss:
            order.refuse(fault, 406)
            self._next(book, order.group)
            if group.end() == 0 and order.group not in book.under_way:
                # It holds nothing and never did: it must not count among the queue's groups.
                book.groups.pop(order.group, None)
                book.timers.pop(order.group, None)
            return
        book.under_way[order.group] = order
        end = int(group.end())
        start = max(order.start, int(group.acked_to))
        if fault is not None:
            order.lost = max(order.start - end, start - order.start)
        self._note_settled(book, group, min(start, end))
        book.actor.settle(group, min(start, end))
        group.acked_to = max(start, int(group.acked_to))
        group.timeout_ns = order.timeout_ms * NS_PER_MS
        group.query = order.query or group.query
        group.is_forgettable = order.is_forgettable
        group.consumer.holder = order.holder
        group.consumer.prefetch = max(1, order.count)
        self.renew(book, group)
        book.actor.take(Taking(group, order.count, order.bytes))

    def _refusal(self, book: LeaseBook, group: LeaseGroup, order: Order) -> str | None:
        """Why `order` cannot go on from where it thinks it is."""
        queue = book.actor.queue
        whose = f"group '{group.name}' of queue '{queue.name}' in vhost '{queue.vhost}'"
        if order.start < group.acked_to:
            return (
                f"STALE: {whose} is done with everything below {group.acked_to}, and the request "
                f"begins at {order.start}: {group.acked_to - order.start} messages are gone. Was a "
                "checkpoint rolled back, or is the group used twice?"
            )
        end = int(group.end())
        if order.start > end:
            return (
                f"LEASE_LOST: {whose} ends at {end}, and the request begins at {order.start}: "
                f"{order.start - end} messages went back to the queue after their time, or with "
                "it, and may be read again"
            )
        return None

    def _note_settled(self, book: LeaseBook, group: LeaseGroup, start: int) -> None:
        """What is about to be settled is on record until the disk knows it."""
        durability = _lasting(book.actor.queue)
        if durability is None:
            return
        note_settled(group, start - int(group.acked_to), durability)

    def taken(self, actor: LeaseActor, group: LeaseGroup) -> None:
        book = self.books[actor.queue.identity]
        order = book.under_way[group.name]
        self._arm(book, group)
        self._keep(book, order)

    def _keep(self, book: LeaseBook, order: Order) -> None:
        """See that what the answer says is on the disk."""
        group = book.groups[order.group]
        queue = book.actor.queue
        durability = _lasting(queue)
        if durability is None:
            self._answer(book, order)
            return
        if waits_for_place(group, durability):
            # A message has a position when the store has taken it; the row has to name it.
            order.mark = -1
        else:
            catalogue = self._context.catalogue
            self.write_row(queue, group)
            order.mark = catalogue.hand_over()
            if group.settled:
                durability.store.is_flush_due = True
                durability.store.log.wants_ack_sync = durability.store.syncing.is_prompt
        request = StoreRequest(durability.lane, self._payer, _Kept(self, book, order), [])
        durability.store.offered(request)

    def write_row(self, queue: QueueActor, group: LeaseGroup) -> None:
        """What `group` holds is handed to the catalogue, if the queue is kept."""
        durability = _lasting(queue)
        if durability is not None:
            name = row_name(int(queue.queue_id), group.name)
            value = row_of(group, durability)
            self._context.catalogue.parameter_set(queue.vhost, COMPONENT, name, value)

    def is_on_disk(self, book: LeaseBook, order: Order) -> None:
        """The store has everything that `order` waited for."""
        if book.under_way.get(order.group) is not order:
            return
        if order.mark < 0:
            self._keep(book, order)
        elif self._context.catalogue.has(order.mark):
            book.groups[order.group].settled = []
            self._answer(book, order)
        else:
            now_ns = self.line.clock.monotonic_ns()
            look_again = Timer(lambda now_ns: self.is_on_disk(book, order))
            self.dues.put(look_again, now_ns + KEPT_LOOK_NS)

    def _answer(self, book: LeaseBook, order: Order) -> None:
        group = book.groups[order.group]
        order.settle(
            {
                "acked_to": int(group.acked_to),
                "end": int(group.end()),
                "count": int(group.held_count),
                "bytes": int(group.held_bytes),
                "ready": int(book.actor.queue.messages.ready_count()),
                "lost": order.lost,
            }
        )
        del book.under_way[order.group]
        self._next(book, order.group)

    def _next(self, book: LeaseBook, name: str) -> None:
        waiting = book.waiting.get(name, [])
        if waiting:
            self._begin(book, waiting.pop(0))
        elif name in book.waiting:
            del book.waiting[name]

    # -- giving back -----------------------------------------------------------------------------

    def release(self, queue: QueueActor, name: str, forgets: bool) -> int:
        """Everything the group `name` holds goes back to `queue`; how many. forgets: nothing is
        known of the group any more.

        Raises: ChannelFault 404 for no such group, 406 while a request of it is under way."""
        book = self.book_of(queue)
        group = None if book is None else book.groups.get(name)
        if book is None or group is None:
            raise refused(
                f"no group '{name}' leases messages of queue '{queue.name}' in vhost "
                f"'{queue.vhost}'",
                404,
            )
        if name in book.under_way:
            raise refused(f"a request of group '{name}' is under way")
        count = int(book.actor.give_back(group))
        self.dues.take_off(book.timers[name])
        if forgets:
            del book.groups[name], book.timers[name]
            if _lasting(queue) is not None:
                row = row_name(int(queue.queue_id), name)
                self._context.catalogue.parameter_cleared(queue.vhost, COMPONENT, row)
        else:
            self.write_row(queue, group)
        return count

    def renew(self, book: LeaseBook, group: LeaseGroup) -> None:
        """A sign of life."""
        group.renewed_ns = self.line.clock.monotonic_ns()
        self._arm(book, group)

    def _arm(self, book: LeaseBook, group: LeaseGroup) -> None:
        timer = book.timers[group.name]
        if group.held_count > 0 and timer.due_ns < 0:
            self.dues.put(timer, int(group.renewed_ns + group.timeout_ns))

    def look_at(self, book: LeaseBook, group: LeaseGroup, now_ns: int) -> None:
        """The time of `group` may be over."""
        due_ns = int(group.renewed_ns + group.timeout_ns)
        if group.held_count == 0 or not book.actor.is_alive:
            return
        if group.name in book.under_way:
            due_ns = now_ns + int(group.timeout_ns)
        if now_ns < due_ns:
            self.dues.put(book.timers[group.name], due_ns)
            return
        queue = book.actor.queue
        count = book.actor.give_back(group)
        self.write_row(queue, group)
        self._log.warning(
            f"{queue.identity}: group '{group.name}' gave no sign of life for "
            f"{group.timeout_ns // NS_PER_MS} ms; the {count} messages it held are ready again"
        )

    def queue_gone(self, actor: LeaseActor) -> None:
        book = self.books.get(actor.queue.identity)
        if book is None or book.actor is not actor:
            return
        del self.books[actor.queue.identity]
        for name, group in book.groups.items():
            actor.drop(group)
            self.dues.take_off(book.timers[name])
        orders = list(book.under_way.values())
        for waiting in book.waiting.values():
            orders.extend(waiting)
        book.under_way = {}
        book.waiting = {}
        for order in orders:
            order.refuse(f"queue '{actor.queue.name}' is gone", 404)


def refused(text: str, code: int = 406) -> ChannelFault:
    """What closes the channel of whoever asked."""
    return ChannelFault(code, text, RequestAsk.CLASS_ID, RequestAsk.METHOD_ID)


def _lasting(queue: QueueActor) -> StoreDurability | None:
    """The way to the disk of a queue that comes back after a restart."""
    durability = queue.durability
    if isinstance(durability, StoreDurability) and durability.is_lasting and queue.queue_id > 0:
        return durability
    return None
