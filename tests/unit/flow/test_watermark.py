"""Marks are strict, have a band that ends them, and are read as people write them."""

import pytest

from penstock.base.errors import OperatorError
from penstock.flow.watermark import (
    PACE_NS,
    Ceiling,
    Floor,
    Pace,
    Trend,
    next_look_ms,
    parse_ceiling,
    parse_floor,
)


def test_a_ceiling_is_strict_and_ends_below_nine_tenths() -> None:
    mark = Ceiling(1000, True)
    assert mark.clear_bytes == 900
    assert not mark.is_set(False, 1000) and mark.is_set(False, 1001)
    assert mark.is_set(True, 1000) and mark.is_set(True, 900) and not mark.is_set(True, 899)
    assert not mark.is_set(False, 950)


def test_without_a_band_a_ceiling_ends_at_its_limit() -> None:
    mark = Ceiling(1000, False)
    assert mark.is_set(True, 1001) and not mark.is_set(True, 1000)
    assert mark.clear_bytes == 1000


@pytest.mark.parametrize("has_band", [True, False])
def test_a_ceiling_of_zero_is_always_passed(has_band: bool) -> None:
    mark = Ceiling(0, has_band)
    assert mark.is_set(False, 0) and mark.is_set(True, 0) and mark.is_set(True, 5)


def test_a_floor_is_strict_and_ends_above_ten_ninths() -> None:
    mark = Floor(900, True)
    assert mark.clear_bytes == 1000
    assert not mark.is_set(False, 900) and mark.is_set(False, 899)
    assert mark.is_set(True, 1000) and not mark.is_set(True, 1001)
    assert Floor(50_000_000, True).clear_bytes == 55_555_556


def test_without_a_band_a_floor_ends_at_its_limit() -> None:
    mark = Floor(900, False)
    assert mark.is_set(True, 899) and not mark.is_set(True, 900)
    assert mark.clear_bytes == 900


def test_a_floor_of_zero_is_off() -> None:
    assert not Floor(0, True).is_set(True, 0)


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("40%", 400),
        (" 0.4 ", 400),
        ("0", 0),
        ("1.5kB", 1500),
        ("2MiB", 2 << 20),
        ("1.0", 1000),
        ("9000TB", 9 * 10**15),
        ("1GiB", 1 << 30),
        ("50MB", 50_000_000),
    ],
)
def test_a_ceiling_is_a_share_or_a_size(text: str, bytes_: int) -> None:
    assert parse_ceiling(text, 1000) == bytes_


@pytest.mark.parametrize("text", ["lots", "140%", "1.5", "-1", ""])
def test_what_is_neither_is_refused_by_name(text: str) -> None:
    with pytest.raises(OperatorError, match=f"'{text}' is"):
        parse_ceiling(text, 1000)


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("50MB", 50_000_000),
        ("mem:1.0", 1000),
        ("mem:0.5", 500),
        ("0", 0),
        ("9000TB", 9 * 10**15),
        ("1GiB", 1 << 30),
        ("mem:1.5", 1500),
        ("mem:100000", 100_000_000),
    ],
)
def test_a_floor_is_a_size_or_a_factor_of_memory(text: str, bytes_: int) -> None:
    assert parse_floor(text, 1000) == bytes_


@pytest.mark.parametrize(
    "text",
    ["mem:x", "mem:-1", "ram:1", "mem:nan", "mem:inf", "40%", "1.5", "1XB", "mem:1e9", "mem:"],
)
def test_another_floor_is_refused_by_name(text: str) -> None:
    with pytest.raises(OperatorError, match=f"'{text}' is no disk mark"):
        parse_floor(text, 1000)


@pytest.mark.parametrize("text", ["mem:" + "9" * 18, "9300PB"])
def test_a_floor_that_no_number_holds_is_refused(text: str) -> None:
    with pytest.raises(OperatorError, match=f"'{text}' is no disk mark.*{2**63 - 1}"):
        parse_floor(text, 1000)


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


@pytest.mark.parametrize(
    ("free", "limit", "is_alarmed", "wait_ms"),
    [
        (1_050_000_000, 50_000_000, False, 8_000),
        (60_000_000, 50_000_000, False, 100),
        (1 << 50, 50_000_000, False, 10_000),
        (50_000_000, 50_000_000, False, 100),
        (49_000_000, 50_000_000, False, 100),
        (49_000_000, 50_000_000, True, 10_000),
        (1 << 50, 50_000_000, True, 10_000),
        (550_000_000, 50_000_000, False, 4_000),
    ],
)
def test_next_look(free: int, limit: int, is_alarmed: bool, wait_ms: int) -> None:
    assert next_look_ms(free, limit, is_alarmed) == wait_ms


def test_a_pace_is_that_of_the_last_seconds() -> None:
    pace = Pace()
    assert pace.per_second(0, 1000) == 0.0
    assert pace.per_second(2 * PACE_NS // 5, 1200) == 100.0, "since the first sample"
    for second in range(5, 60, 5):
        pace.per_second(second * PACE_NS // 5, 1000)
    assert pace.per_second(12 * PACE_NS, 1100) == 20.0, "five seconds ago it stood"
    assert pace.per_second(12 * PACE_NS, 1100) == 20.0, "time that does not pass is no division"
