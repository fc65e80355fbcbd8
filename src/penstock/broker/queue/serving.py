"""Which of a queue's consumers is given the next message, and what that changes in the books.

The ready ones stand in a ring and are served in rotation, in the queue's turn. Those that share a
window with others wait in the line of their channel instead when it is full, and are served from
there (queues/consumers); that is not always a turn of the queue, which is woken for the rest of it.
"""

from mypy_extensions import i64

from penstock.broker.actors.actor import Line
from penstock.broker.queue.depth import DepthMark
from penstock.flow.strategy import Strategy
from penstock.protocol.content import Message
from penstock.queues.choice import Choice
from penstock.queues.consumers import Consumer
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES


class ServingQueue(DepthMark):
    """consumers: in order of arrival; ready: those that can be given a message, served in rotation;
    choice: which of them are, None for all."""

    __slots__ = ("choice", "consumers", "cursor", "ready")

    def __init__(self, identity: str, strategy: Strategy, line: Line, depth_bytes: int) -> None:
        super().__init__(identity, strategy, line, depth_bytes)
        self.consumers: list[Consumer] = []
        self.ready: list[Consumer] = []
        self.cursor: i64 = 0
        self.choice: Choice | None = None

    def catch_up(self) -> None:
        """Somebody is about to look: take everything out of the lanes, at most their windows, and
        give away what a consumer can have, because it was not there to be seen then."""
        if self.ruling is not None:
            self.ruling.catch_up()
            return
        pending = self.pending
        self.pending = []
        for lane in pending:
            while self.take_lane(lane, len(lane.items)):
                pass
            lane.is_listed = False
        if self.ready:
            self.pump(self.messages.at_hand())
            self.line.charge_outputs()
        for lane in pending:
            self.repay_taken(lane)
        if pending:
            self.wake()

    def pump(self, budget: i64) -> None:
        """Give up to `budget` ready messages to ready consumers, one to each in turn."""
        messages = self.messages
        left: i64 = messages.at_hand()
        if left > budget:
            left = budget
        while left > 0 and self.ready:
            if len(self.ready) == 1:
                consumer = self.ready[0]
                room: i64 = consumer.room()
                if room > left:
                    room = left
                if not consumer.fits(messages):
                    room = 0
                sink = consumer.sink
                while room > 0 and sink.is_output_open:
                    self._give(consumer)
                    room -= 1
                    left -= 1
                if consumer.room() == 0 or not consumer.fits(messages):
                    self._hold(consumer)
                continue
            if self.cursor >= len(self.ready):
                self.cursor = 0
            consumer = self.ready[self.cursor]
            if consumer.room() == 0 or not consumer.fits(messages):
                self._hold(consumer)
                continue
            self._give(consumer)
            left -= 1
            self.cursor += 1

    def _give(self, consumer: Consumer) -> None:
        message = self.messages.take()
        consumer.delivered += 1
        consumer.unsent.count += 1
        if consumer.is_no_ack:
            self.messages.ack_count += 1
            size: i64 = len(message.raw)
            message.origin.unstore(1, size + MESSAGE_OVERHEAD_BYTES)
            if message.stored is not None:
                self.forget(message)
            if self.ruling is not None:
                self.messages.settled(self.messages.position)
        else:
            consumer.unacked += 1
            consumer.unacked_bytes += message.body_bytes
            self.unacked_count += 1
            self.unacked_bytes += len(message.raw)
        consumer.sink.deliver(consumer, message, self.messages.position, self.messages.redelivered)

    def serve(self, consumer: Consumer, most: i64) -> i64:
        """Its channel has room, and it is the turn of `consumer`: give it up to `most` messages;
        how many. If there are more for it, it waits again."""
        if self.choice is not None and not self.choice.is_single and self._has_one():
            consumer = self._preferred(consumer)
        self.offer(consumer)
        messages = self.messages
        given: i64 = 0
        while given < most and consumer.is_ready and consumer.room() > 0 and self._has_one():
            if not consumer.fits(messages):
                break
            self._give(consumer)
            given += 1
        if given > 0:
            self.line.charge_outputs()
        consumer.sink.served = None
        if not consumer.is_ready or messages.ready_count() == 0:
            return given
        # One that was given nothing, though there is room, waits for the disk and not in line.
        if not consumer.fits(messages) or (given > 0 and consumer.room() == 0):
            self._hold(consumer)
        return given

    def _preferred(self, consumer: Consumer) -> Consumer:
        """Who gets the turn of `consumer`: one of a higher priority that waits in the same line and
        can be given a message; `consumer` waits again, then."""
        sink = consumer.sink
        best = consumer
        for other in self.consumers:
            if other.is_waiting and other.sink is sink and other.priority > best.priority:
                sink.served = other
                if other.room() > 0 and other.fits(self.messages):
                    best = other
        sink.served = best
        if best is not consumer:
            sink.leave(best)
            sink.wait(consumer)
        return best

    def _has_one(self) -> bool:
        """Whether the first message can be given away now."""
        if self.ruling is not None and not self.ruling.may_get():
            return False
        return self.messages.at_hand() > 0

    def _hold(self, consumer: Consumer) -> None:
        """Take `consumer` out of the ready ring, because its room is 0."""
        consumer.is_ready = False
        self.ready.remove(consumer)
        consumer.hold(self.line.clock)
        if self.choice is not None and not self.ready:
            self._promote(self.choice)

    def _promote(self, choice: Choice) -> None:
        """Nobody of the ring is left: those who stand by are asked, the highest priority first."""
        while not self.ready:
            chosen = choice.next_up()
            if not chosen:
                return
            for consumer in chosen:
                self.offer(consumer)

    def offer(self, consumer: Consumer) -> None:
        """`consumer` may have room again: put it back into the ring if so."""
        if consumer.is_ready or consumer not in self.consumers:
            return
        if consumer.room() == 0:
            consumer.hold(self.line.clock)
            return
        if consumer.is_held:
            line, has_messages = self.line, self.messages.ready_count() > 0
            now_ns = line.clock.monotonic_ns()
            consumer.free(now_ns, line.heard_ns, line.flushed_ns, has_messages)
        if self.choice is not None and not self.choice.admits(consumer, self.ready):
            return
        consumer.is_ready = True
        self.ready.append(consumer)
        if self.messages.ready_count() > 0:
            self.wake()

    def forget(self, message: Message) -> None:
        """`message`, which has a place on the disk, has left this queue for good."""
        if self.keeper is not None:
            self.keeper.left(message)
