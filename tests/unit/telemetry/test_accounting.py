"""Refusals of the accounts, and the words of a ledger's snapshot."""

import pytest

from penstock.telemetry.accounting import BlockLedger, ParkedLedger
from penstock.telemetry.snapshots import BlockedTotals, BlockTotals
from penstock.telemetry.time_account import BUSY, WAITING, TimeAccount


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


def held_and_parked() -> tuple[BlockLedger, ParkedLedger]:
    ledger = BlockLedger(0)
    ledger.parked = ParkedLedger(ledger, 0)
    return ledger, ledger.parked


def test_parked_time_and_held_time_have_some_in_common() -> None:
    ledger, parked = held_and_parked()
    parked.begin("queue:/a", "credit", 100, 100)
    ledger.close("alarm:memory", "memory", 150)
    parked.begin("queue:/b", "credit", 160, 160)
    parked.end("queue:/b", "credit", 170)
    assert parked.both_ns(180) == 30
    ledger.open("alarm:memory", "memory", 250)
    parked.end("queue:/a", "credit", 300)
    ledger.close("alarm:memory", "memory", 350)
    assert ledger.blocked_ns(400) == 150
    books = parked.snapshot(400)
    assert books.blocked_ns == 200 and books.since_ns is None
    assert [(one.peer, one.ns) for one in books.blocks] == [("queue:/b", 5), ("queue:/a", 195)]
    assert parked.both_ns(400) == 100


def test_parked_time_that_begins_while_the_actor_is_held() -> None:
    ledger, parked = held_and_parked()
    ledger.close("alarm:memory", "memory", 50)
    parked.begin("queue:/a", "credit", 20, 100)
    ledger.open("alarm:memory", "memory", 200)
    assert parked.snapshot(230).blocked_ns == 210
    assert parked.both_ns(230) == 150


def test_a_wait_counts_from_its_first_publish_but_no_time_counts_twice() -> None:
    _, parked = held_and_parked()
    parked.begin("queue:/a", "credit", 100, 150)
    # A second one with the same holder, of another line, and a third that came late.
    parked.begin("queue:/a", "credit", 120, 160)
    parked.end("queue:/a", "credit", 170)
    parked.end("queue:/a", "credit", 200)
    parked.begin("queue:/b", "rate", 180, 230)
    books = parked.snapshot(300)
    assert books.blocked_ns == 100 + 100 == sum(one.ns for one in books.blocks)
    assert books.since_ns == 200
    assert [(one.peer, one.ns) for one in books.blocks] == [("queue:/b", 100), ("queue:/a", 100)]


def test_parked_books_take_a_moment_that_has_passed_as_now() -> None:
    _, parked = held_and_parked()
    parked.begin("queue:/a", "credit", 100, 100)
    assert parked.snapshot(200).blocked_ns == 100
    parked.end("queue:/a", "credit", 190)
    assert parked.snapshot(300).blocked_ns == 100


def test_a_wait_is_not_dated_back_into_time_in_which_the_actor_was_held() -> None:
    ledger = BlockLedger(0)
    ledger.close("rate:user:u", "rate", 100)
    ledger.open("rate:user:u", "rate", 180)
    ledger.parked = ParkedLedger(ledger, 200)
    ledger.parked.begin("queue:/a", "credit", 120, 200)
    assert ledger.parked.snapshot(210).blocked_ns == 30
    assert ledger.blocked_ns(210) == 80
