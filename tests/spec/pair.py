"""Two processes and the hop between them, driven by hand: the stage of the primitive scenarios."""

from penstock.base.clock import ManualClock
from penstock.flow.account import Account
from penstock.flow.credit import Strategy
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import Hop
from penstock.flow.profile import Profile

REASON = "credit"


class Wire:
    """One hop A -> B under a profile: `send` at A, `take` at B, one message of 100 bytes each."""

    def __init__(
        self, strategy: Strategy, sender: Gate, receiver: Gate, origin: Account, layer: int = 0
    ) -> None:
        self.strategy = strategy
        self.origin = origin
        self.hop = Hop(sender.name, layer, sender, receiver.name, layer + 1, receiver)
        strategy.wire(self.hop)

    def send(self, count: int) -> None:
        for _ in range(count):
            self.strategy.charge(self.hop, self.origin, 1, 100)
            self.hop.check()

    def take(self, count: int) -> None:
        """One at a time, as a mailbox is drained."""
        for _ in range(count):
            self.take_at_once(1)

    def take_at_once(self, count: int) -> None:
        self.strategy.repay(self.hop, self.origin, count, 100 * count)
        self.hop.check()

    def die(self) -> None:
        """The receiver is gone."""
        self.strategy.forget(self.hop, self.origin)
        self.hop.check()

    @property
    def credit(self) -> int:
        return int(self.hop.balance)


class Processes:
    """Gates by name, a clock and one account for all of them."""

    def __init__(self, profile: Profile) -> None:
        self.clock = ManualClock()
        self.strategy = profile.strategy()
        self.origin = Account("conn:a", None, None, 0)
        self.gates: dict[str, Gate] = {}

    def gate(self, name: str) -> Gate:
        if name not in self.gates:
            self.gates[name] = Gate(name, self.clock, GateObserver())
        return self.gates[name]

    def wire(self, sender: str, receiver: str, layer: int = 0) -> Wire:
        return Wire(self.strategy, self.gate(sender), self.gate(receiver), self.origin, layer)

    def blockers(self, name: str) -> list[str]:
        return [peer for peer, _, _ in self.gate(name).snapshot()]
