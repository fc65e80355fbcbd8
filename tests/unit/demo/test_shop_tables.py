"""Rates of Spark and of the shop, read from the shop's tables."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.demo.shop_tables import Batch, batches_of, number_before, pace, rate_of, sold_a_second


def order(number: int, at_ms: int, **more: object) -> bytes:
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return json.dumps({"order": f"a1b2-{number}", "at": at, "item": "tea", **more}).encode()


def test_the_pace_of_spark_is_rows_by_the_time_between_commits() -> None:
    assert pace([Batch(1_000, 400), Batch(2_100, 500), Batch(4_000, 700)]) == pytest.approx(100.0)


def test_the_shop_counts_its_bad_orders_too() -> None:
    bodies = [order(number, 10_000 + 10 * number) for number in range(0, 100, 2)]
    bodies += [b'{"order": "a1b2-51", "at": "yest', b"{}", order(51, 10_510).replace(b"20", b"x")]
    assert rate_of(bodies, 10_000, 11_000) == pytest.approx(98.0)


def test_only_what_was_sold_then_counts() -> None:
    slow = [order(number, 1_000 * number) for number in range(10)]
    fast = [order(number + 10, 10_000 + number) for number in range(100)]
    assert rate_of(slow + fast, 2_000, 9_000) == pytest.approx(1.0)
    assert rate_of(slow, 20_000, 30_000) == 0.0


def test_bursts_of_a_held_shop_come_to_its_pace() -> None:
    """A hundred orders as soon as Spark has taken a hundred, then nothing until it takes more."""
    bodies = [order(n, 1_000 * (n // 100) + n % 100) for n in range(1_200)]
    assert rate_of(bodies, 1_000, 10_990) == pytest.approx(100.0, rel=0.01)


def test_a_number_is_that_in_front_of_its_word() -> None:
    said = ["sold 400 orders in 3.1 s, all confirmed", "     8 negative", "   200 dead letters"]
    assert number_before("dead letters", said) == 200
    assert number_before("orders in", said) == 400
    assert number_before("no time", said) == 0


def test_batches_are_those_of_the_tables_log(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    pa = pytest.importorskip("pyarrow")
    table = tmp_path / "bronze"
    assert batches_of(table) == []
    for rows in (3, 5):
        deltalake.write_deltalake(str(table), pa.table({"n": list(range(rows))}), mode="append")
    found = batches_of(table)
    assert [one.rows for one in found] in ([3, 8], [8]), "[8]: both in the same millisecond"
    assert abs(found[-1].at_ms / 1000 - datetime.now(UTC).timestamp()) < 3600


def test_the_tables_may_be_anywhere(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    pa = pytest.importorskip("pyarrow")
    table = tmp_path / "my report"
    bodies = [order(number, 10_000 + 10 * number) for number in range(100)]
    deltalake.write_deltalake(str(table), pa.table({"body": bodies}))
    assert sold_a_second(table, 10_000, 11_000) == pytest.approx(99.0)
