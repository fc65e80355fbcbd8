"""Adaptive credit: the window of a hop is what its receiver takes, and no more.

    standing   the least that any take of an interval has left in the mailbox
    reserve    drain rate x target: what may be left
    starved    the sender had run out of credit, and a take left nothing

    standing > reserve            =>  cut by what stands above it, by half at most
    starved, receiver not held    =>  raise: four times; after a cut by a quarter an interval

No delay is measured, because a delay says little: a queue that commits every 20 ms makes everybody
wait for 20 ms, whatever the window is, and needs what it takes at once. What every take leaves
behind is needed by nobody, and by Little's law it is rate x delay. As in CoDel it is the least that
counts: a burst that drains is no reason to cut. A receiver that was itself held since the last
look (a queue, by its store) keeps its grants back and takes all it has: nothing is learnt by that.
What a queue may hold at most is not decided here, but by its room (flow/room).

The store keeps its window, a wide one. While a batch is written the next one gathers, so each batch
leaves the next one behind: that is no queue, at any rate and with any window. It needs two batches
of its bytes, and what consumers take meanwhile: a message that is acknowledged before its batch is
made is never written. With less a queue is held although its disk could take more.

A hop begins with a small window, so a slow receiver is never given much, and a fast one has all it
wants after a few takes; what one hop has learnt is where the next to the same receiver begins.

A message costs nothing, a repaid batch a few additions and compares, and the clock is read once per
window. Windows are decided in bytes, and messages follow from the
mean size, so that lanes with small and with large messages get the same bytes. The floor is at
least two of the largest messages that go to the receiver: a window admits a message whole, so
whoever sends large ones gets that much per grant, and the others must not get less.

Not handled: hops that never run out of credit keep the window they have; it costs nothing.
Source: flow-semantics 16 (W2, W18), 16.2; RFC 8289; Chiu and Jain 1989; scenarios 26, 116.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.limits import (
    ADAPTIVE_BYTES_MAX,
    ADAPTIVE_BYTES_MIN,
    ADAPTIVE_MESSAGES_MAX,
    ADAPTIVE_MESSAGES_MIN,
)
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Window
from penstock.flow.gate import Gate
from penstock.flow.hop import KIND_CONNECTION_CHANNEL, KIND_QUEUE_STORE, Hop, HopNotes

TARGET_NS: Final = 5_000_000
INTERVAL_NS: Final = 100_000_000
NOTHING_TAKEN: Final = 1 << 62
NOT_STANDING: Final = 1 << 62

MESSAGE_EXTRA_BYTES: Final = 128
"""What a message in a mailbox costs beside its frames; it keeps tiny ones from being countless."""

STEP_BYTES: Final = 8192
"""Added per interval at least, once the window was cut."""

TWO_READS_BYTES: Final = 131_072
"""Highest window from a connection to a channel, which runs after each read of its socket: more
could only wait there."""

PERIOD_NS: Final = 10_000_000_000
"""What a pool knows is of this period and the last."""


class Pool:
    """The hops that lead to one receiver. good_bytes, good_messages: the largest window that one
    was raised to in this period, 0 after a cut, which hops that are still new begin with; large:
    largest mean size of the messages that were repaid together."""

    __slots__ = ("edge_ns", "good_bytes", "good_messages", "hops", "large", "large_before")

    def __init__(self, now_ns: int) -> None:
        self.hops: i64 = 0
        self.good_bytes: i64 = 0
        self.good_messages: i64 = 0
        self.edge_ns: i64 = now_ns
        self.large: i64 = 0
        self.large_before: i64 = 0

    def roll(self, now_ns: i64) -> None:
        """Close the period if it is over."""
        if now_ns - self.edge_ns >= PERIOD_NS:
            self.edge_ns = now_ns
            self.large_before = self.large
            self.large = 0
            self.good_bytes = 0

    def floor(self) -> i64:
        """Bytes that every hop may have under way. A single hop has nobody to be unfair to."""
        if self.hops == 1:
            return ADAPTIVE_BYTES_MIN.default
        large = self.large if self.large > self.large_before else self.large_before
        # Two of them, or one that slips through while the others are at rest is half a share.
        large *= 2
        if large < ADAPTIVE_BYTES_MIN.default:
            return ADAPTIVE_BYTES_MIN.default
        return large if large < ADAPTIVE_BYTES_MAX.default else ADAPTIVE_BYTES_MAX.default


class Gauge(HopNotes):
    """What is known of one hop. left: messages until the next look; is_probing: it was never cut;
    changed_ns: last change of the window; receiver_held_ns: how long the receiver was held until
    the last look; blocks: of the hop when it was last emptied.

    Since edge_ns, which is NOT_STANDING where a take has left nothing: messages and bytes_ repaid,
    least_bytes, the least that was left. is_starved: see above, since the last look."""

    __slots__ = (
        "blocks",
        "bytes_",
        "changed_ns",
        "edge_ns",
        "is_probing",
        "is_starved",
        "least_bytes",
        "left",
        "messages",
        "pool",
        "receiver_held_ns",
    )

    def __init__(self, pool: Pool, hop: Hop, now_ns: int) -> None:
        self.pool = pool
        self.left: i64 = 1
        self.is_probing = True
        self.is_starved = False
        self.blocks: i64 = hop.spent_count
        self.changed_ns: i64 = now_ns
        self.edge_ns: i64 = NOT_STANDING
        self.messages: i64 = 0
        self.bytes_: i64 = 0
        self.least_bytes: i64 = NOTHING_TAKEN
        self.receiver_held_ns: i64 = held_ns(hop.receiver_gate, now_ns)

    def begin(self, edge_ns: i64) -> None:
        """A new interval."""
        self.edge_ns = edge_ns
        self.messages = 0
        self.bytes_ = 0
        self.least_bytes = NOTHING_TAKEN

    def was_held(self, receiver: Gate, now_ns: i64) -> bool:
        """Whether `receiver` was held since the last look."""
        total_ns = held_ns(receiver, now_ns)
        was_held = total_ns != self.receiver_held_ns
        self.receiver_held_ns = total_ns
        return was_held


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
        if hop.kind == KIND_QUEUE_STORE:
            # A smaller window there makes smaller batches, and a disk no faster.
            hop.is_fair = True
            return
        now_ns = hop.sender_gate.clock.monotonic_ns()
        pool = self.pools.get(hop.receiver_gate)
        if pool is None:
            pool = Pool(now_ns)
            self.pools[hop.receiver_gate] = pool
        pool.hops += 1
        hop.notes = Gauge(pool, hop, now_ns)
        # Everybody begins with a whole window when a held receiver goes on, or shares are unequal.
        hop.is_fair = True
        if is_on(hop) and pool.good_bytes > hop.window_bytes:
            give(hop, pool.good_messages, pool.good_bytes)

    def repay(self, hop: Hop, origin: Account, messages: i64, bytes_: i64) -> None:
        gauge = hop.notes
        if not isinstance(gauge, Gauge):
            Credit.repay(self, hop, origin, messages, bytes_)
            return
        gauge.messages += messages
        gauge.bytes_ += bytes_
        gauge.left -= messages
        pool = gauge.pool
        if bytes_ > pool.large * messages:
            pool.large = bytes_ // messages
        rest: i64 = hop.in_flight_bytes - bytes_
        if rest < gauge.least_bytes:
            gauge.least_bytes = rest
        Credit.repay(self, hop, origin, messages, bytes_)
        if rest == 0 and hop.spent_count != gauge.blocks:
            gauge.is_starved = True
            gauge.blocks = hop.spent_count
        if gauge.left <= 0:
            self._look(hop, gauge)

    def forget(self, hop: Hop, origin: Account) -> None:
        gauge = hop.notes
        if isinstance(gauge, Gauge):
            hop.notes = None
            gauge.pool.hops -= 1
            if gauge.pool.hops == 0:
                del self.pools[hop.receiver_gate]
        Credit.forget(self, hop, origin)

    def _look(self, hop: Hop, gauge: Gauge) -> None:
        """What was under way at the last look has been repaid."""
        if hop.deferred > 0 or hop.deferred_bytes > 0:
            # The credit is not back: look again when it is.
            gauge.left = 1
            return
        if hop.in_flight == 0 and hop.done > 0 and hop.receiver_gate.is_granting:
            # All of it is done, so the next burst may find a whole window.
            hop.release()
        gauge.left = hop.in_flight if hop.in_flight > 0 else hop.more_after
        if gauge.left < 1:
            gauge.left = 1
        if is_on(hop):
            self._adapt(hop, gauge, hop.sender_gate.clock.monotonic_ns())

    def _adapt(self, hop: Hop, gauge: Gauge, now_ns: i64) -> None:
        """Decide the window by what was seen."""
        pool = gauge.pool
        pool.roll(now_ns)
        mean: i64 = gauge.bytes_ // gauge.messages if gauge.messages > 0 else 0
        old: i64 = hop.window_bytes
        wanted: i64 = old
        if gauge.was_held(hop.receiver_gate, now_ns):
            gauge.is_starved = False
        if (
            gauge.is_probing
            and old < pool.good_bytes
            and (gauge.is_starved or hop.spent_count != gauge.blocks)
        ):
            # What has not made anything stand for another hop is good for this one as well.
            wanted = pool.good_bytes
            gauge.begin(NOT_STANDING)
        elif gauge.least_bytes == 0:
            if gauge.is_starved:
                wanted = self._raised(old, gauge, now_ns)
            gauge.begin(NOT_STANDING)
        elif gauge.edge_ns == NOT_STANDING:
            gauge.begin(now_ns)
        elif now_ns - gauge.edge_ns >= self.interval_ns:
            # In units of 1024 ns, so that a terabyte does not overflow.
            elapsed: i64 = ((now_ns - gauge.edge_ns) >> 10) + 1
            reserve: i64 = gauge.bytes_ * (self.target_ns >> 10) // elapsed
            if gauge.least_bytes > reserve:
                wanted = cut(old, old - gauge.least_bytes + reserve)
            gauge.begin(now_ns)
        gauge.is_starved = False
        lowest: i64 = pool.floor()
        if wanted == old and old >= lowest:
            return
        gauge.changed_ns = now_ns
        highest: i64 = ADAPTIVE_BYTES_MAX.default
        if hop.kind == KIND_CONNECTION_CHANNEL:
            highest = TWO_READS_BYTES
        window_bytes = within(wanted, lowest, highest)
        window = messages_for(window_bytes, mean)
        if wanted < old:
            gauge.is_probing = False
            pool.good_bytes = 0
        elif wanted > old and window_bytes > pool.good_bytes:
            pool.good_bytes = window_bytes
            pool.good_messages = window
        give(hop, window, window_bytes)

    def _raised(self, window: i64, gauge: Gauge, now_ns: i64) -> i64:
        """The window of a sender that was starved, or the one it has if it must wait."""
        if not gauge.is_probing and now_ns - gauge.changed_ns <= self.interval_ns:
            return window
        return raised(window, gauge.is_probing)


def is_on(hop: Hop) -> bool:
    """Whether the windows of its kind are on."""
    return hop.window > 0 and hop.window_bytes > 0


def held_ns(gate: Gate, now_ns: i64) -> i64:
    """How long `gate` was closed, up to now."""
    total_ns: i64 = gate.held_ns
    return total_ns if gate.is_open else total_ns + now_ns - gate.blocked_at_ns


def give(hop: Hop, window: i64, window_bytes: i64) -> None:
    """Set the window; granted by quarters, because what is done and not granted is not there for
    the next burst."""
    hop.set_window(int(window), int(window + 3) // 4, int(window_bytes), int(window_bytes + 3) // 4)


def cut(window: i64, wanted: i64) -> i64:
    """A window in which something stands. Not below half, because one bad measurement must not
    throw a good window away; and below what it was in any case."""
    if wanted < window // 2:
        wanted = window // 2
    return wanted if wanted < window - window // 8 else window - window // 8


def raised(window: i64, is_probing: bool) -> i64:
    """A window that starves its receiver."""
    if is_probing:
        return 4 * window
    return window + (window // 4 if window // 4 > STEP_BYTES else STEP_BYTES)


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
