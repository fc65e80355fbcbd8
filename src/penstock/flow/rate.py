"""Rate limits: token buckets in messages and bytes, and who waits for the next token.

    level(t) = min(burst, level(s) + per_second * (t - s)) - what passed between s and t

Something may pass while there is a whole token; it takes as many as it costs and may leave the
level negative, so that even what is larger than the burst passes, and pays afterwards. Therefore
    messages passed in any interval <= burst + per_second * its length
    bytes passed in any interval    <= burst + per_second * its length + the last message
and in the long run exactly per_second, because a late look loses nothing until the bucket is full.
Levels are whole billionths of a token: there is no rounding to add up.

Who may not pass waits in the order of coming and is let on by the meter when enough has gathered
(QUANTUM_NS of tokens, so that a fast limit does not wake somebody for every message). Nobody is
passed over: newcomers stand behind those who wait, and where several wait each may take an equal
part of the tokens there are before it has to stand in line again.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.base.clock import Clock
from penstock.flow.due import DueLine, Timer

NS_PER_S: Final = 1_000_000_000
QUANTUM_NS: Final = 10_000_000
"""Tokens of this much time gather before those who wait are let on."""

NO_SHARE: Final = 1e18
"""Nobody else wants the tokens."""


class Bucket:
    """per_second: tokens, 1.. ; burst: tokens, 1.. ; starts full at `now_ns`."""

    __slots__ = ("_at_ns", "_level", "burst", "per_second")

    def __init__(self, per_second: int, burst: int, now_ns: int) -> None:
        assert per_second >= 1 and burst >= 1, "a limit of nothing is no limit but a stop"
        self.per_second: int = per_second
        self.burst: int = burst
        self._level: int = burst * NS_PER_S
        self._at_ns: int = now_ns

    def change(self, per_second: int, burst: int, now_ns: int) -> None:
        """Another rate from now on; what has gathered stays, up to the new burst."""
        self._fill(now_ns)
        self.per_second = per_second
        self.burst = burst
        self._level = min(self._level, burst * NS_PER_S)

    def level(self, now_ns: int) -> float:
        """Tokens there are, negative while in debt."""
        self._fill(now_ns)
        return self._level / NS_PER_S

    def has_token(self, now_ns: int) -> bool:
        """Whether something may pass now."""
        self._fill(now_ns)
        return self._level >= NS_PER_S

    def take(self, count: int, now_ns: int) -> None:
        """Something passes that costs `count` tokens, 0.. ; it is not asked whether it may."""
        self._fill(now_ns)
        self._level -= count * NS_PER_S

    def due_ns(self, tokens: int, now_ns: int) -> int:
        """When there will be `tokens`, 1..burst; `now_ns` if there are."""
        self._fill(now_ns)
        missing = tokens * NS_PER_S - self._level
        if missing <= 0:
            return now_ns
        return now_ns + (missing + self.per_second - 1) // self.per_second

    def _fill(self, now_ns: int) -> None:
        if now_ns > self._at_ns:
            level = self._level + (now_ns - self._at_ns) * self.per_second
            self._level = min(level, self.burst * NS_PER_S)
            self._at_ns = now_ns


@mypyc_attr(allow_interpreted_subclasses=True)
class RateWaiter:
    """Who waits at a meter: a connection, or the lanes of a queue. Nominal base."""

    __slots__ = ()

    def rate_due(self, now_ns: int) -> None:
        """A token is there: pass one publish, or stand in line again."""
        raise NotImplementedError


class Meter:
    """One limit in force. name: as gates name it, `rate:user:app`; began_ns: when it was made;
    line, timer: when those who wait are looked at; passed: publishes so far; waits: how often one
    began to stand in line; quantum_ns: see QUANTUM_NS; round, share: how often
    those who waited were let on, and the part of the tokens there were that each may take until the
    next time.

    Bound: one entry for each waiter; a connection or queue waits at one meter at a time."""

    __slots__ = (
        "_byte_part",
        "_is_round_served",
        "_message_part",
        "began_ns",
        "bytes",
        "clock",
        "line",
        "messages",
        "name",
        "passed",
        "quantum_ns",
        "round",
        "share",
        "timer",
        "waiting",
        "waits",
    )

    def __init__(self, name: str, clock: Clock, line: DueLine) -> None:
        self.name = name
        self.clock = clock
        self.line = line
        self.began_ns: int = clock.monotonic_ns()
        self.messages: Bucket | None = None
        self.bytes: Bucket | None = None
        self.waiting: dict[RateWaiter, None] = {}
        self.passed: int = 0
        self.waits: int = 0
        self.quantum_ns: int = QUANTUM_NS
        self.round: int = 0
        self.share: float = NO_SHARE
        self._is_round_served = False
        self._message_part: float = 0.0
        self._byte_part: float = 0.0
        self.timer = Timer(self._begin_round)

    def set_limits(self, messages: int, bytes_: int, burst_ns: int) -> None:
        """Messages and bytes a second, 0 for no limit; burst_ns: how much of a second may pass at
        once. Those who wait are asked again at once."""
        now_ns = self.clock.monotonic_ns()
        self.messages = _changed(self.messages, messages, burst_ns, now_ns)
        self.bytes = _changed(self.bytes, bytes_, burst_ns, now_ns)
        if self.waiting:
            self.line.put(self.timer, now_ns)

    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return self.messages is not None or self.bytes is not None

    def has_room(self, now_ns: int) -> bool:
        """Whether there is a token of both kinds."""
        messages = self.messages
        if messages is not None and not messages.has_token(now_ns):
            return False
        bytes_ = self.bytes
        return bytes_ is None or bytes_.has_token(now_ns)

    def admits(self, now_ns: int) -> bool:
        """Whether a newcomer may pass: there is a token, and nobody waits for it who has not had
        his part of this round."""
        if self.waiting and (self.share == NO_SHARE or not self._is_round_served):
            return False
        return self.has_room(now_ns)

    def spend(self, size: int, now_ns: int) -> None:
        """A publish of `size` bytes passes."""
        self.passed += 1
        messages = self.messages
        if messages is not None:
            messages.take(1, now_ns)
        bytes_ = self.bytes
        if bytes_ is not None:
            bytes_.take(size, now_ns)

    def wait(self, waiter: RateWaiter, now_ns: int) -> None:
        """`waiter` stands in line, at its end, unless it stands there already."""
        if waiter not in self.waiting:
            self.waiting[waiter] = None
            self.waits += 1
            if len(self.waiting) == 1:
                self.line.put(self.timer, self._wake_ns(now_ns))

    def leave(self, waiter: RateWaiter) -> None:
        """`waiter` has nothing to pass any more."""
        self.waiting.pop(waiter, None)
        if not self.waiting:
            self.line.take_off(self.timer)

    def _begin_round(self, now_ns: int) -> None:
        """Begin a round: those who wait pass one publish each, in their order, while there are
        tokens; the others they may share out as they come, but in equal parts."""
        left = len(self.waiting)
        if self.has_room(now_ns):
            self.round += 1
        self.share = 1.0 / left if left > 1 else NO_SHARE
        self._message_part = _part_of(self.messages, now_ns)
        self._byte_part = _part_of(self.bytes, now_ns)
        while left > 0 and self.waiting and self.has_room(now_ns):
            left -= 1
            waiter = next(iter(self.waiting))
            del self.waiting[waiter]
            waiter.rate_due(now_ns)
        self._is_round_served = left == 0
        if self.waiting:
            self.line.put(self.timer, self._wake_ns(now_ns))

    def price(self, size: int) -> float:
        """What part of the tokens of this round a publish of `size` bytes takes."""
        return max(self._message_part, self._byte_part * size)

    def _wake_ns(self, now_ns: int) -> int:
        """When enough has gathered of both kinds."""
        due_ns = now_ns
        for bucket in (self.messages, self.bytes):
            if bucket is not None:
                gathered = bucket.per_second * self.quantum_ns // NS_PER_S
                tokens = max(1, min(gathered, bucket.burst // 2))
                due_ns = max(due_ns, bucket.due_ns(tokens, now_ns))
        return due_ns


def _part_of(bucket: Bucket | None, now_ns: int) -> float:
    """One token of those there are."""
    return 0.0 if bucket is None else 1.0 / max(1.0, bucket.level(now_ns))


def _changed(bucket: Bucket | None, per_second: int, burst_ns: int, now_ns: int) -> Bucket | None:
    if per_second <= 0:
        return None
    burst = max(1, per_second * burst_ns // NS_PER_S)
    if bucket is None:
        return Bucket(per_second, burst, now_ns)
    bucket.change(per_second, burst, now_ns)
    return bucket


class RatePayer:
    """One sender and the meters it pays at, in a fixed order, each once for every publish.

    held: channel numbers with a publish that waits for tokens, oldest first; paid: how many of
    `meters` the next publish has paid at already, so that nobody has to win at all of them in the
    same instant; waits_at: the meter it stands in line at; served_by: the meter that lets it on
    right now; holder: the meter's name it is on record as held by, or "".
    """

    __slots__ = (
        "_round",
        "_round_of",
        "_used",
        "held",
        "holder",
        "meters",
        "paid",
        "served_by",
        "waiter",
        "waits_at",
    )

    def __init__(self, meters: list[Meter], waiter: RateWaiter) -> None:
        self.meters = meters
        self.waiter = waiter
        self.held: dict[int, None] = {}
        self.paid: int = 0
        self.waits_at: Meter | None = None
        self.served_by: Meter | None = None
        self.holder = ""
        self._round_of: Meter | None = None
        self._round: int = 0
        self._used: float = 0.0

    def is_waiting(self) -> bool:
        """Whether publishes wait for tokens; newcomers stand behind them."""
        return len(self.held) > 0 or self.waits_at is not None

    def first(self) -> int:
        """The channel whose publish is the next to go, -1 if none waits."""
        for number in self.held:
            return number
        return -1

    def passes(self, size: int, now_ns: int) -> bool:
        """Pay for the next publish where it is not paid yet; False at the first meter that does
        not let it."""
        while self.paid < len(self.meters):
            meter = self.meters[self.paid]
            is_served = meter is self.served_by
            may_pass = meter.has_room(now_ns) if is_served else meter.admits(now_ns)
            if not may_pass or not self._has_share(meter, size):
                return False
            meter.spend(size, now_ns)
            self.paid += 1
        self.paid = 0
        return True

    def _has_share(self, meter: Meter, size: int) -> bool:
        """Whether it is within this payer's part of the round, which it counts up."""
        if meter.share == NO_SHARE:
            return True
        if self._round_of is not meter or self._round != meter.round:
            self._round_of = meter
            self._round = meter.round
            self._used = 0.0
        used = self._used + meter.price(size)
        # The first one of a round is always within it, however large.
        if self._used > 0.0 and used > meter.share:
            return False
        self._used = used
        return True

    def pay_anyway(self, size: int, is_next: bool, now_ns: int) -> None:
        """A publish goes that nobody asks whether it may. is_next: it is the one that has paid at
        some of the meters already."""
        start = self.paid if is_next else 0
        for index in range(start, len(self.meters)):
            self.meters[index].spend(size, now_ns)
        if is_next:
            self.paid = 0

    def wait(self, now_ns: int) -> Meter:
        """Stand in line at the meter that must be paid next."""
        meter = self.meters[self.paid]
        self.waits_at = meter
        meter.wait(self.waiter, now_ns)
        return meter

    def leave(self) -> None:
        """Stand in line nowhere."""
        meter = self.waits_at
        if meter is not None:
            self.waits_at = None
            meter.leave(self.waiter)
