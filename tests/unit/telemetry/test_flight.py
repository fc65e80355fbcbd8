"""Two histories of one broker: the last minute by seconds, ten minutes by tens of seconds."""

from penstock.telemetry.flight import COARSE_EVERY, FlightHistory
from penstock.telemetry.snapshots import ActorSnapshot, Times
from tests.unit.explain.scene import S


def snapshot(second: int) -> ActorSnapshot:
    return ActorSnapshot(
        "conn:a",
        "conn",
        times=Times(busy_ns=second * S),
        numbers={"published": second * second * 1.0},
    )


def after(seconds: int, rounds_max: int = 61) -> FlightHistory:
    history = FlightHistory(rounds_max)
    for second in range(seconds + 1):
        history.push(second * S, {"conn:a": snapshot(second)})
    return history


def test_a_minute_is_answered_to_the_second_and_more_to_ten() -> None:
    history = after(300)
    assert history.look(10).span_s == 10
    assert history.over(10)["conn:a"].window_ns == 10 * S
    assert history.look(60).span_s == 60
    look = history.look(200)
    assert (look.span_s, look.end_ns) == (200, 300 * S)
    assert look.windows["conn:a"].rates["published"] == (300**2 - 100**2) / 200


def test_ten_minutes_are_kept() -> None:
    history = after(1000)
    assert history.oldest_ns() == 400 * S
    assert history.look(600).span_s == 600
    assert history.look(5000).span_s == 600


def test_a_window_may_end_earlier() -> None:
    history = after(300)
    look = history.look(10, 290 * S + 1)
    assert (look.end_ns, look.span_s) == (290 * S, 10)
    assert look.windows["conn:a"].numbers == {"published": 290.0**2}
    old = history.look(10, 145 * S)
    assert (old.end_ns, old.span_s) == (140 * S, COARSE_EVERY)
    assert history.look(10, -1).windows == {}


def test_before_a_round_nothing_is_known() -> None:
    history = FlightHistory()
    assert history.look(10).windows == {} and history.look(10).span_s == 0
    assert history.oldest_ns() is None and history.newest_ns() is None


def test_a_short_history_gives_a_short_window() -> None:
    assert after(3).look(10).span_s == 3


def test_a_copy_stands_still() -> None:
    history = after(30)
    copy = history.copy()
    before = dict(copy.over(10))
    history.begin(31 * S)
    history.take(snapshot(31))
    assert dict(history.copy().over(10)) == before, "a round under way is not copied"
    history.end()
    assert dict(copy.over(10)) == before
    assert dict(history.over(10)) != before
