"""Random graphs under a memory alarm: real actors, a virtual clock, and a machine whose memory is
what the broker holds, times what a message costs, and a rest, and is given back sooner or later.

Publishers with full sockets, steady ones and idle ones publish to queues that are read slowly, in
fits or at once; connections come and go. Between two reads of 64 KiB whatever is due is done, as
the poller does it. After every look at the memory the laws are asked:

    A1  a connection is stopped by name only if it holds at least 0.9 of what each one holds that
        goes on: nobody below its share is stopped while one above it goes on
    A2  everybody is stopped only when use is above the mark by a quarter of what they may hold
    A3  use stays below 1.25 of the mark and what may be read unseen
    A4  in the end, everything read, the alarm is over, nobody waits, and all has arrived
"""

import random
from collections.abc import Callable

from penstock.broker.admin.alarm_watch import AlarmWatch
from penstock.broker.alarm.alarm_manager import MEMORY
from penstock.broker.broker import Broker
from penstock.broker.connection.phases import PHASE_OPEN
from penstock.flow.early_look import INTAKE_BYTES_MIN
from penstock.flow.targeting import ALL, FALL, MemoryShares
from penstock.flow.watermark import BAND
from penstock.lab.stage import held_bytes
from penstock.protocol import methods as m
from tests.unit.broker.alarm_bed import MB, AlarmBed, StatedProbe
from tests.unit.broker.peer import MS, READ_BYTES, Peer, publish

STEP_NS = 50 * MS
STEPS = 120
END_STEPS = 2_000
LIMIT_BYTES = 64 * MB
"""Large against what is read between two looks, as every mark of a real broker is."""
TURN_BYTES = 8 * READ_BYTES
"""Most that one connection is read in a step, which stands for the bandwidth of its network."""


Judge = Callable[[int, dict[str, int]], None]


class LawBroken(AssertionError):
    """A law of targeted alarms does not hold; the seed replays it."""


class HeldProbe(StatedProbe):
    """expansion_pct: memory of a byte held, in percent; rest_bytes: without any; return_bytes: as
    much is given back to the system in a second at most, what is free is used again at once."""

    expansion_pct = 100
    rest_bytes = 0
    return_bytes = 0
    kept_bytes = 0
    kept_ns = 0

    def memory_used_bytes(self) -> int:
        now_ns = self.bed.clock.monotonic_ns()
        returned = self.return_bytes * (now_ns - self.kept_ns) // (1000 * MS)
        needed = held_bytes(self.bed.broker) * self.expansion_pct // 100
        self.kept_bytes = max(needed, self.kept_bytes - returned)
        self.kept_ns = now_ns
        return self.rest_bytes + self.kept_bytes


class JudgedWatch(AlarmWatch):
    """Has its decisions judged by what connections hold just before: who is let on holds more at
    once."""

    def __init__(self, broker: Broker, around: HeldProbe, judge: Judge) -> None:
        super().__init__(broker, around)
        self.judge = judge

    def _check_memory(self, was_set: bool) -> None:
        held = {
            name: int(one.account.memory_bytes())
            for name, one in self.broker.connections.items()
            if one.phase == PHASE_OPEN
        }
        used = self.around.memory_used_bytes()
        super()._check_memory(was_set)
        self.judge(used, held)


class GraphBed(AlarmBed):
    """The bed with that machine."""

    def __init__(
        self, expansion_pct: int, rest_bytes: int, return_bytes: int, judge: Judge
    ) -> None:
        super().__init__(memory_high=str(LIMIT_BYTES))
        around = HeldProbe(self)
        around.expansion_pct = expansion_pct
        around.rest_bytes = rest_bytes
        around.return_bytes = return_bytes
        self.rest_bytes = rest_bytes
        self.around = around
        self.watch = JudgedWatch(self.broker, around, judge)


class Source:
    """A publisher. rate: bytes a step, -1 for as much as is read; reader: how much of its queue is
    taken in a step, messages."""

    def __init__(self, peer: Peer, queue: str, rate: int, body: bytes, reader: int) -> None:
        self.peer = peer
        self.queue = queue
        self.rate = rate
        self.one = publish(1, "", queue, body)
        self.reader = reader
        self.sent = 0

    def fill(self) -> None:
        """Put into its socket what it has to say in this step; a socket holds half a megabyte."""
        budget = TURN_BYTES if self.rate < 0 else self.rate
        while budget > 0 and len(self.peer.unread) < TURN_BYTES:
            count = max(1, min(budget, READ_BYTES) // len(self.one))
            self.peer.unread += self.one * count
            self.sent += count
            budget -= count * len(self.one)


class AlarmGraph:
    """One seed. shares: the choice that is judged; has_early_look: False leaves the poll alone.

    alarms: looks at which it was set; peak_bytes; stopped_ever: who was stopped by name; all_ever:
    whether everybody was."""

    def __init__(
        self, seed: int, shares: MemoryShares | None = None, has_early_look: bool = True
    ) -> None:
        self.dice = random.Random(seed)
        dice = self.dice
        self.expansion_pct = dice.choice((100, 100, 130, 250))
        self.alarms = 0
        self.peak_bytes = 0
        self.all_ever = False
        self.stopped_ever: set[str] = set()
        rest, back = dice.randrange(0, 12 * MB), dice.choice((2, 10, 1_000)) * MB
        self.bed = GraphBed(self.expansion_pct, rest, back, self.judge)
        self.watch = self.bed.watch
        self.manager = self.bed.manager
        self.watch.check_memory()
        if shares is not None:
            self.watch.shares = shares
        if not has_early_look:
            self.bed.broker.context.intake.look = None
        self.eater = self.bed.connect("eater")
        self.sources = [self._source(number) for number in range(dice.randint(3, 9))]

    def _source(self, number: int) -> Source:
        dice = self.dice
        queue = f"q{dice.randrange(number + 1)}"
        peer = self.bed.connect(f"p{number}")
        peer.call(1, m.QueueDeclare(queue), m.QueueDeclareOk)
        rate = dice.choice((-1, -1, 10_000, 60_000, 250_000))
        body = b"x" * dice.choice((4_000, 30_000, 120_000))
        return Source(peer, queue, rate, body, dice.choice((0, 0, 2, 1_000)))

    def run(self) -> None:
        """The whole life. Raises: LawBroken."""
        dice = self.dice
        for step in range(STEPS):
            if dice.random() < 0.05:
                dice.choice(self.sources).reader = dice.choice((0, 1, 5, 20, 1_000))
            for source in dice.sample(self.sources, len(self.sources)):
                source.fill()
                self._read(source.peer, TURN_BYTES)
                self._take(source.queue, source.reader)
            self._pass(step)
        for step in range(END_STEPS):
            for source in self.sources:
                self._read(source.peer, TURN_BYTES)
                self._take(source.queue, 1_000)
            self._pass(step)
            if not self.manager.texts and not any(one.peer.unread for one in self.sources):
                break
        else:
            raise LawBroken(f"A4: {self.manager.texts} and {self.manager.stopped(MEMORY)} remain")
        for source in self.sources:
            if source.peer.connection.receive_count != source.sent:
                raise LawBroken(f"A4: {source.queue}: {source.sent} sent, and not all has arrived")
        self.bed.settle()

    def _read(self, peer: Peer, most: int) -> None:
        """What one socket gives in a step; what is due is done after every read."""
        bed = self.bed
        while peer.unread and most > 0 and peer.connection.can_receive():
            peer.connection.receive(peer.unread[:READ_BYTES])
            peer.unread = peer.unread[READ_BYTES:]
            most -= READ_BYTES
            bed.run()
            self._due()

    def _take(self, queue: str, most: int) -> None:
        """The reader of a queue gets up to `most` messages."""
        count = min(most, self.bed.ready(queue))
        if count > 0:
            self.eater.say(1, *[m.BasicGet(queue, True)] * count)
            self.eater.output.sent.clear()

    def _pass(self, step: int) -> None:
        """Time goes on; once in twenty steps it is a second."""
        self.bed.clock.advance(STEP_NS)
        self._due()
        if step % 20 == 19:
            self.watch.check_memory()
            self.bed.run()

    def _due(self) -> None:
        now_ns = self.bed.clock.monotonic_ns()
        if 0 <= self.bed.broker.dues.next_ns() <= now_ns:
            self.bed.broker.dues.fire(now_ns)
            self.bed.run()

    def judge(self, used: int, held: dict[str, int]) -> None:
        """After a look. used, held: memory and accounts, as the look has seen them."""
        self.peak_bytes = max(self.peak_bytes, used)
        most = LIMIT_BYTES * 5 // 4 + 2 * INTAKE_BYTES_MIN * self.expansion_pct // 100
        if used > most:
            raise LawBroken(f"A3: {used} bytes used, {most} at most")
        if not self.manager.is_own(MEMORY):
            return
        self.alarms += 1
        named = self.manager.named(MEMORY)
        if self.watch.stage == ALL:
            self.all_ever = True
            room = LIMIT_BYTES * BAND[0] // BAND[1] - self.bed.rest_bytes
            if (used - LIMIT_BYTES) * FALL < room * BAND[0] // BAND[1]:
                raise LawBroken(f"A2: all stopped with {used} bytes used, and room for {room}")
            return
        self.stopped_ever |= named
        going = max((one for name, one in held.items() if name not in named), default=0)
        for name in named:
            if held.get(name, going) * 10 < going * 9 - 100:
                raise LawBroken(f"A1: {name} holds {held[name]}, and one with {going} goes on")
