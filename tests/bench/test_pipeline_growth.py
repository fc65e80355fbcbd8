"""How the pipeline grows, in smoke mode: it runs to its end, and counts what it says."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.pipeline_growth import paper, parse_arguments
from bench.pipeline_shares import shares
from tests.bench.programs import output_of, refuses

pytest.importorskip("pyspark", reason="pyspark is not installed")


def test_a_call_that_makes_no_sense_ends_with_2() -> None:
    refuses(parse_arguments, "nonsense", "costs --events 0", "sustained --rate -1")


def test_on_paper_what_the_driver_does_alone_is_the_limit() -> None:
    costs = {"reading": 2.0, "facts": 2.0, "answers": 1.0, "reach": 0.5}
    lines = paper(costs, serial_s=1.0, cores=2, events=2_000_000)
    # 1 s + 2 million × 5.5 µs / executors
    assert lines[2].startswith(f"2 executors: {2_000_000 / 6.5:,.0f}/s")
    assert lines[-1].startswith(f"100 executors: {2_000_000 / 1.11:,.0f}/s")
    assert f"{100_000_000 / 6.5:,.0f}/s with 100,000,000" in lines[-1]


def test_many_shares_cost_no_more_than_one(tmp_path: Path) -> None:
    """What is dealt is what there is, and no row is read by more than one task."""
    options = parse_arguments(["shares", "--events", "40000"])
    found = shares(options, tmp_path)["shares"]
    assert {one["rows_dealt_per_event"] for one in found.values()} == {1.0}
    assert all(one["facts_dealt_per_event"] < 1.5 for one in found.values())


def counted(part: str) -> Any:
    said = "\n" + output_of("pipeline_growth.py", part, "--smoke")
    return json.loads(said[said.index("\n{\n") :])[part]


@pytest.mark.slow
def test_it_counts_what_it_says() -> None:
    """A session in this machine's processes and a query that follows; `make bench-smoke` plays all
    parts, those that start clusters as well."""
    assert counted("sustained")["batches"] >= 2
    assert counted("costs")["steps"]["facts"]["shuffled_bytes"] > 0
