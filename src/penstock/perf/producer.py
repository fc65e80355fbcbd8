"""One publisher of a load run: publishes what is due in batches, and accounts for its time.

Message n is due at start + n / rate, whatever became of the messages before it. A publisher that
was held finds all missed messages due, so a latency counted from these moments includes the
time spent waiting (no coordinated omission). Every nanosecond of a publisher belongs to exactly one
reason:

BUSY      it is sending, or the tool itself is at work elsewhere
IDLE      nothing is due at the rate asked for
SOCKET    bytes wait because the broker does not read them         } blocked
ALARM     the broker said connection.blocked or channel.flow       }
CONFIRMS  as many publishes are unconfirmed as were allowed
"""

import random
from collections import Counter
from enum import IntEnum
from typing import Final

from penstock.base.clock import Clock
from penstock.client.events import (
    ChannelClosed,
    ClientEvent,
    Confirmed,
    ConnectionClosed,
    FlowChanged,
    ReturnedPublish,
)
from penstock.client.publish_template import PublishTemplate
from penstock.perf.link import LoadConnection, LoadMember
from penstock.perf.meter import STAMP_BYTES, Tally, write_stamp
from penstock.perf.plan import LoadPlan
from penstock.protocol.properties import Properties

ANY: Final = 1 << 30
# Rates are kept in millionths of a message a second, so that all arithmetic is exact.
_MICRO: Final = 1_000_000
_NS_TIMES_MICRO: Final = 1_000_000_000 * _MICRO
BATCH_MESSAGES: Final = 128
BATCH_BYTES: Final = 131_072


class Reason(IntEnum):
    """Why a publisher is not sending right now."""

    BUSY = 0
    IDLE = 1
    SOCKET = 2
    ALARM = 3
    CONFIRMS = 4


class HeldTime:
    """Nanoseconds per reason for one publisher. The sum is the time since `start_ns`, exactly."""

    __slots__ = ("_reason", "_since_ns", "_spent")

    def __init__(self, start_ns: int) -> None:
        self._reason = Reason.BUSY
        self._since_ns = start_ns
        self._spent = [0] * len(Reason)

    def enter(self, reason: Reason, now_ns: int) -> None:
        """From `now_ns` (never earlier than before) on, time belongs to `reason`."""
        if reason is self._reason:
            return
        self.settle(now_ns)
        self._reason = reason

    def settle(self, now_ns: int) -> None:
        """Bring the books up to `now_ns`."""
        assert now_ns >= self._since_ns, "time never goes back"
        self._spent[self._reason] += now_ns - self._since_ns
        self._since_ns = now_ns

    def snapshot(self) -> tuple[int, ...]:
        """Nanoseconds per reason, in the order of Reason."""
        return tuple(self._spent)


class Timetable:
    """The timetable of one publisher. rate_per_s: messages a second, 0 for as fast as possible.

    For every rate: `due(next_ns()) >= 1` and `due(next_ns() - 1) <= 0` as long as none is missed.
    """

    __slots__ = ("_rate", "_start_ns", "_taken")

    def __init__(self, rate_per_s: float, start_ns: int) -> None:
        self._rate = round(rate_per_s * _MICRO)
        self._start_ns = start_ns
        self._taken = 0

    def due(self, now_ns: int) -> int:
        """Messages due at `now_ns` and not taken yet, 0..ANY."""
        if self._rate == 0:
            return ANY
        passed = (now_ns - self._start_ns) * self._rate // _NS_TIMES_MICRO
        return max(0, passed + 1 - self._taken)

    def take(self, now_ns: int) -> int:
        """The moment the next message was meant for, never later than `now_ns`."""
        if self._rate == 0:
            return now_ns
        meant_ns = self.next_ns()
        self._taken += 1
        return meant_ns if meant_ns < now_ns else now_ns

    def next_ns(self) -> int:
        """When the next message is due; the start when there is no rate."""
        if self._rate == 0:
            return self._start_ns
        return self._start_ns - (-self._taken * _NS_TIMES_MICRO // self._rate)


class LoadProducer(LoadMember):
    """One publisher with a connection and a channel of its own.

    address: exchange and routing key; start_ns: when its time begins to be accounted; first_ns:
    when its first message is due. `sent`: messages handed to the session; `refused`: nacked or
    returned ones.
    """

    def __init__(
        self, name: str, link: LoadConnection, channel: int, plan: LoadPlan,
        address: tuple[str, str],
        tally: Tally, chance: random.Random, clock: Clock, start_ns: int, first_ns: int,
    ) -> None:  # fmt: skip
        mode = Properties(delivery_mode=2) if plan.persistent else Properties()
        super().__init__(name, link)
        self.is_stopped = False
        self.sent = 0
        self.refused = 0
        self.held = HeldTime(start_ns)
        self._plan = plan
        self._tally = tally
        self._chance = chance
        self._clock = clock
        self._channel = channel
        self._is_flow_active = True
        self._pace = Timetable(plan.rate_per_s, first_ns)
        self._template = PublishTemplate(channel, address[0], address[1], mode, plan.mandatory)
        self._filler = bytes(plan.size_bytes_max - STAMP_BYTES)
        self._is_one_size = plan.size_bytes_min == plan.size_bytes_max
        room = BATCH_BYTES // plan.size_bytes_max
        self._batch = max(1, min(BATCH_MESSAGES, room))

    @property
    def accepted(self) -> int:
        """Messages sent and neither refused nor returned."""
        return self.sent - self.refused

    def unconfirmed(self) -> int:
        """Publishes the broker has still to answer."""
        if self.failed is not None or not self._plan.confirms_max:
            return 0
        return self.link.session.unconfirmed(self._channel)

    def is_done(self) -> bool:
        """Whether it has nothing more to publish; confirms may still be open."""
        total = self._plan.messages_per_producer
        return self.is_stopped or self.failed is not None or (0 < total <= self.sent)

    def next_ns(self) -> int | None:
        """When it wants its next turn; None when only its socket can bring one."""
        if self.is_done() or self._hold(self._pace.next_ns()) is not None:
            return None
        return self._pace.next_ns()

    def turn(self, now_ns: int) -> None:
        """Publish what is due and allowed, at most one batch."""
        if self.link.unsent and not self.link.write(now_ns):
            self.held.enter(self._unsent_reason(), now_ns)
            return
        if self.is_done():
            self.link.write(now_ns)
            self.held.enter(Reason.IDLE, now_ns)
            return
        hold = self._hold(now_ns)
        if hold is not None:
            self.held.enter(hold, now_ns)
            return
        self.held.enter(Reason.BUSY, now_ns)
        self._publish(self._allowed(min(self._pace.due(now_ns), self._batch)), now_ns)
        self.link.write(now_ns)
        # What comes next is charged from here on: making the batch was work, not waiting.
        end_ns = self._clock.monotonic_ns()
        hold = self._hold(end_ns)
        if hold is not None:
            self.held.enter(hold, end_ns)

    def take(self, events: list[ClientEvent], now_ns: int) -> None:
        """What the broker said."""
        tally = self._tally
        for event in events:
            if isinstance(event, Confirmed):
                count = len(event.sequences)
                if event.is_accepted:
                    tally.confirmed += count
                else:
                    tally.nacked += count
                    self.refused += count
                # Publishes of one batch share their mark, so there are few different ones.
                for mark, times in Counter(event.marks).items():
                    tally.confirm_latency.record(max(0, now_ns - mark), times)
            elif isinstance(event, ReturnedPublish):
                tally.returned += 1
                self.refused += 1
            elif isinstance(event, FlowChanged):
                self._is_flow_active = event.is_active
            elif isinstance(event, ChannelClosed | ConnectionClosed):
                self.fail(event.code, event.text)

    def _unsent_reason(self) -> Reason:
        """Bytes are waiting: because of an alarm if the broker has told of one."""
        return Reason.SOCKET if self.link.session.blocked_reason is None else Reason.ALARM

    def _hold(self, now_ns: int) -> Reason | None:
        """What keeps it from publishing although something is due; None when nothing does."""
        if self.link.unsent:
            return self._unsent_reason()
        if self._pace.due(now_ns) == 0:
            return Reason.IDLE
        if self.link.session.blocked_reason is not None or not self._is_flow_active:
            return Reason.ALARM
        confirms_max = self._plan.confirms_max
        if confirms_max and self.unconfirmed() >= confirms_max:
            return Reason.CONFIRMS
        return None

    def _allowed(self, count: int) -> int:
        """`count`, cut to what the confirm window and the number of messages leave."""
        if self._plan.confirms_max:
            count = min(count, self._plan.confirms_max - self.unconfirmed())
        total = self._plan.messages_per_producer
        return min(count, total - self.sent) if total else count

    def _publish(self, count: int, now_ns: int) -> None:
        session = self.link.session
        frames = self._template.frames
        frame_bytes_max = session.frame_bytes_max
        filler = self._filler
        pace = self._pace
        bytes_before = self._tally.sent_bytes
        total = 0
        for _ in range(count):
            if not self._is_one_size:
                filler = self._filler[: self._size()]
            body = write_stamp(pace.take(now_ns), now_ns) + filler
            session.publish_frames(self._channel, frames(body, frame_bytes_max), now_ns)
            total += len(body)
        self.sent += count
        self._tally.sent += count
        self._tally.sent_bytes = bytes_before + total

    def _size(self) -> int:
        """A body size from the plan's range, less the stamp."""
        plan = self._plan
        return self._chance.randint(plan.size_bytes_min, plan.size_bytes_max) - STAMP_BYTES
