"""flow/strategy: the strategy `none` keeps the books and holds nobody."""

from penstock.base.clock import ManualClock
from penstock.flow.account import Account
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import Hop
from penstock.flow.strategy import Strategy


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
