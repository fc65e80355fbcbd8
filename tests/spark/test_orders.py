"""docs/orders.md, its first sections: the tables are right, also again from the stream, and nothing
is there twice."""

import re
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
