"""From a basic.publish to the mailboxes of queues: one channel's publishing side.

The bytes of a publish method repeat, so they are the key of a cache of resolved routes; the cache
entry is good while the router's epoch is unchanged. In a parking profile a publish whose queue has
no credit left is parked, and publishes for other queues go on past it; one that finds no room in
the lot does what `parked_full` says: it stalls the channel, is answered basic.nack, or closes the
channel. Elsewhere the channel overshoots and its own gate keeps grants from the connection.

A publish with `immediate` goes only to queues that have a consumer for it at this moment. Whoever
is given one counts as waiting for it, so what lies in the queue or on its way there takes its place
among the consumers first. A window in bytes counts as room for one delivery. Source: AMQP 0-9-1,
basic.publish, field "immediate"; RabbitMQ before 3.0. Such a publish is never parked: it stalls.
"""

from typing import Final, cast

from mypy_extensions import i32, i64

from penstock.base.errors import ChannelFault, ConnectionFault
from penstock.base.limits import ROUTE_CACHE_ENTRIES, UNCONFIRMED_MAX
from penstock.base.wire import read_i32_be
from penstock.broker.actors.actor import Actor
from penstock.broker.actors.confirms import Confirms
from penstock.broker.actors.deliver import ChannelFace
from penstock.broker.actors.lane import Answerable, Lane
from penstock.broker.actors.output import Output
from penstock.broker.actors.whole_publishes import WholePublishes
from penstock.broker.channel.content_rules import PropertyRules
from penstock.broker.channel.first_cause import pay_by_cause
from penstock.broker.channel.full_actions import CLOSE, NACK, STOP
from penstock.broker.channel.parked_line import PARKED_OVERHEAD_BYTES, ParkedLine, parked_size
from penstock.broker.channel.parking import Parking
from penstock.broker.channel.route import Route, short_text
from penstock.broker.dead_letter.hashed_properties import with_properties
from penstock.broker.queue.queue_actor import QueueActor, QueueTarget
from penstock.broker.stream.internal_stream import refuse_internal
from penstock.broker.vhost.rights import EXCHANGE, WRITE
from penstock.broker.vhost.vhost import VirtualHost
from penstock.flow.account import Account
from penstock.flow.credit import Strategy
from penstock.flow.gate import NOBODY, Gate, GateObserver
from penstock.flow.hop import LAYER_CHANNEL, LAYER_QUEUE
from penstock.protocol.content import (
    REFUSED,
    Address,
    Message,
    SharedMessage,
    names_suffix,
    shared_of,
)
from penstock.protocol.property_lookup import (
    FLAG_EXPIRATION,
    FLAG_HEADERS,
    FLAG_USER_ID,
    check_properties,
)
from penstock.protocol.values import Table
from penstock.queues.policy_keys import FULL_ACTIONS, PARKED_FULL
from penstock.queues.unacked import UnackedTable
from penstock.routing.exchange import Exchange
from penstock.routing.search import MATCHED_AT_ONCE, WORK_OF_ONE, Search
from penstock.telemetry.answer_times import AnswerTimes
from penstock.telemetry.events import PARKED, UNPARKED

NO_CONSUMERS: Final = 313
NO_BOUND: Final = 1 << 40
HEADER_BYTES_A_STEP: Final = 16
"""Headers that are looked at take so much time to read."""
COPIES_OF_ONE: Final = 8
"""A publish with more copies counts for more of a turn."""
SPREAD_ABOVE: Final = 256
"""A publish with more copies is handed over in several turns."""
COPY_COST: Final = 8
"""Of a turn, for each copy of such a publish: its queue and the store have a turn because of it."""
WIRED_AT_ONCE: Final = 256
"""Hops to queues that are made in one turn; where there are many, WIRED_SHARE of them."""
WIRED_SHARE: Final = 32


NO_ROUTES: Final[dict[bytes, Route]] = {}
NO_LANES: Final[dict[str, Lane]] = {}
NO_ACTORS: Final[dict[str, QueueActor]] = {}
"""What all channels share that have not published anything."""


class LaneOpened(GateObserver):
    """Tells a publisher that one of its hops to queues is open again."""

    __slots__ = ("lane", "publisher")

    def __init__(self, publisher: "Publisher") -> None:
        self.publisher = publisher
        self.lane: Lane | None = None

    def gate_opened(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        lane = self.lane
        if lane is not None:
            self.publisher.lane_opened(lane)


class Spread:
    """A publish that is taken and on its way to more queues than one turn serves. message: as they
    get it; lanes: to all of them, of which those before `at` have it. Bound: one a channel, and
    nothing else of the channel has a turn before it has gone."""

    __slots__ = ("at", "lanes", "message")

    def __init__(self, message: Message, lanes: list[Lane]) -> None:
        self.message = message
        self.lanes = lanes
        self.at: i64 = 0


class Way:
    """Where a publish goes, while that is looked for in several turns. Bound: one a channel."""

    __slots__ = ("headers", "keys", "message", "search")

    def __init__(self, message: Message, keys: list[str], headers: Table) -> None:
        self.message = message
        self.keys = keys
        self.headers = headers
        self.search = Search()


class Publisher(Answerable):
    """One channel's publishing side.

    channel: whose turns these are; parking: what waits, its lines are filled and emptied here;
    caused_by: unanswered deliveries, None for a channel that never has any; is_sharing: it has had
    a publish for several queues; is_waiting: the next publish has no place; work: done for routes
    and copies and not yet counted, WORK_OF_ONE for what an ordinary publish takes; forced: those
    that went past a closed hop because a forced one stood behind them; give_back: writes a
    basic.return; reference: of a forwarded client's channel, else b""; unheard: its confirms when
    the channel has ended; answering, times: where confirms are written, and counted; spread: the
    publish that is on its way to many queues; wires: hops that may still be made in this turn,
    below 0 when the next publish needs more turns.
    """

    __deletable__ = ("channel",)
    __slots__ = (
        "account",
        "actors",
        "answering",
        "cache",
        "caused_by",
        "channel",
        "confirms",
        "forced",
        "is_parking",
        "is_sharing",
        "is_waiting",
        "lanes",
        "last_route",
        "output",
        "parking",
        "publish_count",
        "reference",
        "return_count",
        "rules",
        "spread",
        "strategy",
        "times",
        "unheard",
        "unroutable_count",
        "vhost",
        "way",
        "wires",
        "work",
    )

    def __init__(
        self,
        channel: Actor,
        vhost: VirtualHost,
        account: Account,
        strategy: Strategy,
        is_parking: bool,
        parking: Parking,
        rules: PropertyRules,
        output: Output,
        answering: ChannelFace,
        times: AnswerTimes,
    ) -> None:
        self.channel = channel
        self.account = account
        self.vhost = vhost
        self.work: i64 = 0
        self.strategy = strategy
        self.is_parking = is_parking
        self.is_sharing = False
        self.is_waiting = False
        self.forced: i64 = 0
        self.parking = parking
        self.rules = rules
        self.output = output
        self.answering = answering
        self.times = times
        self.cache: dict[bytes, Route] = NO_ROUTES
        self.last_route: Route | None = None
        self.lanes: dict[str, Lane] = NO_LANES
        self.actors: dict[str, QueueActor] = NO_ACTORS
        self.caused_by: UnackedTable | None = None
        self.spread: Spread | None = None
        self.way: Way | None = None
        self.wires: i64 = 0
        self.confirms: Confirms | None = None
        self.reference = b""
        self.unheard: Confirms | None = None
        self.publish_count: i64 = 0
        self.return_count: i64 = 0
        self.unroutable_count: i64 = 0

    def publish(self, message: Message, is_forced: bool) -> bool:
        """Route and hand over; False if `message` has to wait and there is no place for it, or if
        its queues are still looked for, or more hops have to be made for it (`is_wiring`).

        is_forced: hand over past closed hops (a barrier method or a close stands behind it).
        Raises: ChannelFault, ConnectionFault: the publish broke a rule.
        """
        self.wires = NO_BOUND if is_forced else 0
        if self.spread is not None:
            self.finish_spread()
        if message.sequence == REFUSED:
            return self._refuse(is_forced)
        route = self.last_route
        address = message.address
        if route is None or (
            route.address is not address and route.address.method != address.method
        ):
            route = self.cache.get(address.method)
            self.last_route = route
            if route is not None:
                address.is_shared = route.address.is_shared
        if route is None or route.epoch != self.vhost.router.epoch:
            route = self._resolve(address)
            if self.wires < 0:
                return False
            self.last_route = route
        lanes = route.lanes
        if COPIES_OF_ONE < len(lanes) <= SPREAD_ABOVE:
            self.work += WORK_OF_ONE * len(lanes)
        flags: i64 = i64(message.raw[19])
        # No properties, or the delivery mode alone, need no look at what stands behind the flags.
        if (flags & 0xEF) != 0 or message.raw[20] != 0 or read_i32_be(message.raw, 3) > 15:
            check_properties(message.raw, 19, int(message.header_bytes) + 7)
        given = message
        if (flags & 0x03) != 0 or (message.raw[20] & FLAG_USER_ID) != 0:
            message = self.rules.checked(message)
        if route.needs_headers or (
            (flags & FLAG_HEADERS) != 0
            and message.raw.find(b"CC", 21, message.header_bytes + 7) > 0
        ):
            lanes = self._lanes_of(self._searched(route, message, given))
            if self.wires < 0:
                return False
            self.way = None
            if route.is_immediate:
                lanes = with_consumers(lanes)
            # What a delay store alone is given keeps its BCC keys until it is routed for good.
            if not is_delaying(lanes):
                message = self.rules.without_bcc(message)
        if (flags & FLAG_EXPIRATION) != 0:
            for lane in lanes:
                lane.receiving.expects_lifetimes()
        if self.is_parking:
            lines = self.parking.lines
            has_lines = len(lines) > 0
            for lane in lanes:
                if lane.is_closed or (has_lines and lane in lines):
                    if not is_forced:
                        return self._park(message, route, lanes, flags)
                    self.forced += self.force_line(lane)
            if has_lines:
                # Behind what is on the disk it waits, whether there is room or not.
                held = [one for one in lanes if one in lines]
                if held:
                    free = [one for one in lanes if one not in lines]
                    self._split(message, route, lanes, held, free, flags)
                    return True
        self._accept(message, route, lanes, flags)
        self._hand_over(message, route, lanes, lanes)
        return True

    def _park(self, message: Message, route: Route, lanes: list[Lane], flags: i64) -> bool:
        """Some of `lanes` are closed, or have a line: there the message waits, and the others get
        it at once. False if it has to wait itself."""
        parking = self.parking
        lines = parking.lines
        held: list[Lane] = []
        free: list[Lane] = []
        for lane in lanes:
            (held if lane.is_closed or lane in lines else free).append(lane)
        if route.is_immediate:
            parking.note_waiting(held[0], len(message.raw))
            return False
        if not parking.lot.has_room(parked_size(message) * len(held)):
            return self._no_room(message, held)
        if self._is_unanswered_full():
            return False
        self._split(message, route, lanes, held, free, flags)
        return True

    def _split(
        self,
        message: Message,
        route: Route,
        lanes: list[Lane],
        held: list[Lane],
        free: list[Lane],
        flags: i64,
    ) -> None:
        """`message` waits for those of `lanes` that are in `held`; those in `free` get it now."""
        self._accept(message, route, lanes, flags)
        message = self._hand_over(message, route, lanes, free)
        parking = self.parking
        now_ns = self.channel.line.turn_ns
        for lane in held:
            is_first = lane not in parking.lines
            line = parking.join(self.channel, lane, message, now_ns)
            if is_first:
                self._record(PARKED, line, 1)
        parking.lot.spill_some()

    def _no_room(self, message: Message, held: list[Lane]) -> bool:
        """The lot is full: False if the publish has to wait. Raises: ChannelFault, where that is
        the action."""
        parking = self.parking
        lot = parking.lot
        lot.spill_some(True)
        # What the disk is about to make room for is only held.
        is_full = lot.is_shared and not lot.is_spilling()
        action = self._full_action(held) if is_full else STOP
        if action == CLOSE:
            raise ChannelFault(
                406,
                f"no room to park a publish for {held[0].receiving.identity}: {lot.bytes} bytes of "
                f"this connection wait for queues that take nothing (parked_bytes is "
                f"{lot.node.lot_bytes_max})",
                60,
                40,
            )
        confirms = self.confirms
        if action == NACK and confirms is not None and confirms.commits is None:
            self.publish_count += 1
            confirms.refuse(confirms.begin())
            self.must_answer()
            return True
        parking.note_full()
        lot.wait(self.channel)
        return False

    def _full_action(self, held: list[Lane]) -> str:
        """The most drastic of what is said for these queues; for one without a policy that of the
        connection counts."""
        worst = 0
        for lane in held:
            applied = cast(QueueActor, lane.receiving).applied
            given = None if applied is None else applied.definition.get(PARKED_FULL)
            action = self.parking.lot.full_action if given is None else str(given)
            worst = max(worst, FULL_ACTIONS.index(action))
        return FULL_ACTIONS[worst]

    def _refuse(self, is_forced: bool) -> bool:
        """An alarm refuses the publish in its place among the others: it gets its number, and a
        nack, and is not looked at any further. False if it has to wait."""
        confirms = self.confirms
        assert confirms is not None, "because only confirming channels are refused publishes"
        if not is_forced and self._is_unanswered_full():
            return False
        self.publish_count += 1
        confirms.refuse(confirms.begin())
        self.must_answer()
        return True

    def check(self, message: Message) -> None:
        """Raise what `publish` would raise: a transaction hears of it before its commit."""
        route = self._route_of(message)
        check_properties(message.raw, 19, int(message.header_bytes) + 7)
        self.rules.checked(message)
        self._targets(route, message)

    def targets_of(self, message: Message) -> list[QueueTarget]:
        """Where `message` would go now. Raises: see `publish`."""
        return self._targets(self._route_of(message), message)

    def _route_of(self, message: Message) -> Route:
        route = self.cache.get(message.address.method)
        if route is None or route.epoch != self.vhost.router.epoch:
            route = self._resolve(message.address)
        return route

    def _is_unanswered_full(self) -> bool:
        """While a publish is parked those behind it are confirmed out of order, and their numbers
        are kept: at the bound the next one has to wait."""
        confirms = self.confirms
        return confirms is not None and confirms.span() >= UNCONFIRMED_MAX.default

    def retry(self, budget: i64) -> i64:
        """Hand over what is parked for queues that are open again, `budget` publishes at most; how
        many these were. While the account is held for debt nothing goes on, but for one publish
        where the channel waits for room: some of that debt may lie in front of it."""
        parking = self.parking
        account = self.account
        done: i64 = 0
        if account.is_stopped():
            budget = 1 if self.is_waiting else 0
        while done < budget:
            line = parking.next_opened()
            if line is None:
                break
            done += self._serve(line, budget - done)
            if account.is_stopped():
                break
        if done > 0:
            parking.lot.note_freed()
        return done

    def _serve(self, line: ParkedLine, budget: i64) -> i64:
        """Hand over what `line` may; of a queue that is gone, answer for it."""
        lane = line.lane
        is_alive = lane.receiving.is_alive
        account = self.account
        items = line.front
        at: i64 = line.head
        end: i64 = len(items)
        if end - at > budget:
            end = at + budget
        bytes_: i64 = 0
        while at < end and not (is_alive and lane.is_closed):
            message = items[at]
            at += 1
            bytes_ += parked_size(message)
            if is_alive:
                size: i64 = len(message.raw)
                lane.items.append(message)
                self.strategy.charge(lane, account, 1, size)
                if lane.commands is not None:
                    lane.commands.handed()
                if lane.queue_rate is not None:
                    lane.queue_rate.spend(int(size))
                if not lane.is_listed:
                    lane.receiving.offered(lane)
                if account.is_stopped():
                    break
            elif message.sequence >= 0 and self.confirms is not None:
                self.confirms.accept(i64(message.sequence))
                self.must_answer()
        done: i64 = at - line.head
        self.parking.left(line, done, bytes_)
        if not is_alive:
            done += self._drop_piece(line)
        if line.is_empty():
            self._record(UNPARKED, line, done)
        return done

    def _drop_piece(self, line: ParkedLine) -> i64:
        """Answer for what `line`, whose queue is gone, has next on the disk; how many these are."""
        spill = self.parking.lot.spill
        if spill is None or line.has_front() or line.is_empty():
            return 0
        piece = spill.drop_next(line)
        confirms = self.confirms
        if confirms is not None:
            for sequence in piece.sequences():
                confirms.accept(sequence)
            self.must_answer()
        self.parking.left(line, 0, 0)
        return piece.count

    def force_line(self, lane: Lane) -> i64:
        """Everything that is parked in memory for `lane`, up to what is on the disk alone, is
        handed over in one piece, past a closed hop: what comes now may not overtake it. How many
        these were."""
        parking = self.parking
        line = parking.lines.get(lane)
        if line is None:
            return 0
        count: i64 = 0
        is_alive = lane.receiving.is_alive
        while line.has_front():
            count += self._force_front(line, is_alive)
        while not is_alive and not line.is_empty():
            count += self._drop_piece(line)
            if line.has_front():
                count += self._force_front(line, False)
        if line.is_empty():
            self._record(UNPARKED, line, count)
        parking.lot.note_freed()
        return count

    def _force_front(self, line: ParkedLine, is_alive: bool) -> i64:
        lane = line.lane
        waiting = line.front[line.head :]
        count: i64 = len(waiting)
        bytes_: i64 = line.front_bytes
        self.parking.left(line, count, bytes_)
        if is_alive:
            size: i64 = bytes_ - count * PARKED_OVERHEAD_BYTES
            lane.items.extend(waiting)
            self.strategy.charge(lane, self.account, count, size)
            if lane.commands is not None:
                lane.commands.handed()
            queue_rate = lane.queue_rate
            if queue_rate is not None:
                queue_rate.spend(int(size))
            if not lane.is_listed:
                lane.receiving.offered(lane)
        elif self.confirms is not None:
            self.confirms.accept_all(waiting, count)
            self.must_answer()
        return count

    def _record(self, kind: int, line: ParkedLine, count: i64) -> None:
        channel = self.channel
        receiver = line.lane.receiving.identity
        channel.line.recorder.record(kind, channel.identity, receiver, line.reason, int(count))

    def _accept(self, message: Message, route: Route, lanes: list[Lane], flags: i64) -> None:
        """The publish is taken: it gets its number, its address, and who pays for it. flags: the
        first of its property flags."""
        self.publish_count += 1
        self.vhost.sizes.add(i64(message.body_size))
        message.address = route.address
        if route.needs_headers:
            self.vhost.router.settle()
        if (flags & FLAG_HEADERS) != 0:
            pay_by_cause(self.caused_by, message, lanes)
        confirms = self.confirms
        if confirms is not None:
            message.sequence = i32(confirms.begin())

    def _hand_over(
        self, message: Message, route: Route, lanes: list[Lane], free: list[Lane]
    ) -> Message:
        """`message` goes to `lanes`, of which those in `free` get it now; the form in which the
        others are to get it."""
        count: i64 = len(lanes)
        confirms = self.confirms
        if count == 0:
            self.unroutable_count += 1
            if route.is_mandatory or route.is_immediate:
                self._give_back(message, route)
        elif route.is_mandatory and is_delaying(lanes):
            # As RabbitMQ's plugin does: nobody can say yet whether it will have a queue to go to.
            self._give_back(message, route)
        if message.sequence >= 0 and confirms is not None:
            if count != 1:
                confirms.expect(i64(message.sequence), count)
            if count == 0:
                self.must_answer()
        if count > 1 and not isinstance(message, SharedMessage):
            message = shared_of(message)
        if len(free) > SPREAD_ABOVE:
            self.spread = Spread(message, free)
            return message
        size: i64 = len(message.raw)
        strategy = self.strategy
        account = self.account
        for lane in free:
            lane.items.append(message)
            strategy.charge(lane, account, 1, size)
            if lane.commands is not None:
                lane.commands.handed()
            queue_rate = lane.queue_rate
            if queue_rate is not None:
                queue_rate.spend(int(size))
            if not lane.is_listed:
                lane.receiving.offered(lane)
        return message

    def is_wiring(self) -> bool:
        """Whether the publish that was asked for last waits for its queues to be found or for hops
        only, which go on being made when it is asked for again."""
        return self.wires < 0

    def spread_on(self, budget: i64) -> i64:
        """Hand the publish under way to more of its queues, for about `budget` of a turn; how much
        of it that took. A queue that is gone by now counts as one that has taken it."""
        spread = self.spread
        assert spread is not None, "there is one"
        message = spread.message
        size: i64 = len(message.raw)
        lanes = spread.lanes
        began: i64 = spread.at
        end: i64 = began + 1 + budget // COPY_COST
        if end > len(lanes):
            end = len(lanes)
        while spread.at < end:
            lane = lanes[spread.at]
            spread.at += 1
            if not lane.receiving.is_alive:
                if message.sequence >= 0 and self.confirms is not None:
                    self.confirms.accept(i64(message.sequence))
                    self.must_answer()
                continue
            lane.items.append(message)
            self.strategy.charge(lane, self.account, 1, size)
            if lane.commands is not None:
                lane.commands.handed()
            queue_rate = lane.queue_rate
            if queue_rate is not None:
                queue_rate.spend(int(size))
            if not lane.is_listed:
                lane.receiving.offered(lane)
        if end == len(lanes):
            self.spread = None
        return (end - began) * COPY_COST

    def finish_spread(self) -> None:
        """Hand the publish under way to all of its queues: something that may not overtake it, or
        the channel's end, stands behind it."""
        if self.spread is not None:
            self.spread_on(NO_BOUND)

    def _give_back(self, message: Message, route: Route) -> None:
        self.return_count += 1
        if route.is_immediate and (not route.is_mandatory or self._targets(route, message)):
            self.answering.give_back(message, NO_CONSUMERS, "NO_CONSUMERS")
        else:
            self.answering.give_back(message, 312, "NO_ROUTE")

    def _resolve(self, address: Address) -> Route:
        """Decode the method's bytes and look the route up. Raises: see `publish`."""
        method = address.method
        exchange_name = short_text(method, 6)
        at: i64 = 7 + i64(method[6])
        key = short_text(method, at)
        at += 1 + i64(method[at])
        if at + 1 != len(method):
            raise ConnectionFault(502, "malformed arguments of basic.publish", 60, 40)
        bits: i64 = i64(method[at])
        if (bits & 2) != 0 and not self.vhost.allows_immediate:
            raise ConnectionFault(540, "immediate=true", 60, 40)
        rights = self.rules.rights
        rights.check(WRITE, EXCHANGE, exchange_name, 60, 40)
        exchange = self.vhost.find_exchange(exchange_name)
        if exchange is None:
            raise ChannelFault(
                404, f"no exchange '{exchange_name}' in vhost '{self.vhost.name}'", 60, 40
            )
        refuse_internal(self.vhost, exchange, key)
        rights.check_topic(WRITE, exchange_name, exchange.kind, key, 60, 40)
        if len(self.cache) >= ROUTE_CACHE_ENTRIES.default:
            self.cache.clear()
        self.last_route = None
        address.exchange = exchange_name
        address.routing_key = key
        address.suffix = names_suffix(exchange_name, key)
        route = Route(address, exchange)
        route.is_mandatory = (bits & 1) != 0
        route.epoch = self.vhost.router.epoch
        route.is_immediate = (bits & 2) != 0
        route.needs_headers = route.is_immediate or self.vhost.router.needs_headers(exchange)
        if not route.needs_headers:
            route.lanes = self._lanes_of(self._routed(exchange, [key], {}))
            if self.wires < 0:
                return route
        address.is_shared = len(route.lanes) > 1
        if self.cache is NO_ROUTES:
            self.cache = {}
        self.cache[method] = route
        return route

    def _searched(self, route: Route, message: Message, given: Message) -> list[QueueTarget]:
        """The same in as many turns as it takes: `wires` is below 0 while it is not known. given:
        the message as it came, by which it is known the next time."""
        way = self.way
        if way is None or way.message is not given:
            keys, headers = self._looked_into(route, message)
            way = self.way = Way(given, keys, headers)
        search = way.search
        search.go_on(MATCHED_AT_ONCE if self.wires == 0 else NO_BOUND)
        router = self.vhost.router
        router.search = search
        try:
            found = self._routed(route.exchange, way.keys, way.headers)
        finally:
            router.search = None
        if search.is_unfinished:
            self.wires = -1
            return []
        return found

    def _targets(self, route: Route, message: Message) -> list[QueueTarget]:
        """Where this very message goes, its headers looked into. Raises: see ContentRules."""
        keys, headers = self._looked_into(route, message)
        return self._routed(route.exchange, keys, headers)

    def _looked_into(self, route: Route, message: Message) -> tuple[list[str], Table]:
        """The routing keys of `message` and its headers. Raises: see ContentRules."""
        keys = [route.address.routing_key]
        headers: Table = {}
        if (message.raw[19] & FLAG_HEADERS) != 0:
            keys = self.rules.routing_keys(message, route.address.routing_key)
            self._check_copies(route, keys)
            headers = self.rules.headers(message)
            self.work += message.header_bytes // HEADER_BYTES_A_STEP
            if len(headers) > self.vhost.headers_max:
                raise ChannelFault(
                    406,
                    f"a message to exchange '{route.exchange.name}' has {len(headers)} headers, "
                    f"more than {self.vhost.headers_max} (message_headers)",
                    60,
                    40,
                )
        if self.vhost.router.property_exchanges > 0:
            headers = with_properties(message.header(), headers)
        return keys, headers

    def _routed(self, exchange: Exchange, keys: list[str], headers: Table) -> list[QueueTarget]:
        router = self.vhost.router
        before: i64 = router.work
        found = self.vhost.route(exchange, keys, headers)
        self.work += router.work - before
        return found

    def take_work(self) -> i64:
        """So many ordinary publishes would have taken the time of what was routed and copied."""
        found = self.work // WORK_OF_ONE
        self.work = 0
        return found

    def _check_copies(self, route: Route, keys: list[str]) -> None:
        """The keys of CC and BCC are as good as the routing key, and no way around rights."""
        rights = self.rules.rights
        if len(keys) > 1 and rights.has_topics():
            exchange = route.exchange
            for key in keys:
                rights.check_topic(WRITE, exchange.name, exchange.kind, key, 60, 40)

    def _lanes_of(self, targets: list[QueueTarget]) -> list[Lane]:
        """The hops to `targets`: only some when more have to be made than one turn allows, and
        `wires` is below 0 then. The share bounds how often a publish is routed before it goes."""
        lanes: list[Lane] = []
        if self.wires == 0:
            share: i64 = len(targets) // WIRED_SHARE
            self.wires = WIRED_AT_ONCE if share < WIRED_AT_ONCE else share
        for target in targets:
            lane = self.lanes.get(target.name)
            if lane is None:
                self.wires -= 1
                if self.wires < 0:
                    return lanes
                lane = self._attach(target.actor)
            lanes.append(lane)
        if len(lanes) > 1 and not self.is_sharing:
            self.is_sharing = True
            for lane in self.lanes.values():
                lane.has_shared = True
        return lanes

    def _attach(self, actor: QueueActor) -> Lane:
        """The first publish of this channel to a queue wires a hop."""
        if self.lanes:
            self.parking.lot.share()
        identity = self.channel.identity
        gate = self.channel.gate
        opened = LaneOpened(self)
        if self.is_parking:
            gate = Gate(identity, self.channel.line.clock, opened)
        lane = Lane(identity, LAYER_CHANNEL, gate, actor, LAYER_QUEUE, self.account, self)
        opened.lane = lane
        lane.wants_answers = self.confirms is not None
        lane.has_shared = self.is_sharing
        if actor.durability is not None:
            lane.commands = actor.durability.commands(lane)
        self.strategy.wire(lane)
        if self.lanes is NO_LANES:
            self.lanes, self.actors = {}, {}
        self.lanes[actor.name] = lane
        self.actors[actor.name] = actor
        actor.attach(lane)
        return lane

    def next_bytes(self, lane: Lane) -> i64:
        line = self.parking.lines.get(lane)
        return 0 if line is None else line.next_bytes()

    def lane_opened(self, lane: Lane) -> None:
        """A hop to a queue has credit again."""
        if self.parking.lane_opened(lane) or self.is_waiting:
            self.channel.wake()

    def begin_confirms(self) -> None:
        """confirm.select, tx.select: publishes are numbered from 1 from now on."""
        if self.confirms is None:
            self.parking.lot.share()
            self.confirms = Confirms()
            for lane in self.lanes.values():
                lane.wants_answers = True

    def must_answer(self) -> None:
        """Some publishes can be confirmed: before the next send they are."""
        self.times.queued(self.channel.line.turn_ns)
        self.output.note_answering(self.answering)

    def tell_nobody(self) -> None:
        """The channel has ended, and nobody is told of confirms any more. The log of a cluster is
        still told of what is on its way to a store, which the client's node may send again."""
        if self.reference:
            self.unheard = self.confirms
        self.confirms = None

    def accepted(self, messages: list[Message], count: i64) -> None:
        confirms = self.unheard if self.confirms is None else self.confirms
        if confirms is not None:
            confirms.accept_all(messages, count)
            if confirms.is_dirty and confirms is self.confirms:
                self.must_answer()

    def written(self, messages: list[Message], publishes: WholePublishes) -> None:
        confirms = self.unheard if self.confirms is None else self.confirms
        if self.reference and confirms is not None:
            publishes.add(self.reference, confirms, messages)

    def timed(self, queued_ns: i64, joined_ns: i64, sent_ns: i64, done_ns: i64) -> None:
        self.times.synced(queued_ns, joined_ns, sent_ns, done_ns)

    def refused(self, messages: list[Message]) -> None:
        self.lost([message.sequence for message in messages if message.sequence >= 0])

    def lost(self, sequences: list[int]) -> None:
        confirms = self.confirms
        if confirms is not None and sequences:
            for sequence in sequences:
                confirms.refuse(sequence)
            self.must_answer()

    def receiver_gone(self, lane: Lane) -> None:
        """A queue was deleted: its hop is forgotten; what waits for it may go on."""
        actor = lane.receiving
        assert isinstance(actor, QueueActor), "the hops of a channel lead to queues"
        if self.lanes.get(actor.name) is not lane:
            return
        self.parking.lane_opened(lane)
        if self.is_parking:
            lane.sender_gate.observer = NOBODY
        del self.lanes[actor.name]
        del self.actors[actor.name]
        self.forget_routes()
        self.channel.wake()

    def forget_routes(self) -> None:
        """They are looked up anew, and so are rights."""
        self.cache.clear()
        self.last_route = None

    def close(self) -> None:
        """The channel ends: queues take what they were handed or was parked, hops are unwired. A
        line that has something on the disk goes on as before; see `end_rest`."""
        self.finish_spread()
        self.way = None
        parking = self.parking
        lines = parking.lines
        for lane, line in list(lines.items()):
            if not line.pieces:
                self.force_line(lane)
        for name, lane in list(self.lanes.items()):
            if lane not in lines:
                self._unwire(self.actors.pop(name), lane)
                del self.lanes[name]
        self.forget_routes()
        if lines:
            parking.lot.node.rests[self.channel] = None

    def end_rest(self) -> None:
        """All that was parked when the channel ended has gone on."""
        self.parking.lot.node.rests.pop(self.channel, None)
        for name, lane in self.lanes.items():
            self._unwire(self.actors[name], lane)
        self.lanes.clear()
        self.actors.clear()

    def _unwire(self, actor: QueueActor, lane: Lane) -> None:
        actor.detach(lane)
        if self.is_parking:
            lane.sender_gate.observer = NOBODY

    def let_go(self) -> None:
        """The channel has ended and nothing is left to do: nothing leads back to it."""
        self.is_waiting = False
        self.caused_by = None
        del self.channel


def with_consumers(lanes: list[Lane]) -> list[Lane]:
    """Those of `lanes` whose queue could give one more message to a consumer at once."""
    return [lane for lane in lanes if lane.receiving.has_idle_consumer()]


def is_delaying(lanes: list[Lane]) -> bool:
    """Whether a publish goes to delayed message exchanges only, so that nobody can say yet where it
    will end."""
    for lane in lanes:
        if not lane.receiving.delays:
            return False
    return len(lanes) > 0
