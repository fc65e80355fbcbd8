"""docs/orders.md, its first sections: the tables are right, also again from the stream, and nothing
is there twice."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.marks import IN_SPARK
from tests.spark.orders_page import follow, sections

pytestmark = IN_SPARK
HERE = ["A shop", "Tables", "All of it again, from the stream"]
LONG = ["Too slow, and killed", "As a declarative pipeline"]
"""Those of test_orders_long.py."""
PATIENCE_S = 600
CENTS = ((450, 1580, 3600), (405, 1422, 3240))
"""What the shop's orders come to, one after the other; the second form has a discount."""


ORDERS = Path(__file__).parents[2] / "examples" / "orders"
GOOD = {"order": "o1", "at": "2026-11-28T10:00:00Z", "item": "tea", "quantity": 2, "price": 2.5}
ODD: list[tuple[dict[str, object], str | None]] = [
    ({}, None),
    ({"discount": None, "currency": None}, None),
    ({"discount": "0.5", "currency": "CHF"}, None),
    ({"quantity": 999_999_999, "price": 9_999_999_999}, "too much"),
    ({"discount": 10}, "discount is no share"),
    ({"discount": "10%"}, "discount is no share"),
    ({"currency": "X" * 300}, "currency is no code"),
    ({"currency": ""}, "currency is no code"),
    ({"order": "o" * 256}, "order number is too long for a message id"),
]
"""What an order says besides, or otherwise, and what is wrong with it."""

PROMISES = (
    "every message is in bronze once",
    "and in silver or quarantine once",
    "gold is the sum of silver",
    "every good order is billed once",
)


def test_every_command_of_the_page_is_run_by_a_test() -> None:
    assert list(sections()) == [*HERE, *LONG]


def test_tables_invoices_and_dead_letters(java: Any, tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    said = follow(HERE, tmp_path, PATIENCE_S)
    print(said)
    assert [promise for promise in PROMISES if f"✔ {promise}" not in said] == []
    assert "✘" not in said
    assert said.count("800 orders came, 760 are good, 40 in quarantine") == 2
    (first, second) = re.findall(r"^revenue .*$", said, re.MULTILINE)
    assert first == second
    cents = sum(form[number % 3] for form in CENTS for number in range(400) if number % 20 != 7)
    assert f"revenue {cents // 100}.{cents % 100:02} in" in said
    # Every fifth order of the shop is in no currency that its accountant takes; of the others 40
    # are bad, eight in each of five ways.
    assert "billed 600 invoices, refused 160" in said
    for reason in ("negative", "no order number", "no time", "not JSON", "quantity is no number"):
        assert said.count(f"     8 {reason}\n") == 3, "of the dead letters, and in quarantine twice"
    assert "   200 dead letters" in said
    assert "minute currency" in said


def test_no_order_stops_those_behind_it(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be counted, or be sent as an invoice, is in quarantine, and ends no query."""
    monkeypatch.syspath_prepend(ORDERS)
    tables = importlib.import_module("orders")
    said = [json.dumps(GOOD | more).encode() for more, _ in ODD]
    rows = [(number, "order.0", body) for number, body in enumerate(said)]
    bronze = spark.createDataFrame(rows, tables.BRONZE)
    bad = {row["offset"]: row["reason"] for row in tables.quarantine(bronze).collect()}
    assert bad == {number: why for number, (_, why) in enumerate(ODD) if why}
    good = tables.silver(bronze).sort("offset").collect()
    assert [str(row["amount"]) for row in good] == ["5.00", "5.00", "2.50"]
    keys = [row["routing_key"] for row in tables.invoices(tables.silver(bronze)).collect()]
    assert sorted(keys) == ["invoice.CHF", "invoice.EUR", "invoice.EUR"]


def test_a_check_before_there_are_tables_says_so(tmp_path: Path) -> None:
    command = [sys.executable, str(ORDERS / "stream.py"), str(tmp_path), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"there is no table {tmp_path / 'bronze'} yet: " in done.stderr
    assert "Traceback" not in done.stderr
