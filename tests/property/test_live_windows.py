"""Law 1 while windows change live, at random and by the adaptive rule (scenario 120).

Machine: three senders in layer 1 that obey their gates or, forced, do not, one receiver that is
held now and then, and somebody who writes windows of any size at any time. After every step the
books of every hop add up to the window it has now; nothing under way is ever touched; a sender is
held exactly while its balance is spent; and when everything was taken nobody waits.
"""

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.clock import ManualClock
from penstock.flow.account import Account
from penstock.flow.adaptive import Adaptive
from penstock.flow.credit import Credit, Window
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import KIND_CHANNEL_QUEUE, Hop

SENDERS = 3

window_pairs = st.one_of(
    st.just((0, 0)),
    st.tuples(st.integers(1, 60), st.integers(0, 60)).map(lambda p: (p[0] + p[1], p[0])),
)
steps = st.lists(
    st.tuples(
        st.sampled_from(
            (
                "send",
                "send",
                "force",
                "take",
                "take",
                "hold",
                "free",
                "size",
                "bytes",
                "time",
                "die",
            )
        ),
        st.integers(0, SENDERS - 1),
        st.integers(1, 40),
        window_pairs,
    ),
    max_size=80,
)


class Machine:
    def __init__(self, strategy: Credit) -> None:
        self.clock = ManualClock()
        self.strategy = strategy
        self.origin = Account("conn:a", None, None, 0)
        self.receiver = Gate("queue:/q", self.clock, GateObserver())
        self.hops: list[Hop] = []
        self.costs: list[list[int]] = []
        for number in range(SENDERS):
            gate = Gate(f"chan:{number}", self.clock, GateObserver())
            hop = Hop(gate.name, 1, gate, "queue:/q", 3, self.receiver)
            strategy.wire(hop)
            self.hops.append(hop)
            self.costs.append([])

    def check(self) -> None:
        for hop, costs in zip(self.hops, self.costs, strict=True):
            hop.check()
            assert (hop.in_flight, hop.in_flight_bytes) == (len(costs), sum(costs))
            spent = (hop.window > 0 and hop.balance <= 0) or (
                hop.window_bytes > 0 and hop.balance_bytes <= 0
            )
            assert hop.is_closed == spent == (not hop.sender_gate.is_open)
        assert self.origin.debt_messages == sum(len(costs) for costs in self.costs)

    def send(self, at: int, cost: int, is_forced: bool) -> None:
        hop = self.hops[at]
        if is_forced or hop.sender_gate.is_open:
            self.strategy.charge(hop, self.origin, 1, cost)
            self.costs[at].append(cost)

    def take(self, at: int, count: int) -> None:
        taken = self.costs[at][:count]
        if taken:
            del self.costs[at][:count]
            self.strategy.repay(self.hops[at], self.origin, len(taken), sum(taken))

    def size(self, pair: tuple[int, int], is_bytes: bool) -> None:
        kind = KIND_CHANNEL_QUEUE
        window, bytes_window = self.strategy.windows[kind], self.strategy.bytes_windows[kind]
        if is_bytes:
            bytes_window = Window(pair[0] * 20, pair[1] * 20, "bytes")
        else:
            window = Window(pair[0], pair[1], "messages")
        self.strategy.set_windows(kind, window, bytes_window)
        before = [(int(hop.in_flight), int(hop.in_flight_bytes)) for hop in self.hops]
        for hop in self.hops:
            self.strategy.resize(hop)
            assert hop.window == window.initial
            assert hop.window_bytes == bytes_window.initial
        assert before == [(int(hop.in_flight), int(hop.in_flight_bytes)) for hop in self.hops]

    def rest(self) -> None:
        self.receiver.open("consumers:/q", "depth")
        for at in range(SENDERS):
            self.take(at, len(self.costs[at]))
            self.check()
        for hop in self.hops:
            assert hop.sender_gate.is_open, "nobody waits when everything was taken"
            assert hop.deferred == hop.deferred_bytes == 0


def play(machine: Machine, script: list[tuple[str, int, int, tuple[int, int]]]) -> None:
    for kind, at, amount, pair in script:
        if kind in ("send", "force"):
            machine.send(at, amount, kind == "force")
        elif kind == "take":
            machine.take(at, amount)
        elif kind == "hold":
            machine.receiver.close("consumers:/q", "depth")
        elif kind == "free":
            machine.receiver.open("consumers:/q", "depth")
        elif kind in ("size", "bytes"):
            machine.size(pair, kind == "bytes")
        elif kind == "time":
            machine.clock.advance(amount * 10_000_000)
        else:
            machine.strategy.forget(machine.hops[at], machine.origin)
            machine.strategy.wire(machine.hops[at])
            machine.costs[at].clear()
        machine.check()
    machine.rest()


@given(window_pairs, window_pairs, steps)
def test_no_credit_is_lost_and_none_comes_from_nowhere_when_windows_are_written(
    pair: tuple[int, int],
    bytes_pair: tuple[int, int],
    script: list[tuple[str, int, int, tuple[int, int]]],
) -> None:
    window, bytes_window = Window(*pair, "messages"), Window(*bytes_pair, "bytes")
    play(Machine(Credit("credit", window, bytes_window)), script)


@given(window_pairs, steps)
def test_nor_when_they_adapt(
    pair: tuple[int, int], script: list[tuple[str, int, int, tuple[int, int]]]
) -> None:
    strategy = Adaptive("adaptive", Window(*pair, "messages"), Window(400, 200, "bytes"))
    strategy.target_ns = 20_000_000
    strategy.interval_ns = 30_000_000
    play(Machine(strategy), script)
