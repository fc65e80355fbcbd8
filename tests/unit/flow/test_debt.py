"""flow/profile: one mark, a whole read, and nobody waits inside."""

from penstock.base.clock import ManualClock
from penstock.flow.account import Account
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import Hop
from penstock.flow.strategy import Debt


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
