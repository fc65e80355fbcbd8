"""docs/orders.md, the rest: too slow, killed twice; and declared, killed, and run again.

About a minute each.
"""

import re
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.spark.marks import IN_SPARK
from tests.spark.orders_page import REPOSITORY, follow
from tests.spark.test_orders import CENTS, PROMISES

pytestmark = IN_SPARK
PATIENCE_S = 900
SOLD = ((400, CENTS[0]), (400, CENTS[1]), (200, CENTS[0]), (100, CENTS[0]))
"""By the page: how many orders, and what they come to."""
CURRENCIES = ("EUR", "EUR", "CHF", "EUR", "BTC")
RUN = "spark-pipelines run"
KILLED_RUN = f"""
export HOLD="{sys.executable} -m tests.spark.held_orders"
(cd {REPOSITORY} && $HOLD hold)
{RUN} --spec "$EXAMPLE/spark-pipeline.yml" &
(cd {REPOSITORY} && $HOLD wait)
kill -9 %?spark-pipelines && echo "killed in mid-run"
(cd {REPOSITORY} && $HOLD release)
"""


def test_a_slow_query_is_named_and_killed_ones_lose_nothing(java: Any, tmp_path: Path) -> None:
    said = follow(["A shop", "Too slow, and killed"], tmp_path, PATIENCE_S)
    print(said)
    assert [promise for promise in PROMISES if f"✔ {promise}" not in said] == []
    assert "2300 orders came, 2185 are good, 115 in quarantine" in said
    assert re.search(r"spark query orders-bronze .*holds \d+ messages", said)
    assert "sold 1500 orders" in said


def test_declared_tables_are_right_after_a_kill_and_grow(java: Any, tmp_path: Path) -> None:
    """A first run, which the page has not, is killed with its Java when invoices are out; it cannot
    end before, because its dead letters wait at a full queue."""
    for name in ("grpc", "yaml"):
        pytest.importorskip(name)
    pandas: Any = pytest.importorskip("pandas")
    titles = ["A shop", "As a declarative pipeline"]
    said = follow(titles, tmp_path, PATIENCE_S, {RUN: KILLED_RUN})
    print(said)
    assert "killed in mid-run" in said
    assert said.count("Run is COMPLETED") == 2 and "UNKNOWN_RESPONSE" not in said
    billed = [int(count) for count in re.findall(r"billed (\d+) invoices, refused", said)]
    refused = [int(count) for count in re.findall(r"invoices, refused (\d+)", said)]
    # 400 + 400 + 200 orders, then 100, of which one in twenty is bad.
    assert [one + two for one, two in zip(billed, refused, strict=True)] == [950, 95]
    book = (tmp_path / "declared" / "book.txt").read_text(encoding="utf-8").splitlines()
    assert len({line.split()[0] for line in book}) == len(book) == sum(billed), "no invoice twice"
    rows = re.findall(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d +[A-Z]{3} +(\d+)", said)
    assert sum(int(count) for count in rows) == 1045, "of gold, after the second run"
    orders, cents = Counter[str](), Counter[str]()
    for count, amounts in SOLD:
        for number in range(count):
            if number % 20 != 7:
                orders[CURRENCIES[number % 5]] += 1
                cents[CURRENCIES[number % 5]] += amounts[number % 3]
    gold = pandas.read_parquet(tmp_path / "declared" / "spark-warehouse" / "gold")
    found = gold.groupby("currency")[["orders", "revenue"]].sum()
    assert {one: int(found["orders"][one]) for one in found.index} == dict(orders)
    assert {one: found["revenue"][one] * 100 for one in found.index} == {
        one: Decimal(sum_) for one, sum_ in cents.items()
    }
