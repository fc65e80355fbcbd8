"""flow/adaptive: windows against receivers whose speed is known, and the steps of the rule."""

import pytest

from penstock.base.clock import ManualClock
from penstock.base.limits import (
    ADAPTIVE_BYTES_MAX,
    ADAPTIVE_BYTES_MIN,
    ADAPTIVE_MESSAGES_MAX,
    ADAPTIVE_MESSAGES_MIN,
)
from penstock.flow.account import Account
from penstock.flow.adaptive import (
    PERIOD_NS,
    Adaptive,
    Pool,
    cut,
    messages_for,
    raised,
    within,
)
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import LAYER_CHANNEL, LAYER_QUEUE, LAYER_STORE, Hop
from penstock.flow.profile import ADAPTIVE

MS_NS = 1_000_000
KIB = 1024


class Line:
    """Senders that always have more, and one receiver that takes `per_ms` KiB a millisecond from
    each, in whole messages and every `period_ms`."""

    def __init__(self, sizes: tuple[int, ...], per_ms: float, period_ms: int = 1) -> None:
        self.clock = ManualClock()
        strategy = ADAPTIVE.strategy()
        assert isinstance(strategy, Adaptive)
        self.strategy = strategy
        self.origin = Account("conn:a", None, None, 0)
        self.receiver = Gate("queue:/q", self.clock, GateObserver())
        self.sizes = sizes
        self.per_ms = per_ms
        self.period_ms = period_ms
        self.owed = [0.0] * len(sizes)
        self.taken = [0] * len(sizes)
        self.hops: list[Hop] = []
        for number in range(len(sizes)):
            gate = Gate(f"chan:{number}", self.clock, GateObserver())
            hop = Hop(gate.name, LAYER_CHANNEL, gate, "queue:/q", LAYER_QUEUE, self.receiver)
            strategy.wire(hop)
            self.hops.append(hop)

    def run(self, milliseconds: int) -> None:
        for at in range(milliseconds):
            for hop, size in zip(self.hops, self.sizes, strict=True):
                while not hop.is_closed:
                    self.strategy.charge(hop, self.origin, 1, size)
            self.clock.advance(MS_NS)
            self.owed = [owed + self.per_ms * KIB for owed in self.owed]
            if (at + 1) % self.period_ms == 0:
                self.take()

    def take(self) -> None:
        for number, (hop, size) in enumerate(zip(self.hops, self.sizes, strict=True)):
            count = min(int(self.owed[number] // size), int(hop.in_flight))
            if count > 0:
                self.owed[number] -= count * size
                self.strategy.repay(hop, self.origin, count, count * size)
                self.taken[number] += count
            hop.check()


def test_the_window_of_a_slow_receiver_falls_to_the_floor() -> None:
    """One message a millisecond is taken as soon as it comes: nothing more is needed."""
    line = Line((KIB,), 1.0)
    line.run(3000)
    assert line.taken[0] >= 2990, "it never waits for work"
    assert line.hops[0].window_bytes == ADAPTIVE_BYTES_MIN.default
    assert ADAPTIVE_MESSAGES_MIN.default <= line.hops[0].window <= 16


def test_a_fast_receiver_gets_all_it_can_take_within_a_fraction_of_a_second() -> None:
    line = Line((KIB,), 300.0)
    line.run(300)
    before = line.taken[0]
    line.run(100)
    assert line.taken[0] - before >= 27_000
    assert line.hops[0].window >= 300


def test_a_receiver_that_commits_in_groups_is_not_taken_for_a_slow_one() -> None:
    """200 messages every 20 ms: what it takes at once, and what drains within the target, is the
    window; and no more."""
    line = Line((KIB,), 10.0, period_ms=20)
    line.run(3000)
    assert line.taken[0] >= 0.9 * 10 * 3000
    assert 200 <= line.hops[0].window_bytes // KIB <= 300


def test_what_gathers_while_a_batch_is_written_is_no_queue_in_front_of_the_store() -> None:
    """A sync of 15 ms, and ten messages a millisecond: whenever a batch is safe the next has 150
    messages, far above a reserve of 5 ms, and all of them are needed."""
    clock = ManualClock()
    strategy = ADAPTIVE.strategy()
    origin = Account("conn:a", None, None, 0)
    queue, store = (Gate(name, clock, GateObserver()) for name in ("queue:/q", "store:/"))
    hop = Hop("queue:/q", LAYER_QUEUE, queue, "store:/", LAYER_STORE, store)
    strategy.wire(hop)
    written = taken = 0
    for at_ms in range(3000):
        for _ in range(10):
            if not hop.is_closed:
                strategy.charge(hop, origin, 1, KIB)
        clock.advance(MS_NS)
        if at_ms % 15 == 14:
            strategy.repay(hop, origin, written, written * KIB)
            taken += written
            written = int(hop.in_flight)
            hop.check()
    assert taken >= 29_000, "it never waits for credit"
    assert (hop.window, hop.window_bytes) == (65_536, 64 * 1024 * KIB)


def test_a_window_is_cut_to_what_is_taken_and_the_reserve() -> None:
    """A take leaves nothing that is not needed: 40 messages every 10 ms, and 5 ms of them."""
    line = Line((KIB,), 4.0, period_ms=10)
    line.hops[0].set_window(2000, 500, 2000 * KIB, 500 * KIB)
    line.run(2000)
    assert 40 + 20 - 5 <= line.hops[0].window_bytes // KIB <= 80
    assert line.taken[0] >= 0.98 * 4 * 2000


def test_who_takes_seldom_and_much_is_given_as_much() -> None:
    """1200 messages every 60 ms, as a queue does that waits for a disk or a replica."""
    line = Line((KIB,), 20.0, period_ms=60)
    line.run(600)
    before = line.taken[0]
    line.run(1200)
    assert line.taken[0] - before >= 0.9 * 20 * 1200


def test_a_burst_is_no_reason_to_cut() -> None:
    line = Line((KIB,), 100.0)
    line.run(300)
    wide = int(line.hops[0].window_bytes)
    line.per_ms = 4.0
    for _ in range(5):
        # A whole window at once drains within a hundred milliseconds; then nobody sends.
        while not line.hops[0].is_closed:
            line.strategy.charge(line.hops[0], line.origin, 1, KIB)
        while line.hops[0].in_flight > 0:
            line.clock.advance(MS_NS)
            line.owed[0] += 4.0 * KIB
            line.take()
        line.owed[0] = 0.0
        line.clock.advance(400 * MS_NS)
    assert line.hops[0].window_bytes >= wide


def test_what_one_hop_has_learnt_is_where_the_next_begins() -> None:
    line = Line((KIB,), 300.0)
    line.run(300)
    gate = Gate("chan:late", line.clock, GateObserver())
    late = Hop(gate.name, LAYER_CHANNEL, gate, "queue:/q", LAYER_QUEUE, line.receiver)
    line.strategy.wire(late)
    assert late.window_bytes == line.hops[0].window_bytes
    late.check()


def test_after_a_burst_there_is_a_whole_window_again() -> None:
    line = Line((KIB,), 1.0)
    hop = line.hops[0]
    hop.set_window(100, 25, 400 * KIB, 100 * KIB)
    line.strategy.charge(hop, line.origin, 60, 60 * KIB)
    line.clock.advance(MS_NS)
    line.strategy.repay(hop, line.origin, 60, 60 * KIB)
    assert (hop.done, hop.balance) == (0, 100)


def test_a_receiver_that_becomes_slow_has_its_window_cut_within_a_second() -> None:
    line = Line((KIB,), 100.0)
    line.run(1000)
    wide = int(line.hops[0].window)
    line.per_ms = 1.0
    line.run(int(line.hops[0].in_flight) + 1500)
    assert line.hops[0].window < wide // 4


def test_a_hop_that_never_runs_out_keeps_its_window() -> None:
    line = Line((KIB,), 1.0)
    hop = line.hops[0]
    before = int(hop.window)
    for _ in range(1000):
        line.strategy.charge(hop, line.origin, 1, KIB)
        line.clock.advance(MS_NS)
        line.strategy.repay(hop, line.origin, 1, KIB)
    assert hop.window == before


def test_hops_to_one_receiver_end_with_windows_of_as_many_bytes() -> None:
    line = Line((KIB, KIB, 64 * KIB), 2.0)
    line.run(6000)
    windows = [int(hop.window_bytes) for hop in line.hops]
    assert max(windows) <= 1.5 * min(windows), windows
    assert min(windows) >= 128 * KIB, "two of the largest messages of the others"


def test_nothing_is_raised_for_a_receiver_that_is_held() -> None:
    """It takes at once, and what it takes does not go anywhere."""
    line = Line((KIB,), 300.0)
    for _ in range(30):
        line.receiver.close("store:/", "credit")
        line.run(15)
        line.receiver.open("store:/", "credit")
        line.run(1)
    assert line.taken[0] > 0
    assert line.hops[0].window_bytes == 32 * KIB


def test_a_receiver_that_is_held_for_a_moment_keeps_its_windows() -> None:
    line = Line((KIB,), 300.0)
    line.run(200)
    wide = int(line.hops[0].window_bytes)
    for _ in range(10):
        line.receiver.close("consumers:/q", "depth")
        line.run(20)
        line.receiver.open("consumers:/q", "depth")
        line.run(135)
    assert line.hops[0].window_bytes >= wide


def test_windows_that_are_off_stay_off() -> None:
    line = Line((KIB,), 1000.0)
    hop = line.hops[0]
    hop.set_window(0, 0, 0, 0)
    for _ in range(500):
        line.strategy.charge(hop, line.origin, 10, 10 * KIB)
        line.clock.advance(MS_NS)
        line.strategy.repay(hop, line.origin, 10, 10 * KIB)
    assert (hop.window, hop.window_bytes) == (0, 0)
    assert not hop.is_closed


def test_the_last_hop_takes_its_receivers_page_with_it() -> None:
    line = Line((KIB, KIB), 1.0)
    assert len(line.strategy.pools) == 1
    line.strategy.forget(line.hops[0], line.origin)
    assert len(line.strategy.pools) == 1
    line.strategy.forget(line.hops[1], line.origin)
    assert not line.strategy.pools
    line.strategy.charge(line.hops[1], line.origin, 1, KIB)
    line.strategy.repay(line.hops[1], line.origin, 1, KIB)
    line.hops[1].check()


def test_a_mended_hop_is_measured_again() -> None:
    line = Line((KIB,), 1.0)
    line.strategy.charge(line.hops[0], line.origin, 3, KIB)
    line.strategy.repair(line.hops[0], line.origin)
    assert line.hops[0].notes is not None
    assert line.hops[0].in_flight == 0
    assert len(line.strategy.pools) == 1


def test_a_cut_is_a_half_at_most_and_an_eighth_at_least() -> None:
    assert cut(1000, 0) == 500
    assert cut(1000, 700) == 700
    assert cut(1000, 5000) == 875


def test_a_raise_is_fourfold_at_first_and_then_adds() -> None:
    assert raised(100_000, True) == 400_000
    assert raised(100_000, False) == 125_000
    assert raised(20_000, False) == 28_192


@pytest.mark.parametrize(
    ("window", "mean", "messages"),
    [
        (1024 * KIB, 896, KIB),
        (64 * KIB, KIB * KIB, ADAPTIVE_MESSAGES_MIN.default),
        (ADAPTIVE_BYTES_MAX.default, 0, ADAPTIVE_MESSAGES_MAX.default),
    ],
)
def test_messages_follow_from_bytes(window: int, mean: int, messages: int) -> None:
    assert messages_for(window, mean) == messages


def test_the_floor_is_two_of_the_largest_messages_where_there_are_others() -> None:
    pool = Pool(0)
    pool.hops = 2
    assert pool.floor() == ADAPTIVE_BYTES_MIN.default
    pool.large = 1 << 20
    assert pool.floor() == 2 << 20
    pool.large = 1 << 40
    assert pool.floor() == ADAPTIVE_BYTES_MAX.default
    pool.hops = 1
    assert pool.floor() == ADAPTIVE_BYTES_MIN.default


def test_a_pool_forgets_what_is_two_periods_old() -> None:
    pool = Pool(0)
    pool.hops = 2
    pool.large = 1 << 20
    pool.roll(PERIOD_NS)
    assert pool.floor() == 2 << 20
    pool.roll(2 * PERIOD_NS)
    assert pool.floor() == ADAPTIVE_BYTES_MIN.default


def test_within_its_bounds() -> None:
    assert [within(value, 2, 4) for value in (1, 2, 3, 4, 5)] == [2, 2, 3, 4, 4]
