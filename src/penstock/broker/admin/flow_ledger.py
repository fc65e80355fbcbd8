"""The ledger as rows: every page, and what reader groups keep of each.

Every message carries the page of the connection that published it, so a lane, a queue and a stream
can each say for whom they work (seed S4; scenario 102).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from penstock.base.cause import Cause
from penstock.base.errors import OperatorError
from penstock.base.steps import whole
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.answers import AccountRow, Accounts
from penstock.broker.admin.paging import Key, Pager
from penstock.broker.admin.pending_views import Pending, pending_by_page
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.settings.ledger import level_of
from penstock.broker.stream.stream_actor import stream_of
from penstock.broker.stream.stream_groups import StreamGroups
from penstock.explain.naming import Names
from penstock.explain.window_index import paced
from penstock.flow.account import REASON, Account
from penstock.queues.entry import content_bytes, is_stub
from penstock.streams.reader_groups import lowest

SORTS: Final = ("size", "name")
STEP_QUEUES: Final = 256
STEP_PAGES: Final = 32
STEP_MESSAGES: Final = 128
NO_PATH: Final = ("",)
"""Above the node's."""
LOOKED_AT = 20_000
"""Messages of one queue looked at; of a longer one every so-manieth is, and the row says so."""

Kept = dict[Cause, tuple[int, int]]
"""Messages and bytes, by cause."""


class Paged:
    """What one cause has on the disk. extra: messages that are on no page of the ledger, because
    memory knows only where they lie; messages, bytes: all whose bodies are not in memory."""

    __slots__ = ("bytes", "extra", "messages")

    def __init__(self) -> None:
        self.extra = 0
        self.messages = 0
        self.bytes = 0

    def add(self, extra: int, messages: int, bytes_: int) -> None:
        self.extra += extra
        self.messages += messages
        self.bytes += bytes_


def paged_in(queue: QueueActor, found: dict[Cause, Paged]) -> Steps[None]:
    """Add what `queue` has on the disk and not in memory to `found`, by cause. Of very many stubs,
    which are on their way there, every so-manieth is looked at. In steps of STEP_MESSAGES."""
    messages = queue.messages
    for origin, count, bytes_ in messages.in_pieces():
        found.setdefault(origin, Paged()).add(count, count, bytes_)
    stubs = int(messages.paged_count() - messages.pieces_count())
    if stubs > 0:
        step = max(1, -(-stubs // LOOKED_AT))
        for message in paced(messages.ready_messages(step), STEP_MESSAGES):
            if message is None:
                yield 0.0
            elif is_stub(message):
                size = int(content_bytes(message))
                found.setdefault(message.origin, Paged()).add(0, step, step * size)


def paged_by_page(broker: Broker) -> Steps[dict[Account, Paged]]:
    """Everything on the disk, for each page of the ledger with all below it. In steps."""
    causes: dict[Cause, Paged] = {}
    for queue in every_queue(broker):
        if queue is None:
            yield 0.0
        else:
            yield from paged_in(queue, causes)
    found: dict[Account, Paged] = {}
    for origin, mine in causes.items():
        page: Account | None = listed(origin, broker.node_account)
        while page is not None:
            found.setdefault(page, Paged()).add(mine.extra, mine.messages, mine.bytes)
            page = page.parent
    return found


def kept_in(queue: QueueActor) -> Kept:
    """What the group of a stream keeps that is furthest behind; nothing of other queues."""
    stream = stream_of(queue)
    groups = None if stream is None else stream.groups
    if groups is None or not groups.groups:
        return {}
    position = int(lowest(groups.groups))
    bytes_ = max(int(one.lag_bytes(groups.log)) for one in groups.groups.values())
    return kept_from(groups, position, bytes_)


def kept_from(groups: StreamGroups, position: int, disk_bytes: int) -> Kept:
    """What lies in the log from `position` on, `disk_bytes` in all. Where the publisher is not
    known, the virtual host is it: from before the last start, or before there were groups."""
    log = groups.log
    found = {} if log.origins is None else log.origins.kept_from(position)
    known = sum(messages for messages, _ in found.values())
    unknown = int(log.next) - position - known
    if unknown > 0:
        bytes_ = max(0, disk_bytes - sum(size for _, size in found.values()))
        messages, before = found.get(groups.rest, (0, 0))
        found[groups.rest] = (messages + unknown, before + bytes_)
    return {origin: amounts for origin, amounts in found.items() if amounts[0] > 0}


def kept_by_page(broker: Broker) -> Steps[Kept]:
    """Everything that is kept, for each page of the ledger with all below it. What a connection
    has left behind whose page is gone is on its user's. In steps."""
    found: Kept = {}
    for queue in every_queue(broker):
        if queue is None:
            yield 0.0
            continue
        for origin, amounts in kept_in(queue).items():
            page: Account | None = listed(origin, broker.node_account)
            while page is not None:
                messages, bytes_ = found.get(page, (0, 0))
                found[page] = (messages + amounts[0], bytes_ + amounts[1])
                page = page.parent
    return found


def every_queue(broker: Broker) -> Iterator[QueueActor | None]:
    """Every queue that is there now, and None after STEP_QUEUES of them."""
    for vhost in list(broker.vhosts.values()):
        for index, queue in enumerate(list(vhost.queues.values())):
            if queue.is_alive:
                yield queue
            if index % STEP_QUEUES == STEP_QUEUES - 1:
                yield None


def listed(origin: Cause, node: Account) -> Account:
    """The page that has to answer for `origin`: its own, or the first above that is there."""
    page = origin if isinstance(origin, Account) else node
    while not page.is_listed and page.parent is not None:
        page = page.parent
    return page


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it is listed. path: its name behind those of the pages above; memory: its bytes."""

    path: tuple[str, ...]
    memory: int
    row: AccountRow


def ledger_rows(broker: Broker) -> list[AccountRow]:
    """The whole tree, a parent before its children, those who owe most first."""
    pages: list[Page] = []
    whole(_each_page(broker, pages.append))
    return [page.row for page in _in_tree(pages)]


def _each_page(broker: Broker, take: Callable[[Page], None]) -> Steps[None]:
    """Every page in steps of STEP_PAGES, a parent before its children."""
    kept = yield from kept_by_page(broker)
    paged = yield from paged_by_page(broker)
    pending = yield from pending_by_page(broker)
    now_ns = broker.clock.monotonic_ns()
    waiting: list[tuple[Account, tuple[str, ...]]] = [(broker.node_account, ())]
    count = 0
    while waiting:
        page, path = waiting.pop()
        row = _row(page, len(path), kept, paged, pending.get(page) or Pending(), now_ns)
        take(Page(path, page.memory_bytes(), row))
        waiting += [(child, (*path, child.name)) for child in page.children.values()]
        count += 1
        if count % STEP_PAGES == 0:
            yield 0.0


def _row(
    page: Account,
    depth: int,
    kept: Kept,
    paged: dict[Account, Paged],
    pending: Pending,
    now_ns: int,
) -> AccountRow:
    mine = paged.get(page) or Paged()
    held_by = [page.name] if page.is_held else []
    since_ns = page.held_since_ns if page.is_held else 0
    if page.gate is not None:
        held = [(peer, since) for peer, reason, since in page.gate.snapshot() if reason == REASON]
        held_by = [peer for peer, _ in held]
        since_ns = min((since for _, since in held), default=0)
    kept_messages, kept_bytes = kept.get(page, (0, 0))
    return AccountRow(
        name=page.name,
        level=level_of(page),
        depth=depth,
        debt_messages=page.total_messages(),
        debt_bytes=page.total_bytes(),
        stored_messages=page.total_stored_messages() + mine.extra,
        stored_bytes=page.total_stored_bytes() + mine.bytes,
        high_messages=int(page.high_messages),
        low_messages=int(page.low_messages),
        high_bytes=int(page.high_bytes),
        low_bytes=int(page.low_bytes),
        is_held=page.is_held,
        held_by=held_by,
        is_closed=page.is_closed,
        kept_messages=kept_messages,
        kept_bytes=kept_bytes,
        held_for_ns=now_ns - since_ns if since_ns > 0 else 0,
        paged_messages=mine.messages,
        paged_bytes=mine.bytes,
        parked_messages=page.total_parked_messages(),
        parked_bytes=page.total_parked_bytes(),
        parked_disk_bytes=page.total_parked_disk_bytes(),
        unfinished_bytes=page.total_unfinished_bytes(),
        pending_messages=pending.messages,
        pending_by=sorted(pending.holders),
        pending_for_ns=now_ns - min(pending.holders.values(), default=now_ns),
    )


def _in_tree(pages: list[Page]) -> list[Page]:
    """A parent before its children, those first that have most."""
    below: dict[tuple[str, ...], list[Page]] = {}
    known = {page.path for page in pages}
    for page in sorted(pages, key=lambda one: (-one.memory, one.path)):
        above = page.path[:-1]
        is_below = page.path != () and above in known
        below.setdefault(above if is_below else NO_PATH, []).append(page)
    found: list[Page] = []
    # What is put in last comes out first.
    waiting = below.get(NO_PATH, [])[::-1]
    while waiting:
        page = waiting.pop()
        found.append(page)
        waiting += below.get(page.path, [])[::-1]
    return found


def accounts(
    broker: Broker, vhost: str, sort: str, names: Names, pager: Pager[Page]
) -> Steps[Accounts]:
    """By size: the node, its vhosts and users, and a page of the connections, those first that have
    most outstanding, stored, parked and kept. By name: a page of everything, a parent before its
    children. Only of `vhost` unless that is "". names: what connections are called. In steps."""
    answer, _ = yield from placed_accounts(broker, vhost, sort, names, pager)
    return answer


def placed_accounts(
    broker: Broker, vhost: str, sort: str, names: Names, pager: Pager[Page]
) -> Steps[tuple[Accounts, list[Key]]]:
    """The same with the place of each row: by size [0, -bytes, ...] above connections, and
    [1, place ...] of a connection."""
    above: list[Page] = []
    vhosts: list[str] = []

    def take(page: Page) -> None:
        row, path = page.row, page.path
        if row.level == "vhost":
            vhosts.append(row.name.partition(":")[2])
        if vhost != "" and path[:1] != (f"vhost:{vhost}",):
            return
        if sort != "size":
            pager.offer(path, page)
        elif row.level == "connection":
            pager.offer((-_caused(row), row.name), page)
        else:
            above.append(page)

    yield from _each_page(broker, take)
    if vhost != "" and vhost not in vhosts:
        known = f"those that have one: {', '.join(sorted(vhosts))}"
        raise OperatorError(
            f"no account of vhost '{vhost}'; {known if vhosts else 'no client has connected yet'}"
        )
    found = pager.rows()
    pages = _in_tree(above + found) if sort == "size" else found
    rows = [page.row for page in pages]
    shown = [
        replace(row, name=names.of(row.name), held_by=[names.of(peer) for peer in row.held_by])
        for row in rows
    ]
    more = pager.total - len(found) if sort == "size" else 0
    keys = [_place(page) for page in pages] if sort == "size" else pager.keys()
    return Accounts(shown, more, pager.total, pager.next()), keys


def _place(page: Page) -> Key:
    if page.row.level == "connection":
        return 1, -_caused(page.row), page.row.name
    return 0, -page.memory, *page.path


def _caused(row: AccountRow) -> int:
    """Bytes that it answers for."""
    parked = row.parked_bytes + row.parked_disk_bytes
    return row.debt_bytes + row.stored_bytes + parked + row.kept_bytes + row.unfinished_bytes
