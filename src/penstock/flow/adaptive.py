"""Adaptive credit: the window of a hop follows how fast its receiver drains, and how long it takes.

    limit  = base delay + target
    used up, and emptied by every take or delay <= limit  =>  raise: double, later by a step
    used up, and least delay of an interval > limit       =>  cut to rate x limit / hops, by half
                                                              at most
*Used up*: the sender has run out of credit. As in CoDel it is the least delay over an interval that
counts: a burst that drains is no reason to cut. The base delay is the shortest that was seen of
late, at most BASE_MAX_NS: a queue that commits in groups needs its time whatever the window is (as
BBR tells the path from its queues). Rate x limit is Little's law. A hop begins with a small window
and doubles it with every sample until the first cut, or takes four times as much while each take
empties it, so a slow receiver is never given much, and a fast one has all it wants after a few
round trips. What one hop has learnt is where the next one to the same receiver begins.

The delay is measured with one outstanding sample per hop: a countdown of the messages that were
under way when it began. A message costs nothing, a repaid batch a few additions and one compare;
the clock is read when a countdown ends. Credit that is deferred is not back: the sample goes on, so
a queue held by its depth mark counts as slow as its consumers are.

Windows are decided in bytes, and messages follow from the mean size, so that lanes with small and
with large messages get the same bytes. The floor is at least two of the largest messages that go to
the receiver: a window admits a message whole, so whoever sends large ones gets that much per grant,
and the others must not get less.

Not handled: hops that never run out of credit keep the window they have; it costs nothing.
Source: flow-semantics 16 (W2, W18), 16.2; RFC 8289; Chiu and Jain 1989; scenario 116.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.flow_limits import (
    ADAPTIVE_BYTES_MAX,
    ADAPTIVE_BYTES_MIN,
    ADAPTIVE_MESSAGES_MAX,
    ADAPTIVE_MESSAGES_MIN,
)
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Window
from penstock.flow.gate import Gate
from penstock.flow.hop import KIND_CONNECTION_CHANNEL, Hop, HopNotes

NS_PER_S: Final = 1_000_000_000
TARGET_NS: Final = 5_000_000
INTERVAL_NS: Final = 100_000_000
NO_DELAY_YET: Final = 1 << 62
NOT_HELD: Final = 1 << 62

MESSAGE_EXTRA_BYTES: Final = 128
"""What a message in a mailbox costs beside its frames; it keeps tiny ones from being countless."""

STEP_BYTES: Final = 8192
"""Added per interval once the window was cut."""

TWO_READS_BYTES: Final = 131_072
"""Highest window from a connection to a channel, which runs after each read of its socket: more
could only wait there."""

BASE_MAX_NS: Final = 25_000_000
"""A longer delay is never taken for one that is in the nature of the receiver."""

PERIOD_NS: Final = 10_000_000_000
"""The base delay and the largest message are those of this period and the one before."""


class Pool:
    """The hops that lead to one receiver. bytes_: repaid since edge_ns; rate_bytes: a second, over
    the interval before; used_up: hops whose window was used up, now and in the interval before;
    good_bytes: the largest window of this period that was drained at once, 0 for none, which hops
    that are still new begin with; large: largest mean size of the messages that were repaid
    together, base_ns: shortest delay, both of this period and the one before."""

    __slots__ = (
        "base_before_ns",
        "base_edge_ns",
        "base_ns",
        "bytes_",
        "edge_ns",
        "good_bytes",
        "hops",
        "large",
        "large_before",
        "rate_bytes",
        "used_up",
        "used_up_before",
    )

    def __init__(self, now_ns: int) -> None:
        self.hops: i64 = 0
        self.good_bytes: i64 = 0
        self.edge_ns: i64 = now_ns
        self.bytes_: i64 = 0
        self.rate_bytes: i64 = 0
        self.used_up: i64 = 0
        self.used_up_before: i64 = 0
        self.large: i64 = 0
        self.large_before: i64 = 0
        self.base_ns: i64 = BASE_MAX_NS
        self.base_before_ns: i64 = BASE_MAX_NS
        self.base_edge_ns: i64 = now_ns

    def roll(self, now_ns: i64, interval_ns: i64) -> None:
        """Close the interval, and the period, if they are over."""
        elapsed_ns: i64 = now_ns - self.edge_ns
        if elapsed_ns < interval_ns:
            return
        # In units of 1024 ns, so that a terabyte does not overflow.
        self.rate_bytes = self.bytes_ * (NS_PER_S >> 10) // ((elapsed_ns >> 10) + 1)
        self.bytes_ = 0
        self.used_up_before = self.used_up
        self.used_up = 0
        self.edge_ns = now_ns
        if now_ns - self.base_edge_ns >= PERIOD_NS:
            self.base_edge_ns = now_ns
            self.base_before_ns = self.base_ns
            self.base_ns = BASE_MAX_NS
            self.large_before = self.large
            self.large = 0
            self.good_bytes = 0

    def base(self) -> i64:
        """What even a small window takes, 0..BASE_MAX_NS."""
        return self.base_ns if self.base_ns < self.base_before_ns else self.base_before_ns

    def share(self, limit_ns: i64) -> i64:
        """Bytes that one hop may have under way for the pool to be drained within `limit_ns`."""
        hops: i64 = self.used_up_before
        if self.used_up > hops:
            hops = self.used_up
        if hops < 1:
            hops = 1
        return self.rate_bytes * (limit_ns >> 10) // (NS_PER_S >> 10) // hops

    def floor(self) -> i64:
        """Bytes that every hop may have under way."""
        large = self.large if self.large > self.large_before else self.large_before
        # Two of them, or one that slips through while the others are at rest is half a share.
        large *= 2
        if large < ADAPTIVE_BYTES_MIN.default:
            return ADAPTIVE_BYTES_MIN.default
        return large if large < ADAPTIVE_BYTES_MAX.default else ADAPTIVE_BYTES_MAX.default


class Gauge(HopNotes):
    """What is known of one hop. left: messages until the sample is over; since_ns: when it began;
    is_timing: it measures a delay, and does not only count; is_whole: a delay from the very handing
    over on, as the base is; is_probing: it was never cut.

    Of this interval, which began at edge_ns: least_ns, 0 once the mailbox was empty; deferred_ns,
    longest that grants were kept back (since deferred_at_ns, or NOT_HELD; releases: of the hop
    then); messages and bytes_ repaid; blocks: of the hop when it began."""

    __slots__ = (
        "blocks",
        "bytes_",
        "deferred_at_ns",
        "deferred_ns",
        "edge_ns",
        "is_probing",
        "is_timing",
        "is_whole",
        "least_ns",
        "left",
        "messages",
        "pool",
        "releases",
        "since_ns",
    )

    def __init__(self, pool: Pool, now_ns: int) -> None:
        self.pool = pool
        self.left: i64 = 1
        self.since_ns: i64 = now_ns
        self.is_timing = False
        self.is_probing = True
        self.least_ns: i64 = NO_DELAY_YET
        self.edge_ns: i64 = now_ns
        self.messages: i64 = 0
        self.bytes_: i64 = 0
        self.blocks: i64 = 0
        self.is_whole = False
        self.releases: i64 = 0
        self.deferred_at_ns: i64 = NOT_HELD
        self.deferred_ns: i64 = 0

    def note_deferred(self, now_ns: i64) -> None:
        """Grants were kept back until about now, since deferred_at_ns."""
        if now_ns - self.deferred_at_ns > self.deferred_ns:
            self.deferred_ns = now_ns - self.deferred_at_ns

    def begin(self, blocks: i64, now_ns: i64) -> None:
        """A new interval."""
        self.blocks = blocks
        self.least_ns = NO_DELAY_YET
        self.deferred_ns = 0
        self.messages = 0
        self.bytes_ = 0
        self.edge_ns = now_ns


class Adaptive(Credit):
    """target_ns, interval_ns: see above. The windows of its kind are what a hop begins with; a
    kind whose windows are off is left alone."""

    __slots__ = ("interval_ns", "pools", "target_ns")

    def __init__(self, name: str, window: Window, bytes_window: Window) -> None:
        super().__init__(name, window, bytes_window)
        self.target_ns: i64 = TARGET_NS
        self.interval_ns: i64 = INTERVAL_NS
        self.pools: dict[Gate, Pool] = {}

    def wire(self, hop: Hop) -> None:
        self.resize(hop)
        now_ns = hop.sender_gate.clock.monotonic_ns()
        pool = self.pools.get(hop.receiver_gate)
        if pool is None:
            pool = Pool(now_ns)
            self.pools[hop.receiver_gate] = pool
        pool.hops += 1
        hop.notes = Gauge(pool, now_ns)
        # Everybody begins with a whole window when a held receiver goes on, or shares are unequal.
        hop.is_fair = True

    def repay(self, hop: Hop, origin: Account, messages: i64, bytes_: i64) -> None:
        gauge = hop.notes
        if not isinstance(gauge, Gauge):
            Credit.repay(self, hop, origin, messages, bytes_)
            return
        gauge.messages += messages
        gauge.bytes_ += bytes_
        pool = gauge.pool
        pool.bytes_ += bytes_
        if bytes_ > pool.large * messages:
            pool.large = bytes_ // messages
        gauge.left -= messages
        since_ns: i64 = NOT_HELD
        if gauge.left <= 0 and hop.is_closed:
            since_ns = held_since(hop)
        Credit.repay(self, hop, origin, messages, bytes_)
        if hop.in_flight == 0:
            gauge.least_ns = 0
        if hop.deferred > 0 or hop.deferred_bytes > 0:
            if gauge.deferred_at_ns == NOT_HELD or gauge.releases != hop.releases:
                gauge.deferred_at_ns = hop.receiver_gate.blocked_at_ns
                gauge.releases = hop.releases
        elif gauge.deferred_at_ns != NOT_HELD:
            gauge.note_deferred(hop.sender_gate.clock.monotonic_ns())
            gauge.deferred_at_ns = NOT_HELD
        if gauge.left <= 0:
            self._sample(hop, gauge, since_ns)

    def forget(self, hop: Hop, origin: Account) -> None:
        gauge = hop.notes
        if isinstance(gauge, Gauge):
            hop.notes = None
            gauge.pool.hops -= 1
            if gauge.pool.hops == 0:
                del self.pools[hop.receiver_gate]
        Credit.forget(self, hop, origin)

    def _sample(self, hop: Hop, gauge: Gauge, held_since_ns: i64) -> None:
        """What was under way when the sample began has been repaid. held_since_ns: the sender was
        held until just now, so what it is granted is under way at once; or NOT_HELD."""
        if hop.deferred > 0 or hop.deferred_bytes > 0:
            # Repaid, but the credit is not back: the delay goes on.
            gauge.left = 1
            return
        now_ns: i64 = hop.sender_gate.clock.monotonic_ns()
        if gauge.is_timing:
            delay_ns: i64 = now_ns - gauge.since_ns
            if delay_ns < gauge.least_ns:
                gauge.least_ns = delay_ns
            if gauge.is_whole and delay_ns < gauge.pool.base_ns:
                gauge.pool.base_ns = delay_ns
        gauge.since_ns = now_ns
        gauge.left = hop.in_flight
        gauge.is_timing = True
        gauge.is_whole = False
        if hop.in_flight == 0:
            # Nothing stands in the mailbox. Timed on only if something comes at once.
            is_used_up = held_since_ns != NOT_HELD
            gauge.is_timing = is_used_up
            gauge.is_whole = is_used_up
            gauge.left = 1 if is_used_up or hop.more_after < 1 else hop.more_after
        interval_ns: i64 = self.interval_ns
        is_old = now_ns - gauge.edge_ns >= 2 * interval_ns and gauge.deferred_ns == 0
        if is_old and now_ns - held_since_ns < interval_ns:
            # The sender paused in between: what was before that says nothing of now.
            gauge.begin(hop.blocks, now_ns)
        elif gauge.is_probing or now_ns - gauge.edge_ns >= interval_ns:
            self._adapt(hop, gauge, now_ns)

    def _adapt(self, hop: Hop, gauge: Gauge, now_ns: i64) -> None:
        """An interval is over, or a sample of a hop that was never cut."""
        pool = gauge.pool
        pool.roll(now_ns, self.interval_ns)
        is_used_up = hop.blocks != gauge.blocks or hop.is_closed
        is_on = hop.window > 0 and hop.window_bytes > 0
        if is_on and is_used_up and gauge.least_ns != NO_DELAY_YET:
            pool.used_up += 1
            mean: i64 = gauge.bytes_ // gauge.messages if gauge.messages > 0 else 0
            limit_ns: i64 = pool.base() + self.target_ns
            # Whoever is held for an interval does not drain, though its mailbox may be empty; what
            # a burst leaves above the depth mark is gone before that.
            is_standing = gauge.least_ns > limit_ns or gauge.deferred_ns > self.interval_ns
            if is_standing:
                gauge.is_probing = False
                pool.good_bytes = 0
                wanted = cut(hop.window_bytes, pool.share(limit_ns))
            else:
                wanted = raised(hop.window_bytes, gauge.is_probing, gauge.least_ns == 0)
                if gauge.is_probing and wanted < pool.good_bytes:
                    wanted = pool.good_bytes
                if gauge.least_ns == 0 and hop.window_bytes > pool.good_bytes:
                    pool.good_bytes = hop.window_bytes
            highest: i64 = ADAPTIVE_BYTES_MAX.default
            if hop.kind == KIND_CONNECTION_CHANNEL:
                highest = TWO_READS_BYTES
            window_bytes = within(wanted, pool.floor(), highest)
            window = messages_for(window_bytes, mean)
            hop.set_window(
                int(window), int(window + 1) // 2, int(window_bytes), int(window_bytes // 2)
            )
        elif now_ns - gauge.edge_ns < self.interval_ns:
            return
        gauge.begin(hop.blocks, now_ns)


def held_since(hop: Hop) -> i64:
    """When the sender of a closed `hop` ran out of credit."""
    return hop.sender_gate.reasons.get((hop.receiver, "credit"), NOT_HELD)


def cut(window: i64, share: i64) -> i64:
    """A window in which a delay stands. Not below half, because one bad measurement must not throw
    a good window away; and below what it was in any case."""
    wanted = share if share > window // 2 else window // 2
    return wanted if wanted < window - window // 8 else window - window // 8


def raised(window: i64, is_probing: bool, is_emptied: bool) -> i64:
    """A window that was used up and in which no delay stands."""
    if is_probing:
        return 4 * window if is_emptied else 2 * window
    step = window // 4 if is_emptied and window // 4 > STEP_BYTES else STEP_BYTES
    return window + step


def messages_for(window_bytes: i64, mean_bytes: i64) -> i64:
    """How many messages of `mean_bytes` a window in bytes stands for."""
    return within(
        window_bytes // (mean_bytes + MESSAGE_EXTRA_BYTES),
        ADAPTIVE_MESSAGES_MIN.default,
        ADAPTIVE_MESSAGES_MAX.default,
    )


def within(value: i64, lowest: i64, highest: i64) -> i64:
    """`value`, or the bound it has passed."""
    if value < lowest:
        return lowest
    return value if value < highest else highest
