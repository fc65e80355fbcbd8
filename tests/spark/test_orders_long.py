"""docs/orders.md, the rest: again from the stream, too slow, killed twice, and declared."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.spark.marks import IN_SPARK
from tests.spark.orders_page import follow
from tests.spark.test_orders import PROMISES

pytestmark = IN_SPARK
PATIENCE_S = 900


def test_the_stream_gives_the_same_tables_again(java: Any, tmp_path: Path) -> None:
    said = follow(["A shop", "Tables", "All of it again, from the stream"], tmp_path, PATIENCE_S)
    print(said)
    assert "✘" not in said
    (first, second) = re.findall(r"^revenue .*$", said, re.MULTILINE)
    assert first == second
    assert said.count("800 orders came, 760 are good, 40 in quarantine") == 2


def test_a_slow_query_is_named_and_killed_ones_lose_nothing(java: Any, tmp_path: Path) -> None:
    said = follow(["A shop", "Too slow, and killed"], tmp_path, PATIENCE_S)
    print(said)
    assert [promise for promise in PROMISES if f"✔ {promise}" not in said] == []
    assert "2300 orders came, 2185 are good, 115 in quarantine" in said
    assert re.search(r"spark query orders-bronze .*holds \d+ messages", said)
    assert "sold 1500 orders" in said


def test_declared_tables_grow_and_the_command_ends_well(java: Any, tmp_path: Path) -> None:
    for name in ("grpc", "yaml"):
        pytest.importorskip(name)
    said = follow(["A shop", "As a declarative pipeline"], tmp_path, PATIENCE_S)
    print(said)
    assert said.count("Run is COMPLETED") == 2 and "UNKNOWN_RESPONSE" not in said
    billed = [int(count) for count in re.findall(r"billed (\d+) invoices, refused", said)]
    refused = [int(count) for count in re.findall(r"invoices, refused (\d+)", said)]
    # 400 + 400 + 200 orders, then 100, of which one in twenty is bad.
    assert [one + two for one, two in zip(billed, refused, strict=True)] == [950, 95]
    rows = re.findall(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d +[A-Z]{3} +(\d+)", said)
    assert sum(int(count) for count in rows) == 1045, "of gold, after the second run"
