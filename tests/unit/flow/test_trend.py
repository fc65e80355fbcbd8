"""A forecast needs a stretch of time, a rise, and a mark above."""

from penstock.flow.watermark import Trend

S = 1_000_000_000


def rising(seconds: int, per_second: int) -> Trend:
    trend = Trend()
    for second in range(seconds + 1):
        trend.add(second * S, 1000 + second * per_second)
    return trend


def test_a_steady_rise_reaches_its_mark() -> None:
    trend = rising(30, 10)
    assert trend.per_second() == 10.0
    assert trend.seconds_until(1000 + 300 + 500) == 50.0


def test_a_short_stretch_a_fall_and_a_mark_that_is_passed_say_nothing() -> None:
    assert rising(19, 10).seconds_until(10_000) == -1.0
    assert rising(30, -10).seconds_until(10_000) == -1.0
    assert rising(30, 10).seconds_until(1000) == -1.0
    assert Trend().seconds_until(5) == -1.0


def test_the_last_minute_counts_and_one_sample_a_second() -> None:
    trend = Trend()
    for tenth in range(600):
        trend.add(tenth * S // 10, 0)
    for second in range(60, 180):
        trend.add(second * S, (second - 60) * 7)
    assert trend.per_second() == 7.0
