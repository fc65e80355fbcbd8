"""flow/pending: the soft limit of commands that are not yet applied, ours and RabbitMQ's."""

import pytest

from penstock.base.clock import ManualClock
from penstock.base.errors import OperatorError
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Strategy, Window
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import Hop
from penstock.flow.pending import Both, EmulatedSoftLimit, SoftLimit, pending_strategy

ORIGIN = Account("conn:a", None, None, 0)


def wired(strategy: Both) -> Hop:
    clock = ManualClock()
    sender, receiver = (Gate(name, clock, GateObserver()) for name in ("chan:a/1", "queue:/q"))
    hop = Hop("chan:a/1", 1, sender, "queue:/q", 3, receiver)
    strategy.wire(hop)
    return hop


@pytest.mark.parametrize("is_emulating", [False, True])
def test_it_holds_above_the_limit_and_lets_go_below_it(is_emulating: bool) -> None:
    strategy = pending_strategy(3, is_emulating)
    hop = wired(strategy)
    is_open = []
    for _ in range(5):
        strategy.charge(hop, ORIGIN, 1, 10)
        is_open.append(hop.sender_gate.is_open)
    for _ in range(5):
        strategy.repay(hop, ORIGIN, 1, 10)
        is_open.append(hop.sender_gate.is_open)
    assert is_open == [True, True, True, False, False, False, False, True, True, True]


def test_a_dead_queue_lets_go() -> None:
    for is_emulating in (False, True):
        strategy = pending_strategy(1, is_emulating)
        hop = wired(strategy)
        strategy.charge(hop, ORIGIN, 2, 20)
        assert not hop.sender_gate.is_open
        strategy.forget(hop, ORIGIN)
        assert hop.sender_gate.is_open
        assert hop.in_flight == 0


def test_it_is_laid_over_credit_and_reasons_keep_them_apart() -> None:
    credit = Credit("credit", Window(4, 2, "messages"), Window(0, 0, "bytes"))
    strategy = Both("both", credit, [SoftLimit(2)])
    hop = wired(strategy)
    strategy.charge(hop, ORIGIN, 4, 40)
    reasons = {reason for _, reason, _ in hop.sender_gate.snapshot()}
    assert reasons == {"credit", "pending"}
    strategy.repay(hop, ORIGIN, 2, 20)
    assert {reason for _, reason, _ in hop.sender_gate.snapshot()} == {"pending"}
    strategy.repay(hop, ORIGIN, 1, 10)
    assert hop.sender_gate.is_open
    hop.check()


def test_a_limit_is_at_least_one() -> None:
    for rule in (SoftLimit, EmulatedSoftLimit):
        with pytest.raises(OperatorError, match="pending limit 0"):
            rule(0)


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
