"""Windows are differences of snapshots: of which two, for how long, and of which life."""

import pytest

from penstock.telemetry.accounting import BlockLedger
from penstock.telemetry.actor_window import BlockWindow
from penstock.telemetry.snapshots import ActorSnapshot, BlockedTotals, Times
from penstock.telemetry.window import WindowHistory

S = 1_000_000_000


def snapshot(idle_s: int, **numbers: float) -> ActorSnapshot:
    return ActorSnapshot("conn:a", "conn", times=Times(idle_s * S), numbers=numbers)


def test_the_window_starts_at_the_newest_snapshot_that_is_old_enough() -> None:
    history = WindowHistory(20)
    for second in range(15):
        history.push(second * S, {"conn:a": snapshot(second, published=second * 100.0)})
    window = history.over(10)["conn:a"]
    assert window.window_ns == window.times.idle_ns == 10 * S
    assert window.rates == {"published": 100.0}
    assert window.numbers == {"published": 1400.0}
    assert history.over(3.5)["conn:a"].window_ns == 4 * S


def test_time_goes_forward_and_a_window_has_two_ends() -> None:
    with pytest.raises(AssertionError, match="start and an end"):
        WindowHistory(1)
    history = WindowHistory(2)
    history.push(5, {})
    with pytest.raises(AssertionError, match="forward"):
        history.push(5, {})


def test_blocks_of_a_window_and_their_longest_hold_in_it() -> None:
    ledger, history = BlockLedger(0), WindowHistory(20)
    ledger.close("queue:/old", "credit", 0)
    ledger.open("queue:/old", "credit", 1 * S)

    def push(second: int) -> None:
        blocked: BlockedTotals = ledger.snapshot(second * S)
        ledger.begin_period()
        times = Times(second * S)
        history.push(
            second * S, {"conn:a": ActorSnapshot("conn:a", "conn", times=times, blocked=blocked)}
        )

    push(2)
    ledger.close("queue:/a", "credit", 3 * S)
    push(4)
    ledger.open("queue:/a", "credit", 5 * S)
    push(6)
    ledger.close("queue:/a", "credit", 7 * S)
    ledger.close("queue:/b", "credit", 7 * S)
    push(8)
    window = history.over(6)["conn:a"]
    assert window.blocks == (
        BlockWindow("queue:/a", "credit", 2 * S + S // 2, 3 * S, 2, 2 * S, 7 * S),
        BlockWindow("queue:/b", "credit", S // 2, 1 * S, 1, 1 * S, 7 * S),
    )
    assert (window.blocked_ns, window.stops, window.longest_ns) == (3 * S, 2, 2 * S)
    assert window.since_ns == 7 * S
    assert window.blocked_share() == 0.5


def test_a_window_without_length_has_no_share() -> None:
    history = WindowHistory(2)
    history.push(0, {"conn:a": snapshot(0)})
    assert history.over(10)["conn:a"].blocked_share() == 0.0


def changing(second: int, actor: str = "conn:a") -> ActorSnapshot:
    return ActorSnapshot(actor, "conn", times=Times(0, second * S))


def test_who_is_gone_can_be_asked_about_as_long_as_the_history_reaches_back() -> None:
    history = WindowHistory(5)
    for second in range(1, 4):
        history.push(second * S, {"conn:a": changing(second), "conn:b": changing(second, "conn:b")})
    history.push(4 * S, {"conn:b": changing(4, "conn:b")})
    assert set(history.over(1)) == {"conn:b"}
    assert history.over(2, 3 * S)["conn:a"].times.busy_ns == 2 * S
    for second in range(5, 12):
        history.push(second * S, {"conn:b": changing(second, "conn:b")})
    assert [actor for actor, _ in history.trails()] == ["conn:b"]


def test_who_comes_back_is_there_again() -> None:
    history = WindowHistory(5)
    history.push(1 * S, {"conn:a": changing(1)})
    history.push(2 * S, {})
    assert history.over(1) == {}
    history.push(3 * S, {"conn:a": changing(3)})
    assert history.over(1)["conn:a"].times.busy_ns == 2 * S


def test_a_round_taken_in_slices_is_exact_for_each_actor() -> None:
    """Taken 40 ms late in the first round and at once in the third, idle until the second."""
    ms = S // 1000
    history = WindowHistory(5)
    for start_s, taken_ms, idle_ms, busy_ms in (
        (1, 1040, 1040, 0),
        (2, 2005, 2005, 0),
        (3, 3001, 2010, 991),
    ):
        history.begin(start_s * S)
        history.take(
            ActorSnapshot(
                "conn:a", "conn", times=Times(idle_ms * ms, busy_ms * ms), taken_ns=taken_ms * ms
            )
        )
        assert len(history.rounds()) == start_s - 1, "a round counts when it is complete"
        history.end()
    window = history.over(1)["conn:a"]
    assert (window.times.idle_ns, window.times.busy_ns) == (10 * ms, 991 * ms)
    assert window.window_ns == 1001 * ms
    assert history.over(2)["conn:a"].times.busy_ns == 991 * ms


def test_changes_are_bounded_by_a_shorter_history() -> None:
    history = WindowHistory(61, changes_max=400)
    for second in range(1, 200):
        history.push(second * S, {f"conn:{n}": changing(second, f"conn:{n}") for n in range(20)})
        assert sum(len(trail) for _, trail in history.trails()) <= 400 + 20
    assert 10 <= len(history.rounds()) <= 21
    assert history.over(5)["conn:3"].times.busy_ns == 5 * S
    for second in range(200, 204):
        history.push(second * S, {f"c{n}": changing(second, f"c{n}") for n in range(1000)})
    assert len(history.rounds()) == 2, "two rounds are kept whatever they cost"
    assert history.over(9)["c7"].times.busy_ns == S
