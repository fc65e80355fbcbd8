"""flow/credit: what only the edges of charge and repay show, windows, and debt."""

import pytest

from penstock.base.clock import ManualClock
from penstock.base.errors import OperatorError
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Debt, Strategy, Window
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import Hop


def test_none_counts_and_never_holds() -> None:
    clock = ManualClock()
    hop = Hop("a", 0, Gate("a", clock, GateObserver()), "b", 1, Gate("b", clock, GateObserver()))
    account = Account("conn:a", None, None, 0)
    strategy = Strategy("none")
    strategy.wire(hop)
    for _ in range(1000):
        strategy.charge(hop, account, 1, 10)
    assert (hop.in_flight, hop.in_flight_bytes) == (1000, 10_000)
    assert (account.debt_messages, account.debt_bytes) == (1000, 10_000)
    assert hop.sender_gate.is_open
    strategy.repay(hop, account, 400, 4000)
    strategy.forget(hop, account)
    assert (account.debt_messages, account.debt_bytes) == (0, 0)
    assert hop.in_flight == 0
    hop.check()


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


def test_only_a_read_is_refused_and_only_above_the_limit() -> None:
    strategy = Debt("debt")
    clock = ManualClock()
    reader, worker = (Gate(name, clock, GateObserver()) for name in ("conn:a", "chan:a/1"))
    account = Account("conn:a", None, reader, 0)
    strategy.join(account)
    account.set_limits(3, strategy.low_of(3), 0, 0)
    hop = Hop("conn:a", 0, reader, "chan:a/1", 1, worker)
    strategy.wire(hop)
    for count in range(1, 8):
        strategy.charge(hop, account, 1, 10)
        assert reader.is_open and worker.is_open, f"{count} messages of one read are all admitted"
    strategy.before_read(account)
    assert not reader.is_open and worker.is_open
    strategy.repay(hop, account, 3, 30)
    assert not reader.is_open, "4 is above 3"
    strategy.repay(hop, account, 1, 10)
    assert reader.is_open, "3 is not"
    strategy.before_read(account)
    assert reader.is_open
    strategy.forget(hop, account)
    assert account.owes_nothing()
