"""flow/account: debts, marks, nesting, the end of a page."""

import pytest

from penstock.base.clock import ManualClock
from penstock.flow.account import Account
from penstock.flow.gate import Gate, GateObserver


def test_above_its_high_mark_it_holds_and_at_half_of_it_it_lets_go() -> None:
    gate = Gate("conn:a", ManualClock(), GateObserver())
    account = Account("conn:a", None, gate, 100)
    account.charge(1, 100)
    assert gate.is_open, "at the mark is not above it"
    account.charge(1, 1)
    assert [(peer, reason) for peer, reason, _ in gate.snapshot()] == [("conn:a", "debt")]
    account.repay(1, 50)
    assert not gate.is_open
    account.repay(1, 1)
    assert gate.is_open


def test_more_than_was_charged_cannot_be_repaid() -> None:
    account = Account("conn:a", None, None, 0)
    account.charge(1, 10)
    with pytest.raises(AssertionError, match="repaid more than was charged"):
        account.repay(1, 11)


def test_a_parent_owes_what_its_children_owe() -> None:
    node = Account("node", None, None, 0)
    vhost = Account("vhost:/", node, None, 0)
    for name in ("conn:a", "conn:b"):
        Account(name, vhost, None, 0).charge(2, 30)
    node.charge(1, 1)
    assert (node.total_messages(), node.total_bytes()) == (5, 61)
    assert (vhost.total_messages(), vhost.total_bytes()) == (4, 60)


def test_a_page_that_ends_leaves_its_children_to_its_parent() -> None:
    node = Account("node", None, None, 0)
    vhost = Account("vhost:/", node, None, 0)
    child = Account("conn:a", vhost, None, 0)
    child.charge(1, 5)
    vhost.close()
    assert child.parent is node
    assert list(node.children) == ["conn:a"]
    assert node.total_bytes() == 5
