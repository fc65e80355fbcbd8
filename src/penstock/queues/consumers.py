"""A consumer of a queue: what it may still be given, and why it is given nothing just now.

    ready  <=>  prefetch left  and  unsent left  and  its channel and socket take more
The queue keeps ready consumers in a ring and serves one message to each in turn (5.3, 4.3).

A window that the consumers of a channel share goes round them. Who finds it full waits in a line of
the channel; when it has room the first of the line is given one message by its queue at once, and
goes to the end while there are more for it. Whoever is not in the line does not get past it.
"""

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.clock import Clock
from penstock.protocol.content import Message
from penstock.queues.hold_reasons import (
    REASON_CHANNEL_FLOW,
    REASON_CHANNEL_PREFETCH,
    REASON_NONE,
    REASON_PREFETCH,
    REASON_SOCKET,
    REASON_UNSENT,
)
from penstock.queues.queue import ClassicQueue

EVERYTHING: Final = 1 << 40


@mypyc_attr(allow_interpreted_subclasses=True)
class DeliverySink:
    """Where deliveries go: the consumer's channel. Nominal base.

    `prefetch`, `prefetch_bytes`: the channel-wide windows of basic.qos global=true, 0 for none;
    `unacked_*`: unanswered deliveries to all its consumers, and the bytes of their bodies;
    `waiting`: consumers that wait for room in these windows, each once, None before the first;
    `served`: the one whose turn it is just now."""

    __slots__ = (
        "is_flow_active",
        "is_output_open",
        "prefetch",
        "prefetch_bytes",
        "served",
        "unacked_bytes",
        "unacked_count",
        "waiting",
    )

    def __init__(self) -> None:
        self.is_flow_active = True
        self.is_output_open = True
        self.prefetch: i64 = 0
        self.prefetch_bytes: i64 = 0
        self.unacked_count: i64 = 0
        self.unacked_bytes: i64 = 0
        self.waiting: deque[Consumer] | None = None
        self.served: Consumer | None = None

    def has_room(self) -> bool:
        """Whether one of its consumers may be given a message, as far as they share."""
        if not self.is_flow_active or not self.is_output_open:
            return False
        if self.prefetch > 0 and self.unacked_count >= self.prefetch:
            return False
        return self.prefetch_bytes == 0 or self.unacked_bytes < self.prefetch_bytes

    def wait(self, consumer: "Consumer") -> None:
        """`consumer` waits for room, behind those that do already."""
        if consumer.is_waiting:
            return
        consumer.is_waiting = True
        if self.waiting is None:
            self.waiting = deque()
        self.waiting.append(consumer)

    def leave(self, consumer: "Consumer") -> None:
        """`consumer` ends, whether it waits or not."""
        if consumer.is_waiting and self.waiting is not None:
            consumer.is_waiting = False
            self.waiting.remove(consumer)

    def serve_waiting(self) -> None:
        """There may be room: give it to those that wait, in turn, one message each; more only to
        the last one, and to those that need not answer, which take nothing from the others."""
        waiting = self.waiting
        if not waiting:
            return
        if self.prefetch == 0 and self.prefetch_bytes == 0:
            self._let_go(waiting)
            return
        while waiting and self.has_room():
            consumer = waiting.popleft()
            consumer.is_waiting = False
            most: i64 = EVERYTHING if consumer.is_no_ack or not waiting else 1
            self.served = consumer
            given: i64 = consumer.queue.serve(consumer, most)
            self.served = None
            if given == 0 and consumer.is_waiting:
                # Its next message is too large for what is left: nobody overtakes it.
                waiting.remove(consumer)
                waiting.appendleft(consumer)
                return

    def _let_go(self, waiting: "deque[Consumer]") -> None:
        """Nothing is shared any more."""
        self.waiting = None
        for consumer in waiting:
            consumer.is_waiting = False
            consumer.queue.consumer_changed(consumer)

    def deliver(
        self, consumer: "Consumer", message: Message, position: i64, redelivered: bool
    ) -> None:
        raise NotImplementedError

    def deliver_run(self, consumer: "Consumer", messages: list[Message], position: i64) -> i64:
        """Give `consumer` the first of `messages`, never delivered before and from `position` on,
        as far as they can be written as they are and the output takes them; how many."""
        return 0

    def cancelled_by_broker(self, consumer: "Consumer") -> None:
        """The queue is gone; tell the client if it wants to know."""
        raise NotImplementedError


class Unsent:
    """Deliveries of one queue to one channel that the socket has not taken yet. limit: how many may
    be, `least` (limits.UNSENT_DELIVERIES) at first, doubled up to `most` whenever the socket takes
    so many at once, `least` when it does not. is_stuck: the limit was reached and the socket, asked
    since, did not take them: until then it is only the end of the turn that is waited for."""

    __slots__ = ("consumers", "count", "is_listed", "is_stuck", "least", "limit", "most")

    def __init__(self, least: int, most: int = 0) -> None:
        self.count: i64 = 0
        self.least: i64 = least
        self.limit: i64 = least
        self.most: i64 = most if most > least else least
        self.is_listed = False
        self.is_stuck = False
        self.consumers: dict[Consumer, None] = {}

    def taken(self) -> bool:
        """The socket has taken everything; whether the limit had been reached."""
        was_full = self.count >= self.limit
        self.count = 0
        self.is_stuck = False
        if was_full:
            self.limit = self.limit * 2 if self.limit * 2 < self.most else self.most
        return was_full

    def kept(self) -> bool:
        """The socket has not taken everything; whether the limit is reached, and was not before."""
        self.limit = self.least
        was_stuck = self.is_stuck
        self.is_stuck = was_stuck or self.count >= self.limit
        return self.is_stuck and not was_stuck


@mypyc_attr(allow_interpreted_subclasses=True)
class ConsumerQueue:
    """What consumers and settles call back: the queue that was read. Nominal base."""

    __slots__ = ()

    def consumer_changed(self, consumer: "Consumer") -> None:
        """The consumer may have become ready."""
        raise NotImplementedError

    def serve(self, consumer: "Consumer", most: i64) -> i64:
        """Give `consumer` up to `most` messages at once, as far as it has room; how many. When it
        could have more its turn ends, and it waits again; see DeliverySink."""
        raise NotImplementedError

    def shown(self, message: Message) -> Message:
        """What a client is to see of `message`, which was just taken, and had been delivered before
        or is an answer to basic.get."""
        return message

    def settle(self, delivery: "Delivery") -> None:
        """Acknowledged or thrown away: forget it."""
        raise NotImplementedError

    def settle_run(self, deliveries: "list[Delivery]", first: i64) -> i64:
        """Settle the delivery at `first`, which is of this queue, as acknowledged, and what follows
        it as far as that is cheaper together; the place behind."""
        self.settle(deliveries[first])
        return first + 1

    def check_verb(self, what: str, class_id: int, method_id: int) -> None:
        """Raise ConnectionFault 540 if this type of queue does not know the verb `what`."""

    def discard(self, delivery: "Delivery") -> None:
        """Rejected for good: it may have a dead-letter exchange to go to."""
        raise NotImplementedError

    def requeue(self, deliveries: "list[Delivery]") -> None:
        """Put them back where they were (AMQP 0-9-1 basic.reject; RabbitMQ's original position)."""
        raise NotImplementedError


class Consumer:
    """One basic.consume. prefetch: deliveries, 0 for unlimited; prefetch_bytes: of bodies, 0 for
    unlimited; priority: those of a higher one are served before it; holder: its connection's id;
    full_ns: how long it was held in all; answer_ns: how long of that its client took, from the last
    delivery to the first ack; given_count, given_ns: how often messages were ready for it then, and
    how long it took us until it had no room again; free_since_ns: when that began, else 0."""

    __slots__ = (
        "answer_ns",
        "arguments",
        "delivered",
        "free_since_ns",
        "full_ns",
        "given_count",
        "given_ns",
        "head",
        "head_bytes",
        "held_since_ns",
        "holder",
        "is_exclusive",
        "is_held",
        "is_no_ack",
        "is_ready",
        "is_waiting",
        "prefetch",
        "prefetch_bytes",
        "priority",
        "queue",
        "reason",
        "sink",
        "started_ns",
        "tag",
        "unacked",
        "unacked_bytes",
        "unsent",
    )

    def __init__(
        self,
        tag: str,
        queue: ConsumerQueue,
        sink: DeliverySink,
        unsent: Unsent,
        is_no_ack: bool,
        is_exclusive: bool,
        prefetch: int,
        arguments: dict[str, object],
    ) -> None:
        self.tag = tag
        self.queue = queue
        self.sink = sink
        self.unsent = unsent
        self.is_no_ack = is_no_ack
        self.is_exclusive = is_exclusive
        self.prefetch: i64 = prefetch
        self.arguments = arguments
        self.unacked: i64 = 0
        self.prefetch_bytes: i64 = 0
        self.priority: i64 = 0
        self.unacked_bytes: i64 = 0
        self.delivered: i64 = 0
        self.is_ready = False
        self.is_held = False
        self.is_waiting = False
        self.reason: i64 = REASON_NONE
        self.held_since_ns: i64 = 0
        self.full_ns: i64 = 0
        self.free_since_ns: i64 = 0
        self.answer_ns: i64 = 0
        self.given_ns: i64 = 0
        self.given_count: i64 = 0
        self.started_ns: i64 = 0
        self.holder = ""
        self.head = b""
        self.head_bytes: i64 = -1

    def free(self, now_ns: i64, heard_ns: i64, flushed_ns: i64, has_messages: bool) -> None:
        """It has room again, and its queue `has_messages` for it. heard_ns: when the loop saw that
        there is input; flushed_ns: when everything due had last been sent."""
        sent_ns: i64 = self.held_since_ns
        self.is_held = False
        self.full_ns += now_ns - sent_ns
        if sent_ns < flushed_ns <= heard_ns:
            sent_ns = flushed_ns
        if heard_ns < sent_ns:
            heard_ns = now_ns
        self.answer_ns += heard_ns - sent_ns
        if self.free_since_ns > 0:
            self.given_count += 1
            self.given_ns += sent_ns - self.free_since_ns
        self.free_since_ns = heard_ns if has_messages else 0

    def room(self) -> i64:
        """Deliveries it may be given now, 0..; sets `reason` when 0."""
        sink = self.sink
        if not sink.is_flow_active:
            self.reason = REASON_CHANNEL_FLOW
            return 0
        if not sink.is_output_open:
            self.reason = REASON_SOCKET
            return 0
        unsent = self.unsent
        room: i64 = unsent.limit - unsent.count
        if room <= 0:
            self.reason = REASON_UNSENT
            return 0
        if sink.waiting and sink.served is not self:
            self.reason = REASON_CHANNEL_PREFETCH
            return 0
        if sink.prefetch > 0:
            left: i64 = sink.prefetch - sink.unacked_count
            if left <= 0:
                self.reason = REASON_CHANNEL_PREFETCH
                return 0
            if left < room:
                room = left
        if self.prefetch > 0 and not self.is_no_ack:
            mine: i64 = self.prefetch - self.unacked
            if mine <= 0:
                self.reason = REASON_PREFETCH
                return 0
            if mine < room:
                room = mine
        if self.prefetch_bytes > 0 or sink.prefetch_bytes > 0:
            return self._room_in_bytes(room)
        self.reason = REASON_NONE
        return room

    def is_kept_waiting(self) -> bool:
        """Whether `reason`, why its room is 0, is not only that the broker has not sent yet."""
        return self.reason != REASON_NONE and (self.reason != REASON_UNSENT or self.unsent.is_stuck)

    def hold(self, clock: Clock) -> None:
        """Its room is 0, or too small: it waits, in line where others of its channel do too."""
        if self.reason == REASON_CHANNEL_PREFETCH:
            self.sink.wait(self)
        if not self.is_held and self.is_kept_waiting():
            self.is_held = True
            self.held_since_ns = clock.monotonic_ns()

    def _room_in_bytes(self, room: i64) -> i64:
        """With a window in bytes the next message's size decides, so one at a time; see `fits`."""
        sink = self.sink
        if sink.prefetch_bytes > 0 and sink.unacked_bytes >= sink.prefetch_bytes:
            self.reason = REASON_CHANNEL_PREFETCH
            return 0
        limit: i64 = self.prefetch_bytes
        if limit > 0 and not self.is_no_ack and self.unacked_bytes >= limit:
            self.reason = REASON_PREFETCH
            return 0
        self.reason = REASON_NONE
        return 1

    def fits(self, messages: ClassicQueue) -> bool:
        """Whether the first of `messages` may be given now by its size; sets `reason` if not. One
        always may when nothing is unanswered (AMQP 0-9-1 basic.qos prefetch-size), so whoever is
        held here has something to answer, which brings it back."""
        sink = self.sink
        limit: i64 = sink.prefetch_bytes
        if self.is_no_ack or (limit == 0 and self.prefetch_bytes == 0):
            return True
        if messages.ready_count() == 0:
            return True
        bytes_: i64 = messages.first_bytes()
        if limit > 0 and sink.unacked_count > 0 and sink.unacked_bytes + bytes_ > limit:
            self.reason = REASON_CHANNEL_PREFETCH
            return False
        limit = self.prefetch_bytes
        if limit > 0 and self.unacked > 0 and self.unacked_bytes + bytes_ > limit:
            self.reason = REASON_PREFETCH
            return False
        return True


@mypyc_attr(acyclic=True)
class Delivery:
    """One unanswered delivery. `position`: its place in the queue; `consumer` is None for
    basic.get; `given_ns`: when it was given, to the second, see unacked.Stamp. Kept from the
    garbage collector (acyclic): its channel forgets all of them when it closes."""

    __slots__ = ("consumer", "given_ns", "message", "position", "queue", "tag")

    def __init__(
        self,
        tag: i64,
        message: Message,
        queue: ConsumerQueue,
        consumer: Consumer | None,
        position: i64,
        given_ns: i64,
    ) -> None:
        self.tag: i64 = tag
        self.given_ns: i64 = given_ns
        self.message = message
        self.queue = queue
        self.consumer = consumer
        self.position: i64 = position
