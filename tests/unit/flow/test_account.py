"""flow/account: debts, marks, nesting, the end of a page."""

import pytest

from penstock.base.clock import ManualClock
from penstock.base.errors import OperatorError
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


def gate_of(name: str) -> Gate:
    return Gate(name, ManualClock(), GateObserver())


def page(name: str, parent: Account | None, high_messages: int = 0) -> Account:
    account = Account(name, parent, gate_of(name) if name.startswith("conn:") else None, 0)
    account.set_limits(high_messages, high_messages, 0, 0)
    return account


def holders(account: Account) -> list[str]:
    assert account.gate is not None
    return [peer for peer, reason, _ in account.gate.snapshot() if reason == "debt"]


def test_a_closed_page_stays_until_nothing_of_it_is_left() -> None:
    node = page("node", None)
    account = page("conn:a", node)
    account.charge(1, 5)
    account.store(2, 70)
    account.close()
    account.repay(1, 5)
    assert list(node.children) == ["conn:a"] and node.memory_bytes() == 70
    account.unstore(2, 70)
    assert not node.children


def test_late_work_of_a_page_that_is_gone_lists_it_again_and_under_the_limits_of_today() -> None:
    """Scenario 103: what was scheduled is paid for by who scheduled it, dead or alive."""
    node = page("node", None)
    account = page("conn:a", node)
    other = page("conn:b", node)
    account.close()
    node.set_limits(1, 1, 0, 0)
    account.charge(2, 5)
    assert list(node.children) == ["conn:b", "conn:a"] and node.is_held
    other.charge(1, 1)
    assert holders(other) == ["node"]
    account.repay(2, 5)
    assert list(node.children) == ["conn:b"] and not holders(other)


def test_a_name_that_comes_back_gets_a_page_of_its_own() -> None:
    node = page("node", None)
    first = page("conn:a", node)
    first.store(1, 10)
    first.close()
    second = page("conn:a", node)
    assert len(node.children) == 2 and second.name == "conn:a"
    second.close()
    first.unstore(1, 10)
    assert not node.children


def test_a_limited_parent_holds_all_who_owe_and_names_itself() -> None:
    user = page("user:u@/", page("node", None), 10)
    a, b, idle = page("conn:a", user), page("conn:b", user), page("conn:idle", user)
    a.charge(8, 0)
    b.charge(3, 0)
    assert holders(a) == holders(b) == ["user:u@/"]
    assert holders(idle) == []
    idle.charge(1, 0)
    assert holders(idle) == ["user:u@/"], "it owes now"
    idle.repay(1, 0)
    assert holders(idle) == [], "it owes nothing, and may bring the answers the others wait for"
    a.repay(2, 0)
    assert not user.is_held and holders(a) == holders(b) == []


def test_between_the_marks_of_a_parent_nothing_changes() -> None:
    user = page("user:u@/", None)
    user.set_limits(0, 0, 100, 40)
    a, b = page("conn:a", user), page("conn:b", user)
    a.charge(1, 60)
    b.charge(1, 41)
    a.repay(1, 60)
    assert holders(b) == ["user:u@/"]
    b.repay(0, 1)
    assert holders(b) == []


def test_an_unlimited_ancestor_keeps_no_sum_and_a_limit_starts_from_the_true_one() -> None:
    node = page("node", None)
    user = page("user:u@/", node)
    account = page("conn:a", user)
    account.charge(5, 500)
    assert account.limited is None and user.below_messages == 0
    user.set_limits(4, 2, 0, 0)
    assert (user.below_messages, user.below_bytes) == (5, 500)
    assert account.limited is user and holders(account) == ["user:u@/"]
    node.set_limits(0, 0, 400, 100)
    assert holders(account) == ["user:u@/", "node"]
    account.repay(3, 450)
    assert holders(account) == []
    node.set_limits(0, 0, 0, 0)
    user.set_limits(0, 0, 0, 0)
    assert account.limited is None


def test_a_limit_that_is_taken_away_lets_everybody_go() -> None:
    user = page("user:u@/", None, 1)
    account = page("conn:a", user)
    account.charge(5, 0)
    assert holders(account) == ["user:u@/"]
    user.set_limits(0, 0, 0, 0)
    assert holders(account) == []
    account.repay(5, 0)


def test_a_page_moves_with_its_debt() -> None:
    node = page("node", None)
    poor, rich = page("user:a@/", node, 2), page("user:b@/", node, 9)
    account = page("conn:a", poor)
    account.charge(4, 0)
    assert holders(account) == ["user:a@/"]
    account.move(rich)
    assert holders(account) == [] and (poor.below_messages, rich.below_messages) == (0, 4)
    assert not poor.is_held
    account.move(poor)
    assert holders(account) == ["user:a@/"]


def test_bad_marks_are_refused_by_name() -> None:
    with pytest.raises(OperatorError, match="limit of conn:a: high 5 and low 6 messages"):
        page("conn:a", None).set_limits(5, 6, 0, 0)


def test_a_lenient_page_is_held_only_when_it_is_asked_for() -> None:
    account = page("conn:a", None, 2)
    account.be_lenient()
    account.charge(50, 0)
    assert holders(account) == []
    account.ask()
    assert holders(account) == ["conn:a"]
    account.repay(48, 0)
    assert holders(account) == []


def test_since_is_when_the_first_gate_closed() -> None:
    clock = ManualClock()
    user = page("user:u@/", None, 1)
    account = Account("conn:a", user, Gate("conn:a", clock, GateObserver()), 0)
    clock.advance(70)
    account.charge(2, 0)
    assert user.held_since_ns == clock.monotonic_ns()
