"""Refusals of the accounts, and the words of a ledger's snapshot."""

import pytest

from penstock.telemetry.accounting import BUSY, WAITING, BlockLedger, TimeAccount
from penstock.telemetry.snapshots import BlockedTotals, BlockTotals


def test_time_does_not_go_back() -> None:
    account = TimeAccount(100)
    account.enter(BUSY, 110)
    with pytest.raises(AssertionError, match="never goes back"):
        account.enter(WAITING, 109)
    with pytest.raises(AssertionError, match="never goes back"):
        account.totals(109)


@pytest.mark.parametrize("state", [-1, 4])
def test_there_are_four_states(state: int) -> None:
    account = TimeAccount(0)
    with pytest.raises(AssertionError, match="no such state"):
        account.enter(state, 1)


def test_a_ledger_does_not_go_back() -> None:
    ledger = BlockLedger(100)
    ledger.close("queue:/a", "credit", 110)
    with pytest.raises(AssertionError, match="never goes back"):
        ledger.close("queue:/b", "credit", 109)
    with pytest.raises(AssertionError, match="never goes back"):
        ledger.open("queue:/a", "credit", 109)


def test_two_holders_at_once_share_equally() -> None:
    ledger = BlockLedger(0)
    ledger.close("queue:/a", "credit", 100)
    ledger.close("alarm:memory", "memory", 200)
    ledger.open("queue:/a", "credit", 400)
    books = ledger.snapshot(1000)
    assert books == BlockedTotals(
        900,
        1,
        900,
        100,
        (
            BlockTotals("alarm:memory", "memory", 700, 800, 1, 800, 200, 200),
            BlockTotals("queue:/a", "credit", 200, 300, 1, 300, None, 100),
        ),
    )


def test_a_new_period_forgets_the_longest_hold_that_ended_but_not_the_one_that_runs() -> None:
    ledger = BlockLedger(0)
    ledger.close("a", "credit", 0)
    ledger.open("a", "credit", 50)
    ledger.close("b", "credit", 60)
    ledger.begin_period()
    books = ledger.snapshot(70)
    assert [(block.peer, block.longest_ns) for block in books.blocks] == [("b", 10), ("a", 0)]
    assert books.longest_ns == 10
