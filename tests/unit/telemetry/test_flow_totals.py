"""Sums of the recorder's rounds: they never fall, whoever ends, and are exact to one round."""

from penstock.telemetry.accounting import BlockLedger
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.flow_totals import ROUNDS, FlowTotals
from penstock.telemetry.snapshots import (
    OTHERS,
    ActorSnapshot,
    BlockedTotals,
    BlockTotals,
    Times,
)

S = 1_000_000_000


def took(totals: FlowTotals, second: int, *snapshots: ActorSnapshot) -> None:
    """One round."""
    totals.begin()
    for snapshot in snapshots:
        totals.take(snapshot)
    for _ in totals.ending(second * S):
        pass


def conn(
    second: int, blocked: BlockedTotals, started_ns: int = 0, name: str = "conn:a"
) -> ActorSnapshot:
    times = Times(busy_ns=second * S // 2, blocked_ns=blocked.blocked_ns)
    return ActorSnapshot(name, "conn", "", started_ns, times, blocked, {"published": second * 10.0})


def test_time_held_is_summed_by_kinds_and_reason_and_outlives_its_actor() -> None:
    ledger, totals = BlockLedger(0), FlowTotals()
    took(totals, 1, conn(1, ledger.snapshot(1 * S)))
    ledger.close("queue:/a", "credit", 1 * S)
    took(totals, 3, conn(3, ledger.snapshot(3 * S)))
    ledger.open("queue:/a", "credit", 4 * S)
    ledger.close("queue:/b", "credit", 4 * S)
    took(totals, 5, conn(5, ledger.snapshot(5 * S)))
    assert totals.blocked_ns == {("conn", "queue", "credit"): 4 * S}
    assert totals.spent_ns == {("conn", "busy"): 2 * S + S // 2, ("conn", "blocked"): 4 * S}
    took(totals, 6)
    assert totals.latest() == []
    assert totals.blocked_ns == {("conn", "queue", "credit"): 4 * S}
    # Another life of the same name begins at 0.
    other = BlockLedger(6 * S)
    other.close("queue:/a", "credit", 6 * S)
    took(totals, 7, conn(7, other.snapshot(7 * S), started_ns=6 * S))
    assert totals.blocked_ns == {("conn", "queue", "credit"): 5 * S}


def test_pairs_that_were_folded_are_counted_once() -> None:
    totals = FlowTotals()

    def blocked(total: int, *blocks: tuple[str, int]) -> BlockedTotals:
        rows = tuple(BlockTotals(peer, peer[:1], ns, ns, 1, ns, None, 0) for peer, ns in blocks)
        return BlockedTotals(total, 1, total, None, rows)

    took(totals, 1, conn(1, blocked(30, ("queue:/a", 20), ("queue:/b", 10))))
    folded = blocked(37, ("queue:/a", 22), (OTHERS, 15))
    took(totals, 2, conn(2, folded))
    assert sum(totals.blocked_ns.values()) == 37
    assert totals.blocked_ns["conn", OTHERS, OTHERS] == 5


def test_rates_and_holds_are_of_the_last_ten_seconds() -> None:
    ledger, totals = BlockLedger(0), FlowTotals()
    assert totals.rates() == {} and totals.blocked_lately() == {}
    ledger.close("queue:/a", "credit", 0)
    for second in range(1, 31):
        took(totals, second, conn(second, ledger.snapshot(second * S)))
    assert totals.rates() == {"conn:published": 10.0}
    assert totals.blocked_lately() == {("conn", "queue", "credit"): (ROUNDS - 1) * S}
    ledger.open("queue:/a", "credit", 30 * S)
    for second in range(31, 42):
        took(totals, second, conn(second, ledger.snapshot(second * S)))
    assert totals.blocked_lately() == {}


def test_a_round_that_is_given_up_loses_nothing() -> None:
    ledger, totals = BlockLedger(0), FlowTotals()
    ledger.close("queue:/a", "credit", 0)
    took(totals, 1, *(conn(1, ledger.snapshot(1 * S), name=name) for name in ("conn:a", "conn:b")))
    totals.begin()
    totals.take(conn(2, ledger.snapshot(2 * S)))
    took(totals, 3, *(conn(3, ledger.snapshot(3 * S), name=name) for name in ("conn:a", "conn:b")))
    assert totals.blocked_ns == {("conn", "queue", "credit"): 6 * S}


def test_a_window_that_is_looked_up_alone_is_the_one_of_the_whole() -> None:
    history, ledgers = FlightHistory(), [BlockLedger(0) for _ in range(3)]
    for second in range(1, 20):
        if second == 3:
            ledgers[1].close("queue:/a", "credit", 3 * S)
        names = [f"conn:{index}" for index in range(3) if index != 2 or second < 5]
        pairs = zip(names, ledgers, strict=False)
        found = {name: conn(second, one.snapshot(second * S), name=name) for name, one in pairs}
        history.push(second * S, found)
    finder, whole = history.finding(10), history.over(10)
    assert whole.keys() == {"conn:0", "conn:1"}
    for name in ("conn:0", "conn:1", "conn:2", "conn:none"):
        assert finder.get(name) == whole.get(name)
    assert FlightHistory().finding(10).get("conn:0") is None
