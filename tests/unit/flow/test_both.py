"""flow/pending: one strategy keeps the books, rules are told of every change of them."""

from penstock.base.clock import ManualClock
from penstock.flow.account import Account
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import Hop
from penstock.flow.pending import Both, SoftLimit
from penstock.flow.profile import ADAPTIVE
from penstock.flow.strategy import Strategy


class Listening(SoftLimit):
    """Writes down what it is told, with what the books say at that moment."""

    def __init__(self) -> None:
        super().__init__(1)
        self.told: list[tuple[str, int]] = []

    def wired(self, hop: Hop) -> None:
        self.told.append(("wired", int(hop.in_flight)))

    def charged(self, hop: Hop, messages: int, bytes_: int) -> None:
        self.told.append(("charged", int(hop.in_flight)))

    def repaid(self, hop: Hop, messages: int, bytes_: int) -> None:
        self.told.append(("repaid", int(hop.in_flight)))

    def forgotten(self, hop: Hop) -> None:
        self.told.append(("forgotten", int(hop.in_flight)))


def test_every_rule_hears_of_everything_after_the_books_have_it() -> None:
    rules = [Listening(), Listening()]
    strategy = Both("both", Strategy("none"), [rules[0], rules[1]])
    clock = ManualClock()
    sender, receiver = (Gate(name, clock, GateObserver()) for name in ("a", "b"))
    hop = Hop("a", 0, sender, "b", 1, receiver)
    origin = Account("conn:a", None, None, 0)
    strategy.wire(hop)
    strategy.charge(hop, origin, 3, 30)
    strategy.repay(hop, origin, 2, 20)
    strategy.forget(hop, origin)
    expected = [("wired", 0), ("charged", 3), ("repaid", 1), ("forgotten", 0)]
    assert [rule.told for rule in rules] == [expected, expected]
    assert origin.debt_messages == origin.debt_bytes == 0, "charged once, not once for each rule"


def test_who_is_passed_is_the_matter_of_the_books() -> None:
    strategy = Both("both", ADAPTIVE.strategy(), [])
    clock = ManualClock()
    sender, receiver = (Gate(name, clock, GateObserver()) for name in ("a", "b"))
    hop = Hop("a", 1, sender, "b", 3, receiver)
    strategy.wire(hop)
    strategy.charge(hop, Account("conn:a", None, None, 0), 32, 3200)
    assert hop.is_closed
    strategy.passed([hop])
    assert not hop.is_closed
