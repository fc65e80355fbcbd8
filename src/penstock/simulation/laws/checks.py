"""The laws of architecture section 5, asserted over a broker between any two turns.

    conservation   every hop's books add up, in both dimensions             (law 1)
    mailboxes      in flight = what lies in the mailbox, message by message (law 2)
    the ledger     see simulation/laws/ledger_checks                             (laws 2, 5)
    bounds         messages in flight within the window, plus what upstream admits (laws 3, 4);
                   looser on a channel that was ever forced; bytes are not bounded here
    room           what a queue holds and what is on its way, against its mark: room_law
    levels         a hop is closed exactly while its balance is spent; a gate is open exactly
                   while no reason is given; grants are kept only in closed gates
    deliveries     unacknowledged counts agree everywhere; no consumer is above a prefetch
    time           idle + busy + blocked + waiting = time since the actor came up; whoever is held
                   has it on record                                         (law 10)
Which is which of the nine invariants of flow control in the design's reliability page:

    C1 conservation  check_lane, at every look: no grant is ever on its way, all is quiescent
    C2 bounded       check_lane: `bound`        C3 deferral  watch._edge; check_lane: `keeps`
    C4 peer death    watch; check_rest          C5 acked once  check_lane: mailbox = in flight;
                                                    watch.check_taken_in_order; books: once
    C6 liveness      watch: HELD_NS_MAX; check_wakeups; World.run: nothing ready, nothing scheduled
    C7 nothing hidden  hidden; ledger_checks    C8 independence  watch._held; books; clients
    C9 alarms        _check_alarms; watch._alarmed; clients: blocked and unblocked alternate
The functions only read. Raises: LawBroken naming the actor and the numbers.
"""

from penstock.broker.actors.actor import Actor
from penstock.broker.actors.lane import Lane
from penstock.broker.alarm.alarm_manager import MODE_ALL
from penstock.broker.broker import Broker
from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.broker.connection.phases import PHASE_OPEN
from penstock.broker.dead_letter.dead_letters import DeadLane
from penstock.broker.queue.queue_actor import QueueActor
from penstock.flow.gate import Gate
from penstock.queues.consumers import Consumer, Delivery
from penstock.queues.hold_reasons import REASON_STANDBY
from penstock.simulation.laws.ledger_checks import LedgerLaws, check_streams, is_waiting_for_letters
from penstock.simulation.laws.parking_laws import (
    check_lots,
    check_parking,
    files_bytes,
    lines_bytes,
    sequences_of,
)
from penstock.simulation.laws.room_law import RoomLaws
from penstock.simulation.laws.watch import Watch, channels_of, queues_of, unanswered
from penstock.simulation.machine.clock import VirtualClock
from penstock.simulation.machine.durable_disks import check_store
from penstock.simulation.machine.faults import LawBroken

FEW_PARKED = 200
LOOKS = 64
"""More than a few parked ones are looked at one by one once in so many looks."""


def check(condition: bool, text: str) -> None:
    """Raises: LawBroken with `text` unless `condition`."""
    if not condition:
        raise LawBroken(text)


class Laws:
    """The laws over one broker. Keeps only when each actor came up, to check its time.

    ringing: the alarms that the world has set and not cleared, as the broker names them; None
    until actions are told of the first;

    clock: looked at without a tick, so that how often is checked changes nothing in a run."""

    def __init__(self, broker: Broker, clock: VirtualClock) -> None:
        self.broker = broker
        self.clock = clock
        self._up_at_ns: dict[str, tuple[Actor, int]] = {}
        self._ledger = LedgerLaws(broker)
        self.ringing: set[str] | None = None
        self._watch = Watch(broker)
        self.rooms = RoomLaws(broker)
        self._bounds: dict[Lane, int] = {}
        self._looks = 0
        self._lot_bytes_max = int(broker.parking.lot_bytes_max)

    def check_step(self) -> None:
        """Everything that holds between any two turns. Raises: LawBroken."""
        broker = self.broker
        now_ns = self.clock.now_ns
        self._looks += 1
        for connection in list(broker.connections.values()):
            self._check_connection(connection, now_ns)
        if self._looks % LOOKS == 0:
            self._lot_bytes_max = max(self._lot_bytes_max, int(broker.parking.lot_bytes_max))
            check_lots(broker, self._lot_bytes_max)
        for queue in queues_of(broker):
            self._check_queue(queue, now_ns)
        for store in broker.stores.by_name.values():
            check_store(store)
        for streams in broker.streams.stores.values():
            check_streams(streams)
        self._ledger.check_step()
        self._watch.look(now_ns)
        self.rooms.look()
        self._check_alarms()

    def check_rest(self) -> None:
        """No client is connected and nothing is under way: nothing may be left behind (law 8)."""
        broker = self.broker
        check(not broker.connections and not broker.negotiators, "connections are left behind")
        check(not broker.scheduler.ready, "actors are left in the line")
        check(broker.node_account.total_messages() == 0, "debt is left behind")
        check(broker.parking.bytes == 0, "parked publishes are left behind")
        check(not broker.parking.rests, "lines of ended channels are left behind")
        disk = broker.parking.disk
        if disk is not None:
            names = disk.directory.names()
            check(disk.bytes == 0 and not names, f"parked publishes are left on the disk: {names}")
        self._ledger.check_origins()
        for vhost in broker.vhosts.values():
            for queue in vhost.queues.values():
                name = queue.identity
                left = [lane for lane in queue.lanes if not isinstance(lane, DeadLane)]
                check(not left and not queue.pending, f"{name}: lanes are left behind")
                check(not queue.consumers and not queue.ready, f"{name}: consumers are left")
                check(queue.unacked_count == 0, f"{name}: {queue.unacked_count} unacknowledged")
                check(queue.unacked_bytes == 0, f"{name}: {queue.unacked_bytes} bytes unacked")
                check(not queue.gate.deferred, f"{name}: grants of the dead are kept")

    def check_wakeups(self) -> None:
        """Nothing is ready to run: no actor may have been forgotten. Raises: LawBroken."""
        for queue in queues_of(self.broker):
            queue_limits = queue.queue_limits
            is_full = queue_limits is not None and queue_limits.is_full
            is_held = is_full or not queue.may_take()
            check(is_held or not queue.pending, f"{queue.identity} sleeps on full lanes")
            if is_waiting_for_letters(queue):
                continue
            if queue.is_paused:
                continue
            for consumer in queue.consumers:
                reason = consumer.reason
                stands_by = consumer.is_ready and not queue.is_served(consumer)
                if queue.choice is not None and (stands_by or reason == REASON_STANDBY):
                    continue
                forgotten = consumer.room() > 0 and queue.has_more_for(consumer)
                consumer.reason = reason
                check(not forgotten, f"{queue.identity} sleeps with a ready consumer")
        self.rooms.check_line()
        for channel in channels_of(self.broker):
            check_channel_awake(channel)

    def _check_alarms(self) -> None:
        """C9: the alarms are those that ring, and everybody who is open knows them."""
        texts = self.broker.alarm_manager.texts
        if self.ringing is not None and texts.keys() != self.ringing:
            raise LawBroken(f"C9: {sorted(self.ringing)} ring, the broker knows {sorted(texts)}")
        if self.broker.alarm_manager.mode != MODE_ALL or self.broker.profile.broadcasts_flow:
            return
        for connection in self.broker.connections.values():
            if connection.phase == PHASE_OPEN and connection.alarms.keys() != texts.keys():
                raise LawBroken(f"C9: {connection.identity} knows {sorted(connection.alarms)}")

    # -- actors ----------------------------------------------------------------------------------

    def _check_connection(self, connection: Connection, now_ns: int) -> None:
        self._check_time(connection, now_ns)
        check_gate(connection.gate)
        lot = connection.lot
        is_counted = lot.messages <= FEW_PARKED or self._looks % LOOKS == 0
        parked = parked_messages = 0
        for channel in connection.channels.values():
            upstream = channel.upstream
            if upstream is None:
                raise LawBroken(f"{channel.identity} has no lane")
            self._check_time(channel, now_ns)
            check_gate(channel.gate)
            forced = 2 + int(upstream.window + channel.escapes) if channel.escapes > 0 else 0
            bound = self._bound(upstream, forced)
            check_lane(upstream, bound)
            if is_counted:
                check_parking(channel)
                waiting = channel.parking.entrance
                parked += sum(int(one.size) for one in waiting)
                parked_messages += len(waiting)
            publisher = channel.publisher
            for name, lane in publisher.lanes.items():
                admitted = 0 if connection.is_parking and not forced else bound + 3
                if channel.transaction is not None:
                    admitted = 1 << 40
                check_lane(lane, self._bound(lane, admitted))
                if lane not in publisher.actors[name].lanes:
                    raise LawBroken(f"{lane.name} is not wired")
            if is_counted:
                check_unconfirmed(channel)
            check_deliveries(channel)
        if is_counted:
            parked += lines_bytes(lot)
            parked_messages += sum(int(line.count()) for line in lot.lines.values())
        account = connection.account
        if lot.disk_bytes != account.parked_disk_bytes or lot.disk_bytes < files_bytes(lot):
            raise LawBroken(f"{connection.identity}: {lot.disk_bytes} bytes parked on the disk")
        counted = ((lot.messages, lot.bytes), (account.parked_messages, account.parked_bytes))
        if is_counted and any(one != (parked_messages, parked) for one in counted):
            found = f"{parked_messages} publishes of {parked} bytes"
            raise LawBroken(f"{connection.identity}: {found} are parked, counted {counted}")
        # A rate limit that holds is on record as long as it has a name, read on or not.
        rated = connection.rated
        limit = "" if rated is None else rated.payer.holder
        reasons = connection.gate.reasons
        is_held = connection.is_told_blocked or limit != ""
        is_held = is_held or any(reason != "rate" for _, reason in reasons)
        if limit == "" and any(reason == "rate" for _, reason in reasons):
            raise LawBroken(f"{connection.identity}: not read for a rate limit without a name")
        if connection.phase == PHASE_OPEN and connection.is_held() != is_held:
            raise LawBroken(f"{connection.identity}: held {is_held}, its record says otherwise")

    def _check_queue(self, queue: QueueActor, now_ns: int) -> None:
        self._check_time(queue, now_ns)
        check_gate(queue.gate)
        name = queue.identity
        messages = queue.messages
        unacked = 0
        for consumer in queue.consumers:
            unacked += int(consumer.unacked)
            check_place(queue, consumer)
            if 0 < consumer.prefetch < consumer.unacked:
                raise LawBroken(
                    f"{name}: {consumer.unacked} unacknowledged, prefetch {consumer.prefetch}"
                )
        if queue.unacked_count < unacked:
            raise LawBroken(f"{name}: fewer unacknowledged than its consumers")
        if messages.bytes_ready < 0 or queue.unacked_bytes < 0:
            raise LawBroken(f"{name}: bytes < 0")
        if messages.ready_count() == 0 and messages.bytes_ready != 0:
            raise LawBroken(f"{name}: bytes of nothing")
        is_on_record = any(reason == "depth" for _, reason in queue.gate.reasons)
        if queue.is_deep != is_on_record:
            raise LawBroken(f"{name}: deep {queue.is_deep}")
        is_full = queue.queue_limits is not None and queue.queue_limits.is_full
        if is_full != any(reason == "full" for _, reason in queue.gate.reasons):
            raise LawBroken(f"{name}: full {is_full}")
        if queue.choice is not None and queue.choice.is_single and len(queue.ready) > 1:
            raise LawBroken(f"{name}: {len(queue.ready)} active consumers, one is meant to be")
        if queue.is_held() == queue.gate.is_open:
            raise LawBroken(f"{name}: held {not queue.gate.is_open}, its record says otherwise")
        for kept in queue.gate.deferred:
            if kept not in queue.lanes:
                raise LawBroken(f"{name}: a grant to somebody who is gone is kept")
        for lane in queue.lanes:
            if lane.items and not lane.is_listed:
                raise LawBroken(f"{name}: {lane.name} is not in its list")

    def _bound(self, lane: Lane, admitted: int) -> int:
        """The window and what is `admitted` beyond it, or as much more as that was when what is
        still under way was handed over: a window that is narrowed takes nothing back."""
        bound = int(lane.window) + admitted
        if lane.in_flight > bound:
            bound = max(bound, self._bounds.get(lane, 0))
        self._bounds[lane] = bound
        return bound

    def _check_time(self, actor: Actor, now_ns: int) -> None:
        spent_ns = sum(actor.time.totals(now_ns))
        known = self._up_at_ns.get(actor.identity)
        if known is None or known[0] is not actor:
            self._up_at_ns[actor.identity] = (actor, now_ns - spent_ns)
            return
        if now_ns - spent_ns != known[1]:
            raise LawBroken(
                f"{actor.identity}: {now_ns - spent_ns - known[1]} ns are on no account"
            )


def check_lane(lane: Lane, bound: int) -> None:
    """One hop. `bound`: messages that may be in flight, if it has a window."""
    try:
        lane.check()
    except AssertionError as error:
        raise LawBroken(str(error)) from error
    count = size = 0
    if lane.items:
        waiting = lane.items[lane.head :]
        count = len(waiting)
        for message in waiting:
            size += len(message.raw)
    in_flight, window, balance = int(lane.in_flight), int(lane.window), int(lane.balance)
    if in_flight != count or lane.in_flight_bytes != size:
        raise LawBroken(
            f"{lane.name}: {in_flight} messages, {lane.in_flight_bytes} bytes are in flight, but "
            f"{count} and {size} lie in the mailbox"
        )
    if window > 0 and in_flight > bound:
        raise LawBroken(
            f"{lane.name}: {in_flight} in flight, the window is {window}, the bound {bound}"
        )
    spent = (window > 0 and balance <= 0) or (lane.window_bytes > 0 and lane.balance_bytes <= 0)
    spent = spent or lane.is_shut
    is_closed = lane.is_spent
    if is_closed != spent:
        raise LawBroken(f"{lane.name}: closed {is_closed}, spent {spent}")
    if is_closed != ((lane.receiver, "credit") in lane.sender_gate.reasons):
        raise LawBroken(f"{lane.name}: its sender's gate does not know: closed {is_closed}")
    keeps = lane.deferred != 0 or lane.deferred_bytes != 0
    if keeps and lane not in lane.receiver_gate.deferred:
        raise LawBroken(f"{lane.name}: {lane.deferred} messages of grants are kept by nobody")
    if window > 0 and lane.done > lane.more_after:
        raise LawBroken(f"{lane.name}: {lane.done} ungranted")


def check_place(queue: QueueActor, consumer: Consumer) -> None:
    """A consumer that may be given messages is in the ring, or stands by for a higher priority."""
    choice, is_in = queue.choice, consumer in queue.ready
    stands_by = choice is not None and choice.stands_by(consumer)
    if consumer.is_ready != (is_in or stands_by) or (is_in and stands_by):
        raise LawBroken(f"{queue.identity}: ring of consumers")
    if consumer.is_ready and queue.is_served(consumer) != is_in:
        raise LawBroken(f"{queue.identity}: {consumer.tag} is not of the priority that is served")


def check_gate(gate: Gate) -> None:
    """Open exactly while no reason is given; nothing is kept in an open gate."""
    if gate.is_open == bool(gate.reasons):
        raise LawBroken(f"{gate.name}: open {gate.is_open}")
    if gate.is_open and gate.deferred:
        raise LawBroken(f"{gate.name}: open, and keeps grants")


def check_unconfirmed(channel: Channel) -> None:
    """What still lies in a lane, or is parked, cannot have been confirmed."""
    publisher = channel.publisher
    if publisher.confirms is None:
        return
    confirms = publisher.confirms
    waiting = [message for lane in publisher.lanes.values() for message in lane.items]
    sequences = [int(one.sequence) for one in waiting]
    for line in channel.parking.lines.values():
        sequences.extend(sequences_of(line))
    for sequence in sequences:
        if sequence >= 0 and confirms.unanswered(sequence) <= 0:
            raise LawBroken(f"{channel.identity}: {sequence} is confirmed and in no queue yet")


def check_deliveries(channel: Channel) -> None:
    """The channel's counts of unanswered deliveries agree."""
    table, sink = channel.table, channel.sink
    deliveries = unanswered(channel)
    consumed = sum(one.consumer is not None for one in deliveries)
    if len(deliveries) != table.count or consumed != sink.unacked_count:
        raise LawBroken(
            f"{channel.identity}: {len(deliveries)} unanswered, counted as {table.count} and "
            f"{sink.unacked_count}"
        )
    for consumer in channel.consumers.values():
        check_unacked(consumer, channel, deliveries)
    if 0 < sink.prefetch < sink.unacked_count:
        raise LawBroken(f"{channel.identity}: over its limit")


def check_unacked(consumer: Consumer, channel: Channel, deliveries: list[Delivery]) -> None:
    """A consumer's window holds its unanswered deliveries, in messages and in bytes."""
    mine = [one for one in deliveries if one.consumer is consumer]
    count, size = len(mine), sum(int(one.message.body_bytes) for one in mine)
    if count != consumer.unacked or size != consumer.unacked_bytes:
        raise LawBroken(
            f"{channel.identity}: {consumer.tag} has {count} unanswered of {size} bytes, its "
            f"window holds {consumer.unacked} of {consumer.unacked_bytes}"
        )


def check_channel_awake(channel: Channel) -> None:
    """Nothing is ready to run: a channel with work must be held by a closed hop, and none of its
    consumers wait for room that they have."""
    sink = channel.sink
    is_idle = sink.has_room() and sink.prefetch_bytes == 0
    check(not (sink.waiting and is_idle), f"{channel.identity} has room, and consumers in line")
    upstream = channel.upstream
    if upstream is None:
        return
    has_work = len(upstream.items) > upstream.head or channel.inbox.has_method()
    check(
        not has_work or channel.is_stalled or len(channel.parking.entrance) > 0,
        f"{channel.identity} sleeps on work",
    )
    for lane in channel.parking.lines:
        line = channel.parking.lines[lane]
        is_held = lane.is_closed or channel.publisher.account.is_stopped() or not line.has_front()
        check(is_held, f"{lane.name} is open, and keeps what is parked for it")
