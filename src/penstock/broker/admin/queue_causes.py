"""Who caused what is in one queue: by the page of the ledger that each of its messages is on.

Every message carries the page of the connection that published it (scenario 102).
"""

from collections.abc import Iterator
from typing import Final

from penstock.base.cause import Cause
from penstock.base.errors import OperatorError
from penstock.base.shown_names import shown_name
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.answers import CauseRow, QueueCauses
from penstock.broker.admin.flow_ledger import LOOKED_AT, STEP_MESSAGES, every_queue, kept_in, listed
from penstock.broker.admin.paging import Pager
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor, QueueClient
from penstock.explain.naming import Names
from penstock.explain.window_index import paced
from penstock.protocol.content import Message
from penstock.queues.entry import content_bytes, is_stub
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES

STEP_ROWS: Final = 32


def queue_causes(
    broker: Broker, name: str, sort: str, names: Names, pager: Pager[CauseRow]
) -> Steps[QueueCauses]:
    """A page of who caused what is in the queue `name` (NAME in vhost /, or VHOST/NAME). In steps.

    Raises: OperatorError if there is no such queue."""
    queue = yield from _queue(broker, name)
    # By cause: waiting, ready, unanswered, kept, paged and uncommitted, and bytes of all of them.
    found: dict[str, list[int]] = {}

    def add(at: int, origin: Cause, messages: int, bytes_: int) -> None:
        mine = found.setdefault(origin.name, [0] * 7)
        mine[at] += messages
        mine[-1] += bytes_

    for lane in queue.lanes:
        if lane.in_flight > 0:
            count = int(lane.in_flight)
            add(0, lane.origin, count, int(lane.in_flight_bytes) + count * MESSAGE_OVERHEAD_BYTES)
    in_memory = int(queue.messages.ready_count() - queue.messages.pieces_count())
    step = max(1, -(-in_memory // LOOKED_AT))
    # As they are now: messages that are delivered while these are counted may count twice.
    pieces = queue.messages.in_pieces()
    uncommitted = [] if queue.uncommitted is None else queue.uncommitted.every()
    sample = queue.messages.ready_messages(step)
    for at, each, messages in ((1, step, sample), (UNCOMMITTED, 1, uncommitted)):
        for message in paced(messages, STEP_MESSAGES):
            if message is None:
                yield 0.0
                continue
            add(at, message.origin, each, each * _whole_bytes(message))
            if is_stub(message):
                add(PAGED, message.origin, each, 0)
    for origin, count, bytes_ in pieces:
        add(1, origin, count, bytes_)
        add(PAGED, origin, count, 0)
    for one in _unanswered(broker, queue):
        if one is None:
            yield 0.0
        else:
            add(2, one.origin, 1, _whole_bytes(one))
    for origin, (count, bytes_) in kept_in(queue).items():
        add(3, listed(origin, broker.node_account), count, bytes_)
    total = max(1, sum(mine[-1] for mine in found.values()))
    for index, (account, mine) in enumerate(found.items()):
        waiting, ready, unanswered, kept, paged, unsafe, size = mine
        count = waiting + ready + unanswered + kept + unsafe
        share = size / total
        shown = names.of(account)
        row = CauseRow(shown, waiting, ready, unanswered, kept, count, size, share, paged, unsafe)
        pager.offer((-size if sort == "size" else 0, account), row)
        if index % STEP_ROWS == STEP_ROWS - 1:
            yield 0.0
    rows = pager.rows()
    more = pager.total - len(rows)
    return QueueCauses(queue.identity, step > 1, rows, more, pager.total, pager.next())


PAGED: Final = 4
"""Of the list of one cause above: of the ready ones, those that are on the disk."""
UNCOMMITTED: Final = 5


def _whole_bytes(message: Message) -> int:
    """What it takes in memory, and of a stub what lies on the disk for it."""
    size = int(content_bytes(message)) if is_stub(message) else len(message.raw)
    return size + MESSAGE_OVERHEAD_BYTES


def _queue(broker: Broker, name: str) -> Steps[QueueActor]:
    wanted = (f"queue:{name}", "queue:" + shown_name("/", name))
    for queue in every_queue(broker):
        if queue is None:
            yield 0.0
        elif queue.identity in wanted:
            return queue
    raise OperatorError(f"no queue '{name}'; write NAME for one in vhost /, or VHOST/NAME")


def _unanswered(broker: Broker, queue: QueueActor) -> Iterator[Message | None]:
    """Deliveries are kept by channels, so all of these are looked at, if there is anything. None
    after each channel and STEP_MESSAGES deliveries of one, which are those it has now."""
    if queue.unacked_count == 0:
        return
    for connection in list(broker.connections.values()):
        for channel in list(connection.channels.values()):
            entries = [*channel.table.old.values(), *channel.table.entries]
            for index, delivery in enumerate(entries, 1):
                if delivery is not None and _is_of(delivery.queue, queue):
                    yield delivery.message
                if index % STEP_MESSAGES == 0:
                    yield None
            yield None
    leases = [leased for leased_from, leased in broker.leases.held() if leased_from is queue]
    for leased in leases:
        yield from paced([one.message for one in leased], STEP_MESSAGES)


def _is_of(client: object, queue: QueueActor) -> bool:
    return isinstance(client, QueueClient) and client.actor is queue
