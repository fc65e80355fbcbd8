"""Gold in stretches: memory is bounded, years without anybody held cost nothing."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("pyspark", reason="pyspark is not installed")

from penstock.spark.job import gold_tables
from tests.spark.flow_events import FlowEvent
from tests.unit.spark.by_arrays import answers_of, facts_of, written

SECOND_NS = 1_000_000_000
YEAR_NS = 365 * 86_400 * SECOND_NS


def hold(seq: int, start_ns: int, end_ns: int) -> list[FlowEvent]:
    triple = ("conn:A", "chan:A/1", "credit")
    return [
        FlowEvent("b", seq, start_ns, "gate_closed", *triple, 0, {}),
        FlowEvent("b", seq + 1, end_ns, "gate_opened", *triple, end_ns - start_ns, {}),
    ]


def test_one_hold_of_many_buckets_is_cut_in_parts_that_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gold_tables, "EDGES_AT_A_TIME", 7)
    events = hold(0, SECOND_NS // 2, 100 * SECOND_NS)
    silver = facts_of([written(tmp_path / "1.parquet", events)], SECOND_NS)
    found = answers_of(tmp_path, silver, SECOND_NS, (0, 50 * SECOND_NS, 200 * SECOND_NS))
    held = {row["bucket_ns"]: row["held_ns"] for row in found["gold/held_time"].to_pylist()}
    blamed = {row["bucket_ns"]: row["blamed_ns"] for row in found["gold/root_cause"].to_pylist()}
    assert held == blamed
    assert held == {at * SECOND_NS: SECOND_NS if at else SECOND_NS // 2 for at in range(100)}


def test_years_between_two_holds_are_passed_over(tmp_path: Path) -> None:
    events = hold(0, 5, 10) + hold(2, 3 * YEAR_NS, 3 * YEAR_NS + 7)
    silver = facts_of([written(tmp_path / "1.parquet", events)], 100)
    found = answers_of(tmp_path, silver, 100, (0, 4 * YEAR_NS))
    rows = found["gold/who_blocked_whom"].to_pylist()
    assert [(row["bucket_ns"], row["blocked_ns"]) for row in rows] == [(0, 5), (3 * YEAR_NS, 7)]
