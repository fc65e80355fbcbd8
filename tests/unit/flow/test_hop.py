"""flow/hop: wiring, live windows, epochs, the check of its own books."""

import pytest

from penstock.base.clock import ManualClock
from penstock.base.errors import OperatorError
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Window
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import LAYER_CHANNEL, LAYER_QUEUE, Hop


def new(initial: int, more: int, initial_bytes: int = 0, more_bytes: int = 0) -> Hop:
    clock = ManualClock()
    sender = Gate("chan:a/1", clock, GateObserver())
    receiver = Gate("queue:/q", clock, GateObserver())
    hop = Hop("chan:a/1", LAYER_CHANNEL, sender, "queue:/q", LAYER_QUEUE, receiver)
    hop.set_window(initial, more, initial_bytes, more_bytes)
    return hop


def credit() -> Credit:
    return Credit("credit", Window(1, 1, "messages"), Window(0, 0, "bytes"))


@pytest.mark.parametrize("layer", [LAYER_QUEUE, LAYER_CHANNEL])
def test_a_hop_that_leads_nowhere_downstream_is_refused(layer: int) -> None:
    gate = Gate("queue:/q", ManualClock(), GateObserver())
    with pytest.raises(OperatorError, match="hops must lead downstream"):
        Hop("queue:/q", LAYER_QUEUE, gate, "chan:a/1", layer, gate)


def test_a_smaller_window_holds_the_sender_until_enough_is_repaid() -> None:
    hop, account, strategy = new(10, 5), Account("conn:a", None, None, 0), credit()
    for _ in range(8):
        strategy.charge(hop, account, 1, 1)
    hop.set_window(4, 2, 0, 0)
    assert hop.balance == -4
    assert not hop.sender_gate.is_open
    strategy.repay(hop, account, 4, 4)
    assert hop.balance == 0
    assert not hop.sender_gate.is_open
    strategy.repay(hop, account, 2, 2)
    assert hop.sender_gate.is_open
    hop.check()


def test_a_smaller_quantum_grants_at_once_what_is_due() -> None:
    """Nothing is in flight, so no repay will come: the sender would wait for ever."""
    hop, account, strategy = new(10, 10), Account("conn:a", None, None, 0), credit()
    for _ in range(9):
        strategy.charge(hop, account, 1, 1)
    strategy.repay(hop, account, 9, 9)
    assert hop.done == 9
    hop.set_window(5, 5, 0, 0)
    assert hop.in_flight == 0
    assert hop.balance == 1
    assert hop.done == 4
    assert hop.sender_gate.is_open
    hop.check()


def test_what_is_due_is_kept_while_the_receiver_is_held() -> None:
    hop, account, strategy = new(4, 2, 400, 100), Account("conn:a", None, None, 0), credit()
    hop.receiver_gate.close("store:/", "credit")
    for _ in range(3):
        strategy.charge(hop, account, 1, 150)
    strategy.repay(hop, account, 3, 450)
    assert (hop.balance, hop.done, hop.deferred) == (1, 1, 2)
    assert (hop.balance_bytes, hop.done_bytes, hop.deferred_bytes) == (-50, 50, 400)
    assert hop.receiver_gate.deferred == [hop]
    hop.receiver_gate.open("store:/", "credit")
    assert (hop.balance, hop.balance_bytes) == (3, 350)
    hop.check()


def test_bytes_alone_close_the_gate() -> None:
    hop, account, strategy = new(100, 50, 1000, 500), Account("conn:a", None, None, 0), credit()
    strategy.charge(hop, account, 1, 999)
    assert hop.sender_gate.is_open
    strategy.charge(hop, account, 1, 1)
    assert not hop.sender_gate.is_open
    assert hop.balance == 98
    assert hop.blocks == 1


def test_the_dead_leave_nothing_in_the_receivers_gate() -> None:
    """A queue that stays deep would otherwise keep every short-lived publisher alive."""
    hop, account, strategy = new(4, 2), Account("conn:a", None, None, 0), credit()
    hop.receiver_gate.close("consumers:/q", "depth")
    strategy.charge(hop, account, 2, 2)
    strategy.repay(hop, account, 2, 2)
    assert hop.receiver_gate.deferred == [hop]
    strategy.forget(hop, account)
    assert hop.receiver_gate.deferred == []
    assert hop.balance == 4


def test_a_grant_of_an_earlier_life_is_ignored() -> None:
    hop, account, strategy = new(4, 2), Account("conn:a", None, None, 0), credit()
    life = int(hop.epoch)
    strategy.charge(hop, account, 1, 1)
    strategy.forget(hop, account)
    hop.grant(2, 0, life)
    assert hop.balance == 4
    assert account.debt_messages == 0


@pytest.mark.parametrize("field", ["balance", "balance_bytes"])
def test_the_check_names_the_hop_whose_books_are_wrong(field: str) -> None:
    hop = new(4, 2, 400, 200)
    setattr(hop, field, 17)
    with pytest.raises(AssertionError, match="chan:a/1 -> queue:/q: 17"):
        hop.check()
