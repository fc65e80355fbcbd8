"""The laws of architecture section 5, asserted over a broker between any two turns.

    conservation   every hop's books add up, in both dimensions             (law 1)
    mailboxes      in flight = what lies in the mailbox, message by message (law 2)
    double entry   an account's debt = what its lanes hold                  (law 2)
    bounds         messages in flight within the window, plus what upstream admits (laws 3, 4);
                   looser on a channel that was ever forced; bytes and accounts are not bounded here
    levels         a hop is closed exactly while its balance is spent; a gate is open exactly
                   while nobody gave a reason; grants are kept only in closed gates
    deliveries     unacknowledged counts agree everywhere; nobody is above a prefetch
    time           idle + busy + blocked + waiting = time since the actor came up; whoever is held
                   has it on record                                         (law 10)
The functions only read. Raises: LawBroken naming the actor and the numbers.
"""

from penstock.broker.actor import Actor
from penstock.broker.broker import Broker
from penstock.broker.channel import Channel
from penstock.broker.lane import Lane
from penstock.broker.queue_actor import QueueActor
from penstock.broker.reader import PHASE_OPEN, Connection
from penstock.flow.account import Account
from penstock.flow.gate import Gate
from penstock.simulation.clock import VirtualClock
from penstock.simulation.faults import LawBroken


def check(condition: bool, text: str) -> None:
    """Raises: LawBroken with `text` unless `condition`."""
    if not condition:
        raise LawBroken(text)


class Laws:
    """The laws over one broker. Keeps only when each actor came up, to check its time.

    clock: looked at without a tick, so that how often is checked changes nothing in a run."""

    def __init__(self, broker: Broker, clock: VirtualClock) -> None:
        self.broker = broker
        self.clock = clock
        self._up_at_ns: dict[str, tuple[Actor, int]] = {}

    def check_step(self) -> None:
        """Everything that holds between any two turns. Raises: LawBroken."""
        broker = self.broker
        now_ns = self.clock.now_ns
        debts: dict[Account, list[int]] = {}
        messages = bytes_ = 0
        for connection in list(broker.connections.values()):
            self._check_connection(connection, debts, now_ns)
            messages += int(connection.account.debt_messages)
            bytes_ += int(connection.account.debt_bytes)
        for vhost in broker.vhosts.values():
            for queue in vhost.queues.values():
                self._check_queue(queue, now_ns)
        for account, held in debts.items():
            check(
                [int(account.debt_messages), int(account.debt_bytes)] == held,
                f"{account.name} owes {account.debt_messages} messages, {account.debt_bytes} "
                f"bytes, but its lanes hold {held[0]} and {held[1]}",
            )
        node = broker.node_account
        check(
            node.total_messages() == messages and node.total_bytes() == bytes_,
            f"the ledger says {node.total_messages()} messages, the connections {messages}",
        )

    def check_rest(self) -> None:
        """Nobody is connected and nothing is under way: nothing may be left behind (law 8)."""
        broker = self.broker
        check(not broker.connections and not broker.negotiators, "connections are left behind")
        check(not broker.scheduler.ready, "actors are left in the line")
        check(broker.node_account.total_messages() == 0, "debt is left behind")
        check(not broker.node_account.children, "pages of the ledger are left behind")
        for vhost in broker.vhosts.values():
            check(not vhost.listeners, "listeners are left behind")
            for queue in vhost.queues.values():
                name = queue.identity
                check(not queue.lanes and not queue.pending, f"{name}: lanes are left behind")
                check(not queue.consumers and not queue.ready, f"{name}: consumers are left")
                check(queue.unacked_count == 0, f"{name}: {queue.unacked_count} unacknowledged")
                check(queue.unacked_bytes == 0, f"{name}: {queue.unacked_bytes} bytes unacked")
                check(not queue.gate.deferred, f"{name}: grants of the dead are kept")

    def check_wakeups(self) -> None:
        """Nothing is ready to run: nobody may have been forgotten. Raises: LawBroken."""
        for vhost in self.broker.vhosts.values():
            for queue in vhost.queues.values():
                check(not queue.pending, f"{queue.identity} sleeps on full lanes")
                for consumer in queue.consumers:
                    reason = consumer.reason
                    forgotten = consumer.room() > 0 and queue.messages.ready_count() > 0
                    consumer.reason = reason
                    check(not forgotten, f"{queue.identity} sleeps with a ready consumer")
        for connection in self.broker.connections.values():
            for channel in connection.channels.values():
                check_channel_awake(channel)

    # -- actors ----------------------------------------------------------------------------------

    def _check_connection(
        self, connection: Connection, debts: dict[Account, list[int]], now_ns: int
    ) -> None:
        self._check_time(connection, now_ns)
        check_gate(connection.gate)
        held = debts.setdefault(connection.account, [0, 0])
        parked = 0
        for channel in connection.channels.values():
            upstream = channel.upstream
            check(upstream is not None, f"{channel.identity} has no lane")
            assert upstream is not None, "checked just now"
            self._check_time(channel, now_ns)
            check_gate(channel.gate)
            forced = 2 + int(upstream.window) if channel.escapes > 0 else 0
            check_lane(upstream, forced)
            add(held, upstream)
            if channel.held is not None:
                parked += len(channel.held.raw)
            publisher = channel.publisher
            assert publisher is not None, "an open channel has a publisher"
            for name, lane in publisher.lanes.items():
                admitted = 0 if connection.is_parking and not forced else int(upstream.window) + 3
                check_lane(lane, admitted if channel.transaction is None else 1 << 40)
                check(lane in publisher.actors[name].lanes, f"{lane.name} is not wired")
                add(held, lane)
            check_unconfirmed(channel)
            check_deliveries(channel)
        check(connection.parked_bytes == parked, f"{connection.identity}: parked bytes are off")
        is_held = not connection.gate.is_open or connection.is_told_blocked
        if connection.phase == PHASE_OPEN:
            check(
                connection.ledger.is_blocked() == is_held,
                f"{connection.identity}: held {is_held}, its record says otherwise",
            )

    def _check_queue(self, queue: QueueActor, now_ns: int) -> None:
        self._check_time(queue, now_ns)
        check_gate(queue.gate)
        name = queue.identity
        unacked = sum(int(consumer.unacked) for consumer in queue.consumers)
        check(queue.unacked_count >= unacked, f"{name}: fewer unacknowledged than its consumers")
        check(queue.messages.bytes_ready >= 0 and queue.unacked_bytes >= 0, f"{name}: bytes < 0")
        check(
            (queue.messages.ready_count() > 0) or queue.messages.bytes_ready == 0, f"{name}: bytes"
        )
        is_on_record = any(reason == "depth" for _, reason, _ in queue.gate.snapshot())
        check(queue.is_deep == is_on_record, f"{name}: deep {queue.is_deep}")
        check(
            queue.ledger.is_blocked() == (not queue.gate.is_open),
            f"{name}: held {not queue.gate.is_open}, its record says otherwise",
        )
        for consumer in queue.consumers:
            check(consumer.is_ready == (consumer in queue.ready), f"{name}: ring of consumers")
            if consumer.prefetch > 0:
                check(
                    consumer.unacked <= consumer.prefetch,
                    f"{name}: {consumer.unacked} unacknowledged, prefetch {consumer.prefetch}",
                )
        for kept in queue.gate.deferred:
            check(kept in queue.lanes, f"{name}: a grant to somebody who is gone is kept")
        for lane in queue.lanes:
            check(lane.is_listed or not lane.items, f"{name}: {lane.name} is not in its list")

    def _check_time(self, actor: Actor, now_ns: int) -> None:
        spent_ns = sum(actor.time.totals(now_ns))
        known = self._up_at_ns.get(actor.identity)
        if known is None or known[0] is not actor:
            self._up_at_ns[actor.identity] = (actor, now_ns - spent_ns)
            return
        check(
            now_ns - spent_ns == known[1],
            f"{actor.identity}: {now_ns - spent_ns - known[1]} ns are on no account",
        )


def add(held: list[int], lane: Lane) -> None:
    """Add what `lane` holds to a sum of [messages, bytes]."""
    held[0] += int(lane.in_flight)
    held[1] += int(lane.in_flight_bytes)


def check_lane(lane: Lane, admitted: int) -> None:
    """One hop. `admitted`: messages that may be in flight beyond the window."""
    try:
        lane.check()
    except AssertionError as error:
        raise LawBroken(str(error)) from error
    waiting = lane.items[lane.head :]
    size = sum(len(message.raw) for message in waiting)
    check(
        lane.in_flight == len(waiting) and lane.in_flight_bytes == size,
        f"{lane.name}: {lane.in_flight} messages, {lane.in_flight_bytes} bytes are in flight, but "
        f"{len(waiting)} and {size} lie in the mailbox",
    )
    if lane.window > 0:
        check(
            lane.in_flight <= lane.window + admitted,
            f"{lane.name}: {lane.in_flight} in flight, the window is {lane.window}",
        )
    spent = (lane.window > 0 and lane.balance <= 0) or (
        lane.window_bytes > 0 and lane.balance_bytes <= 0
    )
    check(lane.is_closed == spent, f"{lane.name}: closed {lane.is_closed}, spent {spent}")
    check(
        lane.is_closed == ((lane.receiver, "credit") in lane.sender_gate.reasons),
        f"{lane.name}: its sender's gate does not know that it is closed {lane.is_closed}",
    )
    check(
        (lane.deferred == 0 and lane.deferred_bytes == 0) or lane in lane.receiver_gate.deferred,
        f"{lane.name}: {lane.deferred} messages of grants are kept by nobody",
    )
    check(lane.done <= lane.more_after or lane.window == 0, f"{lane.name}: {lane.done} ungranted")


def check_gate(gate: Gate) -> None:
    """Open exactly while nobody gave a reason; nothing is kept in an open gate."""
    check(gate.is_open == (not gate.reasons), f"{gate.name}: open {gate.is_open}")
    check(not gate.is_open or not gate.deferred, f"{gate.name}: open, and keeps grants")


def check_unconfirmed(channel: Channel) -> None:
    """What still lies in a lane, or is parked, cannot have been confirmed."""
    publisher = channel.publisher
    if publisher is None or publisher.confirms is None:
        return
    confirms = publisher.confirms
    waiting = [message for lane in publisher.lanes.values() for message in lane.items]
    if publisher.parked is not None:
        waiting.append(publisher.parked)
    for message in waiting:
        index = int(message.sequence - confirms.base)
        is_open = message.sequence == 0 or (index >= confirms.head and confirms.waiting[index] > 0)
        check(is_open, f"{channel.identity}: {message.sequence} is confirmed and in no queue yet")


def check_deliveries(channel: Channel) -> None:
    """The channel's counts of unanswered deliveries agree."""
    table = channel.table
    known = sum(1 for entry in table.entries[int(table.head) :] if entry is not None)
    check(
        known == table.count == channel.sink.unacked_count,
        f"{channel.identity}: {known} unanswered, counted as {table.count} and "
        f"{channel.sink.unacked_count}",
    )
    limit = channel.sink.prefetch
    check(limit == 0 or channel.sink.unacked_count <= limit, f"{channel.identity}: over its limit")


def check_channel_awake(channel: Channel) -> None:
    """Nothing is ready to run: a channel with work must be held by a closed hop."""
    publisher = channel.publisher
    upstream = channel.upstream
    if publisher is None or upstream is None:
        return
    has_work = len(upstream.items) > upstream.head or channel.inbox.has_method()
    check(
        not has_work or channel.is_stalled or channel.held is not None,
        f"{channel.identity} sleeps on work",
    )
    if publisher.parked is not None:
        closed = [lane for lane in publisher.lanes.values() if lane.is_closed]
        check(len(closed) > 0, f"{channel.identity} keeps a publish although every hop is open")
