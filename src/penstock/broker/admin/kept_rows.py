"""What reader groups keep in streams, under whoever published it.

It lies on the disk and is nobody's debt, so accounts have no number for it: it is counted when
somebody asks, out of what the stream has noted of its batches (streams/origins).
"""

from penstock.base.cause import Cause
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.stream.stream_actor import stream_of
from penstock.broker.stream.stream_groups import StreamGroups
from penstock.flow.account import Account
from penstock.streams.reader_groups import ReaderGroup, lowest

Kept = dict[Cause, tuple[int, int]]
"""Messages and bytes, by cause."""


def kept_by(groups: StreamGroups, group: ReaderGroup) -> Kept:
    """What `group` has not passed. Of what nobody knows the publisher, the virtual host is it:
    from before the last start, or before there were groups."""
    return _kept_from(groups, int(group.position), int(group.lag_bytes(groups.log)))


def kept_in(queue: QueueActor) -> Kept:
    """What the group of a stream keeps that is furthest behind; nothing of other queues."""
    stream = stream_of(queue)
    groups = None if stream is None else stream.groups
    if groups is None or not groups.groups:
        return {}
    position = int(lowest(groups.groups))
    bytes_ = max(int(one.lag_bytes(groups.log)) for one in groups.groups.values())
    return _kept_from(groups, position, bytes_)


def _kept_from(groups: StreamGroups, position: int, disk_bytes: int) -> Kept:
    log = groups.log
    found = {} if log.origins is None else log.origins.kept_from(position)
    known = sum(messages for messages, _ in found.values())
    unknown = int(log.next) - position - known
    if unknown > 0:
        bytes_ = max(0, disk_bytes - sum(size for _, size in found.values()))
        messages, before = found.get(groups.rest, (0, 0))
        found[groups.rest] = (messages + unknown, before + bytes_)
    return {origin: amounts for origin, amounts in found.items() if amounts[0] > 0}


def kept_by_page(broker: Broker) -> Kept:
    """Everything that is kept, for each page of the ledger with all below it. What a connection
    has left behind whose page is gone is on its user's."""
    found: Kept = {}
    for vhost in broker.vhosts.values():
        for queue in vhost.queues.values():
            for origin, amounts in kept_in(queue).items():
                page: Account | None = listed(origin, broker.node_account)
                while page is not None:
                    messages, bytes_ = found.get(page, (0, 0))
                    found[page] = (messages + amounts[0], bytes_ + amounts[1])
                    page = page.parent
    return found


def listed(origin: Cause, node: Account) -> Account:
    """The page that has to answer for `origin`: its own, or the first above that is there."""
    page = origin if isinstance(origin, Account) else node
    while not page.is_listed and page.parent is not None:
        page = page.parent
    return page
