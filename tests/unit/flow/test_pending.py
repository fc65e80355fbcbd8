"""flow/pending: the soft limit of commands that are not yet applied, ours and RabbitMQ's."""

import pytest

from penstock.base.clock import ManualClock
from penstock.base.errors import OperatorError
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Window
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
