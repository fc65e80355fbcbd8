"""Leases after a start: groups hold again what they held, before anybody else is served.

What a group was done with and the log had not heard of leaves the queue now. What does not come
back, because it was not persistent or is damaged, is lost to the group: whoever reads it is told.
"""

from msgspec import ValidationError, convert

from penstock.base.limits import LEASE_TIMEOUT_MS
from penstock.broker.lease.lease_manager import LeaseBook, LeaseManager
from penstock.broker.lease.lease_rows import LeaseRow
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.store.durability import StoreDurability
from penstock.broker.store.store_actor import StoreActor
from penstock.flow.account import Account
from penstock.protocol.content import Message
from penstock.queues.leases import LeaseGroup
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.storage.layout.index import QueueIndex

READ_BYTES = 4_194_304
BEFORE_ALL = 1 << 40
"""What is put back comes before everything that was never leased, in the order of the log."""


def restore_leases(
    leases: LeaseManager, store: StoreActor, actor: QueueActor, index: QueueIndex, origin: Account
) -> list[int]:
    """Bring the leases of `actor` back; positions in the log that they hold, ascending, which the
    queue is not given. origin: pays for the messages from now on."""
    held: list[int] = []
    for name, found in leases.claim(int(actor.queue_id)).items():
        try:
            row = convert(found, LeaseRow)
        except ValidationError as error:
            leases.unreadable(actor, name, error)
            continue
        index.next_position = max(int(index.next_position), row.top + 1)
        book = leases.open_book(actor)
        timeout_ms = row.timeout_ms or LEASE_TIMEOUT_MS.default
        group = leases.open_group(book, name, timeout_ms)
        group.acked_to = row.acked_to
        group.top = row.top
        # They stay in the row until a later one is safe, and what says so in the log with it.
        group.settled = _settle(store, index, _positions(row.settled))
        group.query = row.query
        group.is_forgettable = row.forgettable
        held += _fill(store, book, group, index, _positions(row.runs), origin)
        leases.renew(book, group)
    held.sort()
    return held


def _settle(store: StoreActor, index: QueueIndex, positions: list[int]) -> list[int]:
    """What the group was done with leaves the log, if it has not; which that were."""
    settled: list[int] = []
    for position in positions:
        run = index.find(position)
        if run is not None and run.has(position):
            store.log.settle(index, position)
            store.has_settled()
            settled.append(position)
    return settled


def _fill(
    store: StoreActor,
    book: LeaseBook,
    group: LeaseGroup,
    index: QueueIndex,
    positions: list[int],
    origin: Account,
) -> list[int]:
    """Give `group` the messages at `positions`; those that were there."""
    actor = book.actor
    now_ns = store.line.clock.monotonic_ns()
    found = _read(store, book.actor.queue, index, positions)
    held: list[int] = []
    for position in positions:
        message = found.pop(position, None)
        if message is None:
            group.add_lost()
            continue
        held.append(position)
        message.origin = origin
        origin.store(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
        actor.queue.get_unacked(message)
        actor.hold(group, message, position - BEFORE_ALL)
        actor.queue.messages.restored_out(position - BEFORE_ALL, message, now_ns)
    return held


def _read(
    store: StoreActor, queue: QueueActor, index: QueueIndex, positions: list[int]
) -> dict[int, Message]:
    """What the log has at `positions`. Raises: OSError."""
    wanted = set(positions)
    wanted.discard(0)
    found: dict[int, Message] = {}
    for position in sorted(wanted):
        if position in found:
            continue
        run = index.find(position)
        if run is None or not run.has(position):
            continue
        job = store.log.plan_reads(index, position, _in_a_row(wanted, position), READ_BYTES)
        job.run()
        damaged = [one for one in job.damaged if one in wanted]
        if damaged and isinstance(queue.durability, StoreDurability):
            queue.durability.cannot_read(damaged)
        for one in job.found:
            if int(one.position) in wanted:
                found[int(one.position)] = one.message
    return found


def _in_a_row(wanted: set[int], position: int) -> int:
    """How many positions from there on are wanted."""
    count = 1
    while position + count in wanted:
        count += 1
    return count


def _positions(runs: list[list[int]]) -> list[int]:
    """Positions of [first, count] as a row has them, see lease_rows."""
    positions: list[int] = []
    for first, count in runs:
        positions.extend(range(first, first + count) if first > 0 else [0] * count)
    return positions
