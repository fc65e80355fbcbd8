"""flow/credit: windows, and what only the edges of charge and repay show."""

import pytest

from penstock.base.clock import ManualClock
from penstock.base.errors import OperatorError
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Window
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import Hop


def wired(window: Window, bytes_window: Window) -> tuple[Credit, Hop, Account]:
    clock = ManualClock()
    hop = Hop("a", 0, Gate("a", clock, GateObserver()), "b", 1, Gate("b", clock, GateObserver()))
    strategy = Credit("credit", window, bytes_window)
    strategy.wire(hop)
    return strategy, hop, Account("conn:a", None, None, 0)


@pytest.mark.parametrize(("initial", "more"), [(-1, 1), (1, -1), (0, 1), (1, 0), (4, 5)])
def test_a_window_that_cannot_work_is_refused(initial: int, more: int) -> None:
    with pytest.raises(OperatorError, match="credit window"):
        Window(initial, more, "messages")


def test_repaying_more_than_is_in_flight_is_a_bug() -> None:
    strategy, hop, account = wired(Window(4, 2, "messages"), Window(0, 0, "bytes"))
    strategy.charge(hop, account, 1, 10)
    with pytest.raises(AssertionError, match="repaid more than was charged"):
        strategy.repay(hop, account, 2, 20)


def test_a_dimension_that_is_off_never_closes() -> None:
    strategy, hop, account = wired(Window(0, 0, "messages"), Window(100, 50, "bytes"))
    for _ in range(99):
        strategy.charge(hop, account, 1, 1)
    assert hop.sender_gate.is_open
    strategy.charge(hop, account, 1, 1)
    assert not hop.sender_gate.is_open
    strategy.repay(hop, account, 50, 50)
    assert hop.sender_gate.is_open
    hop.check()


def test_one_message_may_be_larger_than_the_window() -> None:
    strategy, hop, account = wired(Window(10, 5, "messages"), Window(100, 50, "bytes"))
    strategy.charge(hop, account, 1, 1000)
    assert hop.balance_bytes == -900
    strategy.repay(hop, account, 1, 1000)
    assert hop.balance_bytes == 100
    assert hop.sender_gate.is_open


def test_the_gate_closes_once_however_far_the_overshoot_goes() -> None:
    strategy, hop, account = wired(Window(3, 1, "messages"), Window(0, 0, "bytes"))
    for _ in range(9):
        strategy.charge(hop, account, 1, 0)
    assert hop.blocks == 1
    assert hop.balance == -6
