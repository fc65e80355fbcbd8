"""A random graph of hops with naive twins beside it, for the properties of flow control.

Nodes in layers, hops only downstream, an obedient source in layer 0 and middlemen that do not obey
(they go on while their gate is closed), as in RabbitMQ. Two causes pay for what is under way.
Steps: hand over, repay some, close and open gates for reasons of their own, a receiver dies, a
window changes live, time passes. The strategy is that of any profile, its windows made small.
"""

from dataclasses import replace

from hypothesis import strategies as st

from penstock.base.clock import ManualClock
from penstock.flow.account import Account
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import Hop
from penstock.flow.profile import PROFILES, Profile

NODES = 5
Step = tuple[str, int, int]
"""(kind, which hop or gate, how many or how large)."""


class Twin:
    """What one hop ought to be: sums of what was done to it in this life. widest: the window that
    what is under way was admitted by."""

    def __init__(self) -> None:
        self.costs: list[int] = []
        self.widest = 0


class Machine:
    """The graph, its books and their twins."""

    def __init__(self, profile: Profile, pairs: set[tuple[int, int]]) -> None:
        self.clock = ManualClock()
        self.strategy = profile.strategy()
        self.gates = [Gate(f"n{at}", self.clock, GateObserver()) for at in range(NODES)]
        self.node = Account("node", None, None, 0)
        high = profile.account_high_bytes
        self.accounts = [
            Account("conn:a", self.node, self.gates[0], high),
            Account("conn:b", self.node, None, 0),
        ]
        for account in self.accounts:
            self.strategy.join(account)
        self.hops: list[Hop] = []
        self.twins: list[Twin] = []
        for first, second in sorted(pairs):
            hop = Hop(
                f"n{first}", first, self.gates[first], f"n{second}", second, self.gates[second]
            )
            self.strategy.wire(hop)
            self.hops.append(hop)
            self.twins.append(Twin())
        self.note_windows()

    def origin(self, at: int) -> Account:
        """Who pays on hop `at`; the source's own hops are paid by the account that holds it."""
        return self.accounts[0 if self.hops[at].sender == "n0" else at % 2]

    def do(self, step: Step) -> None:
        kind, number, amount = step
        at = number % len(self.hops)
        gate = self.gates[number % NODES]
        if kind == "send":
            self.hand_over(at, amount)
        elif kind == "repay":
            self.repay(at, amount % 7 + 1)
        elif kind == "close":
            gate.close("somebody", "mood")
        elif kind == "open":
            gate.open("somebody", "mood")
        elif kind == "die":
            self.forget(at)
        elif kind == "wait":
            self.clock.advance(amount * 1000)
        elif self.hops[at].window > 0:
            hop = self.hops[at]
            more = min(amount, int(hop.more_after))
            hop.set_window(amount, more, int(hop.window_bytes), int(hop.more_after_bytes))
        self.note_windows()

    def note_windows(self) -> None:
        for hop, twin in zip(self.hops, self.twins, strict=True):
            if hop.in_flight <= hop.window:
                twin.widest = int(hop.window)
            twin.widest = max(twin.widest, int(hop.window))

    def hand_over(self, at: int, cost: int) -> None:
        hop = self.hops[at]
        if hop.sender == "n0":
            self.strategy.before_read(self.origin(at))
            if not hop.sender_gate.is_open:
                return
        self.strategy.charge(hop, self.origin(at), 1, cost)
        self.twins[at].costs.append(cost)

    def repay(self, at: int, count: int) -> None:
        taken = self.twins[at].costs[:count]
        if taken:
            del self.twins[at].costs[:count]
            self.strategy.repay(self.hops[at], self.origin(at), len(taken), sum(taken))

    def forget(self, at: int) -> None:
        self.strategy.forget(self.hops[at], self.origin(at))
        self.twins[at].costs.clear()

    def rest(self) -> None:
        """Every receiver takes everything, and nobody gives reasons of his own any more."""
        for gate in self.gates:
            gate.open("somebody", "mood")
        for at in sorted(range(len(self.hops)), key=lambda at: -int(self.hops[at].receiver[1])):
            self.repay(at, len(self.twins[at].costs))


def is_spent(hop: Hop) -> bool:
    """Whether a balance that has a window is used up."""
    return (hop.window > 0 and hop.balance <= 0) or (
        hop.window_bytes > 0 and hop.balance_bytes <= 0
    )


@st.composite
def small_profiles(draw: st.DrawFn, name: str | None = None) -> Profile:
    """Any profile that there is, or the one called `name`, with windows of a few messages."""
    profile = PROFILES[name or draw(st.sampled_from(sorted(PROFILES)))]
    if profile.credit_initial:
        more = draw(st.integers(1, 9))
        profile = profile.with_messages(more + draw(st.integers(0, 9)), more)
    if profile.credit_bytes_initial:
        more = draw(st.integers(1, 90))
        profile = profile.with_bytes(more + draw(st.integers(0, 90)), more)
    if profile.account_high_bytes:
        profile = replace(profile, account_high_bytes=draw(st.sampled_from((50, 1 << 20))))
    return replace(profile, target_ns=draw(st.integers(1, 10**6)), interval_ns=5000)


graphs = st.sets(
    st.tuples(st.integers(0, NODES - 2), st.integers(1, NODES - 1)).filter(lambda p: p[0] < p[1]),
    min_size=1,
)
KINDS = ("send", "send", "send", "repay", "repay", "close", "open", "die", "size", "wait")
steps = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 99), st.integers(1, 60)), max_size=80
)
