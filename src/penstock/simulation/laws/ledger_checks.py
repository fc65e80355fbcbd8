"""The laws of the ledger, of dead letters and of streams, asserted between any two turns.

double entry   debt of a page = what lanes hold and sockets have not taken of it    (law 2)
storage        stored bytes of all pages = bytes in all queues and unanswered       (law 2)
sharing        of a message in several queues all but one are what its page shares
sums           a limited page knows the debt below it
levels         a page is held only above its low mark, and at the latest above its high mark;
               every owner of debt is held by every held page above it
bound          work in lanes of one connection <= about its high mark times its largest
               fan-out                                                              (law 5)
pages          a page that is closed has something left, or is not listed any more
dead letters   travel on lanes between queues, charged to the cause of each; those that wait
               rest in the queue where they died
streams        hops add up, cursors stay within their stream
"""

from collections.abc import Iterator

from penstock.base.cause import Cause
from penstock.broker.actors.lane import Lane
from penstock.broker.admin.view_queues import memory_of
from penstock.broker.broker import Broker
from penstock.broker.channel.channel import Ending
from penstock.broker.connection.connection import Connection
from penstock.broker.dead_letter.dead_letters import (
    Carrier,
    DeadLane,
    DeadLetter,
    DeadLetters,
    LaneAnswers,
    dead_letters_of,
)
from penstock.broker.queue.classic_actor import Forgetting
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.store.write_request import WriteRequest
from penstock.broker.stream.stream_actor import StreamActor
from penstock.broker.stream.stream_store import StreamStore
from penstock.flow.account import REASON, Account
from penstock.protocol.content import SHARED_BYTES, Message, SharedMessage
from penstock.queues.consumers import Delivery
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.ring import unpacked
from penstock.simulation.laws.parking_laws import rests_of
from penstock.simulation.laws.watch import channels_of, queues_of, unanswered
from penstock.simulation.machine.durable_disks import check_requests
from penstock.simulation.machine.faults import LawBroken


def letters_to(queue: QueueActor) -> Iterator[tuple[Cause, int]]:
    """Cause and size of every letter that `queue` has not answered for."""
    for lane in queue.lanes:
        if isinstance(lane, DeadLane):
            for message in lane.under_way:
                yield message.origin, len(message.raw)


def letters_unsafe(request: WriteRequest) -> Iterator[tuple[Cause, int]]:
    """Cause and size of every letter in `request`, whose queue is gone, that has no answer yet."""
    answers = request.answerable
    lane = answers.lane if isinstance(answers, LaneAnswers) else None
    if lane is not None and not lane.receiving.is_alive:
        for message in request.messages:
            if message in lane.under_way:
                yield message.origin, len(message.raw)


def held_by(letters: DeadLetters) -> list[DeadLetter]:
    """Everything that rests in the queue where it died."""
    found = [*letters.late, *letters.stuck]
    for lane in letters.lanes.values():
        for letter in [*lane.under_way.values(), *lane.kept]:
            if letter.is_held and letter not in found:
                found.append(letter)
    return found


def letters_stored(queue: QueueActor) -> Iterator[tuple[Cause, int]]:
    """Cause and bytes of every letter that is charged as stored: those on their way to `queue`,
    and those that died in it and rest there. Raises: LawBroken."""
    for lane in queue.lanes:
        if isinstance(lane, DeadLane):
            # What the queue has taken is among its messages, although it may wait for the disk.
            for message in lane.items[int(lane.head) :]:
                yield message.origin, len(message.raw) + MESSAGE_OVERHEAD_BYTES
    letters = dead_letters_of(queue)
    if letters is not None:
        held = held_by(letters)
        held_bytes = sum(int(letter.size) for letter in held)
        if held_bytes != letters.held_bytes:
            raise LawBroken(
                f"{queue.identity}: letters of {held_bytes} bytes rest, {letters.held_bytes} known"
            )
        if letters.window and letters.count > letters.window:
            raise LawBroken(f"{queue.identity}: {letters.count} letters, window {letters.window}")
        for letter in held:
            yield letter.message.origin, int(letter.size)


def is_waiting_for_letters(queue: QueueActor) -> bool:
    """Whether its first message is dead and there is no room for its letter, so that consumers are
    given nothing until there is."""
    letters = dead_letters_of(queue)
    return letters is not None and letters.is_asked and letters.is_stalled()


def check_streams(store: StreamStore) -> None:
    """One virtual host's. What is in flight is in requests; nothing unsafe is given to anybody.

    Raises: LawBroken."""
    requests = store.requests()
    for lane in store.lanes.values():
        check_requests(lane, requests)
        log = lane.log
        coming = sum(int(request.count) for request in lane.items)
        if coming != log.coming:
            raise LawBroken(f"{lane.name}: {coming} messages are coming, {log.coming} counted")
        if not log.first() <= log.committed <= log.next:
            raise LawBroken(f"{lane.name}: {log.first()}..{log.committed}..{log.next}")
        if isinstance(lane.queue, StreamActor):
            _check_cursors(lane.queue)


def _check_cursors(stream: StreamActor) -> None:
    name = stream.identity
    if set(stream.cursors) != set(stream.consumers):
        raise LawBroken(f"{name}: {len(stream.cursors)} cursors of {len(stream.consumers)}")
    unacked = sum(int(consumer.unacked) for consumer in stream.consumers)
    if unacked > stream.unacked_count:
        raise LawBroken(f"{name}: {stream.unacked_count} unacknowledged, consumers say {unacked}")
    log = stream.counts.log
    for cursor in stream.cursors.values():
        chunk = cursor.chunk
        if chunk is not None and log is not None and chunk.next() > log.committed:
            raise LawBroken(f"{name}: '{cursor.consumer.tag}' is given what is not safe")
        if cursor.is_ended:
            raise LawBroken(f"{name}: '{cursor.consumer.tag}' has ended and is served")


def forgotten(broker: Broker) -> list[Forgetting]:
    """What queues had that were purged or have ended, and memory still has."""
    return [one for one in broker.cleanup.errands if isinstance(one, Forgetting)]


def unsettled(broker: Broker) -> list[Delivery]:
    """What channels that have ended had not settled."""
    ends = [one for one in broker.cleanup.errands if isinstance(one, Ending)]
    return [delivery for one in ends for delivery in one.settling.left]


def uncommitted(queue: QueueActor) -> list[Message]:
    """What a quorum queue has taken and its store has not answered for."""
    return [] if queue.uncommitted is None else queue.uncommitted.every()


def check_uncommitted(queue: QueueActor) -> int:
    """What it counts is what its batches have, and views have it in memory; its bytes.

    Raises: LawBroken."""
    waiting = queue.uncommitted
    if waiting is None:
        return 0
    found = uncommitted(queue)
    held = sum(len(one.raw) + MESSAGE_OVERHEAD_BYTES for one in found)
    if (waiting.count, waiting.bytes) != (len(found), held):
        raise LawBroken(
            f"{queue.identity}: {waiting.count} messages of {waiting.bytes} bytes wait for the "
            f"store, its batches have {len(found)} of {held}"
        )
    if not 0 <= waiting.due <= len(waiting.batches):
        raise LawBroken(f"{queue.identity}: {waiting.due} of {len(waiting.batches)} are due")
    shown = memory_of(queue)
    if shown > queue.messages.bytes_ready + queue.unacked_bytes + held or (held and not shown):
        raise LawBroken(f"{queue.identity}: views have {shown} bytes, {held} wait for the store")
    return held


class LedgerLaws:
    """Keeps the largest message seen, which a bound in bytes is exceeded by at most."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.largest_bytes = 0
        self._bounds: dict[Account, tuple[int, int]] = {}

    def check_step(self) -> None:
        """Everything that holds between any two turns. Raises: LawBroken."""
        debts: dict[Cause, list[int]] = {}
        waiting_bytes = 0
        for connection in self.broker.connections.values():
            waiting_bytes += self._check_connection(connection, debts)
        for channel in rests_of(self.broker):
            for lane in channel.publisher.lanes.values():
                self._measure(lane)
                add(debts, lane.origin, int(lane.in_flight), int(lane.in_flight_bytes))
        for queue in queues_of(self.broker):
            for cause, size in letters_to(queue):
                add(debts, cause, 1, size)
        for store in self.broker.stores.by_name.values():
            for request in store.requests():
                # Letters are charged to their own causes, one by one.
                if isinstance(request.origin, Carrier):
                    for cause, size in letters_unsafe(request):
                        add(debts, cause, 1, size)
                else:
                    add(debts, request.origin, int(request.count), int(request.bytes))
        for streams in self.broker.streams.stores.values():
            for one in streams.requests():
                add(debts, one.origin, int(one.count), int(one.bytes))
        pages: list[Account] = []
        collect(self.broker.node_account, pages)
        messages = bytes_ = stored_bytes = 0
        for page in pages:
            debt = debts.pop(page, None) or [0, 0]
            if page.debt_messages != debt[0] or page.debt_bytes != debt[1]:
                raise LawBroken(
                    f"{page.name} owes {page.debt_messages} messages, {page.debt_bytes} bytes, "
                    f"but lanes and sockets hold {debt[0]} and {debt[1]} of it"
                )
            messages += debt[0]
            bytes_ += debt[1]
            stored_bytes += int(page.stored_bytes)
            check_page(page)
        for cause, held in debts.items():
            if held[0]:
                raise LawBroken(f"{cause.name} owes {held[0]} messages and is not in the ledger")
        for queue in queues_of(self.broker):
            waiting_bytes += int(queue.messages.bytes_ready)
            waiting_bytes += check_uncommitted(queue)
            waiting_bytes += sum(size for _, size in letters_stored(queue))
        waiting_bytes += sum(int(one.purged.bytes) for one in forgotten(self.broker))
        for delivery in unsettled(self.broker):
            waiting_bytes += len(delivery.message.raw) + MESSAGE_OVERHEAD_BYTES
        if stored_bytes != waiting_bytes:
            raise LawBroken(
                f"the ledger has {stored_bytes} bytes stored, but {waiting_bytes} are in queues"
            )

    def check_origins(self) -> None:
        """Every stored message is on the page of who published it, and what several queues share is
        known there. Raises: LawBroken."""
        stored: dict[Cause, list[int]] = {}
        holders: dict[SharedMessage, int] = {}
        for queue in queues_of(self.broker):
            for message in [*queue.messages.ready_messages(), *uncommitted(queue)]:
                add(stored, message.origin, 1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
                if isinstance(message, SharedMessage):
                    holders[message] = holders.get(message, 0) + 1
            for lane in queue.lanes:
                if isinstance(lane, DeadLane):
                    for message in lane.items[int(lane.head) :]:
                        if isinstance(message, SharedMessage):
                            holders[message] = holders.get(message, 0) + 1
            letters = dead_letters_of(queue)
            for letter in [] if letters is None else held_by(letters):
                if isinstance(letter.message, SharedMessage):
                    holders[letter.message] = holders.get(letter.message, 0) + 1
            for cause, size in letters_stored(queue):
                add(stored, cause, 1, size)
        left = [delivery.message for delivery in unsettled(self.broker)]
        for gone in forgotten(self.broker):
            left += [one for some in gone.purged.messages for one in unpacked(some)]
            left += [one.message for some in gone.purged.entries for one in some]
        for message in left:
            add(stored, message.origin, 1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
            if isinstance(message, SharedMessage):
                holders[message] = holders.get(message, 0) + 1
        for channel in channels_of(self.broker):
            for delivery in unanswered(channel):
                message = delivery.message
                add(stored, message.origin, 1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
                if isinstance(message, SharedMessage):
                    holders[message] = holders.get(message, 0) + 1
        shared: dict[Cause, int] = {}
        for message, count in holders.items():
            # What was read from the disk is one queue's own.
            if message.holders > 0 and message.holders != count:
                raise LawBroken(f"{count} queues hold a message that knows of {message.holders}")
            size = len(message.raw) + SHARED_BYTES
            shared[message.origin] = shared.get(message.origin, 0) + (count - 1) * size
        pages: list[Account] = []
        collect(self.broker.node_account, pages)
        for page in pages:
            if page.shared_bytes != shared.get(page, 0):
                raise LawBroken(
                    f"{page.name} shares {page.shared_bytes} bytes, queues {shared.get(page, 0)}"
                )
            held = stored.pop(page, None) or [0, 0]
            if page.stored_messages != held[0] or page.stored_bytes != held[1]:
                raise LawBroken(
                    f"{page.name} has {page.stored_messages} messages, {page.stored_bytes} bytes "
                    f"stored, but queues hold {held[0]} and {held[1]} of it"
                )
        if stored:
            raise LawBroken(f"messages of {next(iter(stored)).name} are on no page")

    def _check_connection(self, connection: Connection, debts: dict[Cause, list[int]]) -> int:
        """Adds up what lanes and the socket hold; the bytes of unanswered deliveries."""
        unanswered_bytes = 0
        messages = bytes_ = slack = 0
        widest = 1
        is_bounded = not connection.account.is_lenient
        for channel in connection.channels.values():
            publisher = channel.publisher
            lanes = [] if publisher is None else list(publisher.lanes.values())
            widest = max(widest, len(lanes))
            if channel.upstream is not None:
                lanes.append(channel.upstream)
            for lane in lanes:
                self._measure(lane)
                add(debts, lane.origin, int(lane.in_flight), int(lane.in_flight_bytes))
                messages += int(lane.in_flight)
                bytes_ += int(lane.in_flight_bytes)
            # One publish held beside the channel and one parked in it may still go on.
            slack += 2
            is_bounded = is_bounded and channel.escapes == 0 and channel.transaction is None
            for delivery in unanswered(channel):
                unanswered_bytes += len(delivery.message.raw) + MESSAGE_OVERHEAD_BYTES
        owed = connection.output
        if owed.run_messages:
            raise LawBroken(f"{connection.identity}: {owed.run_messages} deliveries not charged")
        charged = 0
        for run in owed.runs:
            add(debts, run.origin, int(run.messages), int(run.bytes_))
            charged += int(run.bytes_)
        if charged != owed.charged_bytes:
            raise LawBroken(f"{connection.identity}: {charged} bytes owed, {owed.charged_bytes}")
        if is_bounded:
            self._check_bound(connection.account, messages, bytes_, slack, widest)
        return unanswered_bytes

    def _measure(self, lane: Lane) -> None:
        for message in lane.items[int(lane.head) :]:
            self.largest_bytes = max(self.largest_bytes, len(message.raw))

    def _check_bound(
        self, account: Account, messages: int, bytes_: int, slack: int, widest: int
    ) -> None:
        """Law 5. slack: messages admitted although the page is held; widest: largest fan-out."""
        most = (int(account.high_messages) + 1 + slack) * widest
        most_bytes = (int(account.high_bytes) + (1 + slack) * self.largest_bytes) * widest
        # A limit that is lowered takes nothing back: what is under way was let in by the old one.
        before = self._bounds.get(account, (0, 0))
        most = max(most, before[0]) if messages > most else most
        most_bytes = max(most_bytes, before[1]) if bytes_ > most_bytes else most_bytes
        self._bounds[account] = (most, most_bytes)
        if account.high_messages > 0 and messages > most:
            raise LawBroken(f"{account.name} has {messages} messages in lanes, bound {most}")
        if account.high_bytes > 0 and bytes_ > most_bytes:
            raise LawBroken(f"{account.name} has {bytes_} bytes in lanes, bound {most_bytes}")


def add(sums: dict[Cause, list[int]], cause: Cause, messages: int, bytes_: int) -> None:
    """Add to a sum of [messages, bytes]."""
    held = sums.get(cause)
    if held is None:
        sums[cause] = [messages, bytes_]
    else:
        held[0] += messages
        held[1] += bytes_


def collect(page: Account, pages: list[Account]) -> None:
    """`page` and all pages below it."""
    pages.append(page)
    for child in page.children.values():
        collect(child, pages)


def check_page(page: Account) -> None:
    """One page in itself and with those above it. Raises: LawBroken."""
    is_parked = page.parked_messages > 0 or page.parked_bytes > 0 or page.parked_disk_bytes > 0
    is_stored = page.stored_messages > 0 or page.stored_bytes > 0
    is_empty = page.owes_nothing() and not is_stored and not is_parked
    if page.is_closed and is_empty and not page.children:
        raise LawBroken(f"{page.name} is closed, has nothing left, and is still listed")
    messages, bytes_ = int(page.debt_messages), int(page.debt_bytes)
    if page.is_limited:
        messages, bytes_ = page.total_messages(), page.total_bytes()
        known = (page.debt_messages + page.below_messages, page.debt_bytes + page.below_bytes)
        if known != (messages, bytes_):
            raise LawBroken(f"{page.name} owes {messages}, {bytes_}; it believes {known}")
    is_high = 0 < page.high_messages < messages or 0 < page.high_bytes < bytes_
    is_low = (page.high_messages == 0 or messages <= page.low_messages) and (
        page.high_bytes == 0 or bytes_ <= page.low_bytes
    )
    if (page.is_held and is_low) or (is_high and not page.is_held and not page.is_lenient):
        raise LawBroken(f"{page.name}: held {page.is_held} at {messages} messages, {bytes_} bytes")
    gate = page.gate
    if gate is None:
        return
    holders = {page.name} if page.is_held else set()
    above = page.parent
    while above is not None:
        if above.is_held and not page.owes_nothing():
            holders.add(above.name)
        above = above.parent
    found = {peer for peer, reason in gate.reasons if reason == REASON}
    # What was let on once is held again with its next charge.
    if found != holders and not (page.is_let_on and found < holders):
        raise LawBroken(f"{page.name} is held by {sorted(found)}, not by {sorted(holders)}")
