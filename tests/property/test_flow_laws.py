"""Laws 1, 2, 3 and 8 of flow control, over random interleavings on random acyclic graphs.

Law 4 is asserted by simulation/checks, law 6 by tests/simulation/test_liveness, the refusal of
cycles in scenario 19; of law 5 only the marks of one account are tested here.

Machine: nodes in layers, hops only downstream, an obedient source in layer 0 and middlemen that do
not obey (they go on while their gate is closed), as in RabbitMQ. Steps: hand over, repay some,
close and open gates for reasons of their own, a receiver dies, a window changes live. After every
step the laws are compared with a naive twin that only counts.
"""

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.clock import ManualClock
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Window
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import Hop

NODES = 5


class Twin:
    """What one hop ought to be: sums of what was done to it in this life."""

    def __init__(self) -> None:
        self.costs: list[int] = []


class Machine:
    """The graph, its books and their twins."""

    def __init__(self, pairs: set[tuple[int, int]], window: Window, bytes_window: Window) -> None:
        self.clock = ManualClock()
        self.node = Account("node", None, None, 0)
        self.account = Account("conn:a", self.node, None, 0)
        self.strategy = Credit("credit", window, bytes_window)
        self.gates = [Gate(f"n{at}", self.clock, GateObserver()) for at in range(NODES)]
        self.hops: list[Hop] = []
        self.twins: list[Twin] = []
        for first, second in sorted(pairs):
            hop = Hop(
                f"n{first}", first, self.gates[first], f"n{second}", second, self.gates[second]
            )
            self.strategy.wire(hop)
            self.hops.append(hop)
            self.twins.append(Twin())

    def check(self) -> None:
        messages = bytes_ = 0
        for hop, twin in zip(self.hops, self.twins, strict=True):
            hop.check()
            assert hop.in_flight == len(twin.costs)
            assert hop.in_flight_bytes == sum(twin.costs)
            messages += len(twin.costs)
            bytes_ += sum(twin.costs)
            spent = (hop.window > 0 and hop.balance <= 0) or (
                hop.window_bytes > 0 and hop.balance_bytes <= 0
            )
            assert hop.is_closed == spent, "levels, not edges"
            assert hop.is_closed == ((hop.receiver, "credit") in hop.sender_gate.reasons)
            keeps = hop.deferred > 0 or hop.deferred_bytes > 0
            assert not keeps or hop in hop.receiver_gate.deferred
            assert hop.window == 0 or hop.done < hop.more_after, "grants are not put off"
        assert (self.account.debt_messages, self.account.debt_bytes) == (messages, bytes_)
        assert self.node.total_messages() == messages
        for gate in self.gates:
            assert gate.is_open == (not gate.reasons)
            assert not gate.is_open or not gate.deferred, "an open gate keeps nothing"

    def hand_over(self, at: int, cost: int) -> None:
        hop = self.hops[at]
        if hop.sender == "n0" and not hop.sender_gate.is_open:
            return
        self.strategy.charge(hop, self.account, 1, cost)
        self.twins[at].costs.append(cost)
        if hop.sender == "n0" and hop.window > 0:
            assert hop.in_flight <= hop.window, "law 3: bound at the first hop"

    def repay(self, at: int, count: int) -> None:
        taken = self.twins[at].costs[:count]
        if taken:
            del self.twins[at].costs[:count]
            self.strategy.repay(self.hops[at], self.account, len(taken), sum(taken))

    def forget(self, at: int) -> None:
        hop = self.hops[at]
        life = int(hop.epoch)
        self.strategy.forget(hop, self.account)
        self.twins[at].costs.clear()
        assert hop.balance == hop.window
        assert hop.deferred == hop.done == 0
        hop.grant(7, 700, life)
        assert hop.balance == hop.window, "law 8: a late grant is harmless"

    def rest(self) -> None:
        """Every receiver takes everything, and nobody gives reasons of his own any more."""
        for gate in self.gates:
            gate.open("somebody", "mood")
        for at in sorted(range(len(self.hops)), key=lambda at: -int(self.hops[at].receiver[1])):
            self.repay(at, len(self.twins[at].costs))
            self.check()
        assert all(gate.is_open for gate in self.gates), "property 3: no lost wake-up"
        assert self.account.debt_messages == self.account.debt_bytes == 0, "law 2: zero at rest"
        for hop in self.hops:
            assert hop.balance + hop.done == hop.window or hop.window == 0, "no phantom credit"


def windows(unit: str, highest: int) -> st.SearchStrategy[Window]:
    pairs = st.tuples(st.integers(1, highest), st.integers(0, highest))
    on = pairs.map(lambda pair: Window(pair[0] + pair[1], pair[0], unit))
    return st.one_of(st.just(Window(0, 0, unit)), on)


graphs = st.sets(
    st.tuples(st.integers(0, NODES - 2), st.integers(1, NODES - 1)).filter(lambda p: p[0] < p[1]),
    min_size=1,
)
steps = st.lists(
    st.tuples(
        st.sampled_from(("send", "send", "send", "repay", "repay", "close", "open", "die", "size")),
        st.integers(0, 99),
        st.integers(1, 60),
    ),
    max_size=80,
)


@given(graphs, windows("messages", 9), windows("bytes", 90), steps)
def test_laws_hold_after_every_step(
    pairs: set[tuple[int, int]],
    window: Window,
    bytes_window: Window,
    script: list[tuple[str, int, int]],
) -> None:
    machine = Machine(pairs, window, bytes_window)
    for kind, number, amount in script:
        at = number % len(machine.hops)
        gate = machine.gates[number % NODES]
        if kind == "send":
            machine.hand_over(at, amount)
        elif kind == "repay":
            machine.repay(at, amount % 7 + 1)
        elif kind == "close":
            gate.close("somebody", "mood")
        elif kind == "open":
            gate.open("somebody", "mood")
        elif kind == "die":
            machine.forget(at)
        elif kind == "size" and window.initial and machine.hops[at].sender != "n0":
            # Live change of a window; the first hop keeps its own, whose bound is asserted exactly.
            hop = machine.hops[at]
            more = min(amount, int(hop.more_after))
            hop.set_window(amount, more, int(hop.window_bytes), int(hop.more_after_bytes))
        machine.check()
    machine.rest()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=60))
def test_a_gate_is_open_exactly_while_nobody_gives_a_reason(
    script: list[tuple[int, int, bool]],
) -> None:
    gate = Gate("n0", ManualClock(), GateObserver())
    twin: set[tuple[str, str]] = set()
    for peer, reason, is_closing in script:
        key = (f"peer{peer}", f"reason{reason}")
        if is_closing:
            gate.close(*key)
            twin.add(key)
        else:
            gate.open(*key)
            twin.discard(key)
        assert gate.is_open == (not twin)
        assert {(one, why) for one, why, _ in gate.snapshot()} == twin
    for peer in range(3):
        gate.forget(f"peer{peer}")
    assert gate.is_open


@given(
    st.integers(1, 200),
    st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=80),
)
def test_an_account_holds_between_its_marks_only(high: int, script: list[tuple[int, bool]]) -> None:
    """Property 13: held above `high`, free at half of it, unchanged in between."""
    gate = Gate("conn:a", ManualClock(), GateObserver())
    account = Account("conn:a", None, gate, high)
    owed: list[int] = []
    is_held = False
    for cost, is_charge in script:
        if is_charge:
            owed.append(cost)
            account.charge(1, cost)
        elif owed:
            account.repay(1, owed.pop())
        debt = sum(owed)
        is_held = debt > high or (is_held and debt > high // 2)
        assert (account.debt_messages, account.debt_bytes) == (len(owed), debt)
        assert account.is_held == is_held == (not gate.is_open)
