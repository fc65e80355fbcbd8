"""Publishes that follow each other to one address are handed to their queues together.

What `Publisher.publish` does for each of them is the same for all, where nothing can hold one of
them back: the route is known, its queues are open and have room, no property has to be looked at.
So it is decided once, the books are changed once, and only the messages are gone through. Whatever
is not so goes one by one. COMPILED.
"""

from typing import Final

from mypy_extensions import i32, i64

from penstock.base.wire import read_i16_be, read_i32_be
from penstock.broker.actors.confirms import SEQUENCE_MASK
from penstock.broker.actors.lane import Lane
from penstock.broker.channel.publish import COPIES_OF_ONE, NO_BOUND, Publisher
from penstock.broker.channel.route import Route
from penstock.protocol.content import UNNUMBERED, Address, Message, SharedMessage, shared_of

RUN_MIN: Final = 2
"""Fewer are not worth while."""
BARE_FLAGS: Final = 0xEFFF
"""Property flags that ask for a look: all but the delivery mode, which no route depends on."""
BARE_BYTES: Final = 15
"""A content header with nothing but a delivery mode."""


def publish_run(publisher: Publisher, items: list[Message], at: i64, most: i64) -> tuple[i64, i64]:
    """Hand over what stands in `items` from `at` on, `most` publishes at most, as far as they are
    for one address and go at once; how many these are, and their bytes. (0, 0) where the next one
    has to go by itself.
    """
    if most < RUN_MIN or at + RUN_MIN > len(items):
        return (0, 0)
    first = items[at].address
    route = publisher.last_route
    if (
        route is None
        or items[at + 1].address is not first
        or (route.address is not first and route.address.method != first.method)
        or not _is_free(publisher, route)
    ):
        return (0, 0)
    lanes = route.lanes
    copies: i64 = len(lanes)
    bytes_max: i64 = NO_BOUND
    for lane in lanes:
        count, bytes_ = publisher.strategy.spare(lane, publisher.account)
        if copies > 1:
            count //= copies
            bytes_ //= copies
        if count < most:
            most = count
        if bytes_ < bytes_max:
            bytes_max = bytes_
    if most < RUN_MIN:
        return (0, 0)
    found = _alike(items, at, most, bytes_max, first)
    count = found[0]
    if count < RUN_MIN:
        return (0, 0)
    run = items[at : at + count]
    _accept(publisher, run, route)
    _hand_over(publisher, run, found[1], lanes)
    return found


def _is_free(publisher: Publisher, route: Route) -> bool:
    """Whether a publish that follows `route` has nothing to be looked at or waited for."""
    if (
        publisher.spread is not None
        or route.epoch != publisher.vhost.router.epoch
        or route.needs_headers
        or route.is_mandatory
        or route.is_immediate
        or not 0 < len(route.lanes) <= COPIES_OF_ONE
        or (publisher.is_parking and len(publisher.parking.lines) > 0)
    ):
        return False
    for lane in route.lanes:
        if lane.is_closed or lane.commands is not None or lane.queue_rate is not None:
            return False
    return True


def _alike(
    items: list[Message], at: i64, most: i64, bytes_max: i64, address: Address
) -> tuple[i64, i64]:
    """How many from `at` on are for `address` and have no properties but a delivery mode, and their
    bytes, `bytes_max` at most."""
    end: i64 = len(items)
    if end - at > most:
        end = at + most
    bytes_: i64 = 0
    to: i64 = at
    while to < end:
        message = items[to]
        raw = message.raw
        size: i64 = len(raw)
        if (
            message.address is not address
            or message.sequence != UNNUMBERED
            or bytes_ + size > bytes_max
            or (i64(read_i16_be(raw, 19)) & BARE_FLAGS) != 0
            or read_i32_be(raw, 3) > BARE_BYTES
        ):
            break
        bytes_ += size
        to += 1
    return (to - at, bytes_)


def _accept(publisher: Publisher, run: list[Message], route: Route) -> None:
    """See Publisher._accept."""
    count: i64 = len(run)
    publisher.publish_count += count
    sizes = publisher.vhost.sizes
    address = route.address
    copies: i64 = len(route.lanes)
    confirms = publisher.confirms
    number: i64 = -1
    if confirms is not None:
        number = confirms.begin_run(count, copies)
    for message in run:
        sizes.add(i64(message.body_size))
        message.address = address
        if number >= 0:
            message.sequence = i32(number)
            number = (number + 1) & SEQUENCE_MASK


def _hand_over(publisher: Publisher, run: list[Message], bytes_: i64, lanes: list[Lane]) -> None:
    """See Publisher._hand_over."""
    if len(lanes) > 1:
        shared: list[Message] = []
        for message in run:
            shared.append(message if isinstance(message, SharedMessage) else shared_of(message))
        run = shared
    count: i64 = len(run)
    strategy = publisher.strategy
    account = publisher.account
    for lane in lanes:
        lane.items.extend(run)
        strategy.charge(lane, account, count, bytes_)
        if not lane.is_listed:
            lane.receiving.offered(lane)
