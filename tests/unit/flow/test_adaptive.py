"""flow/adaptive: windows against receivers whose speed is known, and the steps of the rule."""

import pytest

from penstock.base.clock import ManualClock
from penstock.base.flow_limits import (
    ADAPTIVE_BYTES_MAX,
    ADAPTIVE_BYTES_MIN,
    ADAPTIVE_MESSAGES_MAX,
    ADAPTIVE_MESSAGES_MIN,
)
from penstock.flow.account import Account
from penstock.flow.adaptive import Adaptive, Pool, cut, messages_for, raised, within
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import LAYER_CHANNEL, LAYER_QUEUE, Hop
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


def test_the_window_of_a_slow_receiver_falls_to_what_the_target_allows() -> None:
    """One message a millisecond, a target of 5 ms and a base of at most 25: about 30 messages. A
    sample may see as little as half of the true delay, so the window is within twice that."""
    line = Line((KIB,), 1.0)
    line.run(3000)
    assert line.taken[0] >= 2990, "it never waits for work"
    assert 8 <= line.hops[0].window <= 64


def test_a_fast_receiver_gets_all_it_can_take_within_a_fraction_of_a_second() -> None:
    line = Line((KIB,), 300.0)
    line.run(300)
    before = line.taken[0]
    line.run(100)
    assert line.taken[0] - before >= 27_000
    assert line.hops[0].window >= 300


def test_a_receiver_that_commits_in_groups_is_not_taken_for_a_slow_one() -> None:
    """Everything every 20 ms: the delay is in its nature, and the window must span it."""
    line = Line((KIB,), 10.0, period_ms=20)
    line.run(3000)
    assert line.taken[0] >= 0.8 * 10 * 3000


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


def test_deferred_grants_count_as_delay() -> None:
    """The receiver takes at once, but is held itself: what it takes does not go anywhere."""
    line = Line((KIB,), 300.0)
    line.run(200)
    wide = int(line.hops[0].window_bytes)
    for _ in range(10):
        line.receiver.close("consumers:/q", "depth")
        line.run(150)
        line.receiver.open("consumers:/q", "depth")
        line.run(5)
    assert line.hops[0].window_bytes < wide // 2


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


def test_a_raise_doubles_at_first_and_then_adds() -> None:
    assert raised(100_000, True, False) == 200_000
    assert raised(100_000, False, False) == 108_192
    assert raised(100_000, False, True) == 125_000


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


def test_a_share_is_the_drain_rate_times_the_limit_over_the_hops() -> None:
    pool = Pool(0)
    pool.bytes_ = 10_000_000
    pool.used_up = 4
    pool.roll(1_000_000_000, 100_000_000)
    assert pool.share(10_000_000) == pytest.approx(25_000, rel=0.01)
    assert pool.floor() == ADAPTIVE_BYTES_MIN.default
    pool.large = 1 << 20
    assert pool.floor() == 2 << 20, "two of the largest messages"
    pool.large = 1 << 40
    assert pool.floor() == ADAPTIVE_BYTES_MAX.default


def test_within_its_bounds() -> None:
    assert [within(value, 2, 4) for value in (1, 2, 3, 4, 5)] == [2, 2, 3, 4, 4]
