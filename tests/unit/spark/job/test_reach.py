"""How far back new events reach."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark.job import reach as reach_module
from penstock.spark.job.reach import End, Horizon, Reach, Scan
from penstock.spark.schema.arrow_columns import (
    BLOCK_INTERVAL,
    CONSUMER,
    COVERAGE,
    LAST_SEEN,
    SAMPLE_STEP,
)
from tests.spark.flow_events import FlowEvent
from tests.unit.spark.by_arrays import written

HOLD = {"actor": "conn:A", "peer": "chan:A/1", "reason": "credit", "is_lone": False}
STEP = {"boot_id": "b", "kind": "time_sample"}
SEEN = {
    "block_interval": (
        BLOCK_INTERVAL,
        [
            {**HOLD, "boot_id": "b", "start_ns": 50, "end_ns": 260, "closed_by": "end_of_data"},
            {**HOLD, "boot_id": "b", "start_ns": 3, "end_ns": 40, "closed_by": "gate_opened"},
        ],
    ),
    "sample_step": (SAMPLE_STEP, [{**STEP, "actor": "conn:A", "start_ns": 140, "end_ns": 240}]),
    "consumer": (
        CONSUMER,
        [{"boot_id": "b", "consumer": "consumer:a", "group": "consumers:/q", "since_ns": 1}],
    ),
    "last_seen": (
        LAST_SEEN,
        [
            {"boot_id": "b", "actor": "", "kind": "", "seq": 260, "t_ns": 260},
            {**STEP, "actor": "conn:A", "seq": 240, "t_ns": 240},
            {**STEP, "actor": "conn:B", "seq": 30, "t_ns": 30},
            {**STEP, "actor": "queue:/q", "kind": "queue_sample", "seq": 199, "t_ns": 199},
        ],
    ),
    "coverage": (
        COVERAGE,
        [
            {"boot_id": "b", "bucket_ns": 260, "high": 260, "last_ns": 260},
            {"boot_id": "old", "node": "m", "bucket_ns": 20, "high": 7, "last_ns": 28},
            {"boot_id": "old", "node": "m", "bucket_ns": 40, "high": 9, "last_ns": 45},
        ],
    ),
}
"""One batch is known: a hold of boot b is open, and some samples; buckets are 10 ns."""


@pytest.fixture
def horizon(tmp_path: Path) -> Horizon:
    files = []
    for name, (schema, rows) in SEEN.items():
        path = tmp_path / f"{name}.parquet"
        filled = [
            {field.name: 0 if field.type == pa.int64() else "" for field in schema} | row
            for row in rows
        ]
        pq.write_table(pa.Table.from_pylist(filled, schema=schema), path)
        files.append((str(path),))
    holds, steps, consumers, seen, coverage = files
    return Horizon((), holds, steps, consumers, seen, coverage, 0, 10, False)


def reach(horizon: Horizon, tmp_path: Path, *events: FlowEvent) -> Reach:
    """Of new events in two files, looked at by two tasks."""
    parts = [
        written(tmp_path / f"new-{at}.parquet", some, 1)
        for at, some in enumerate((events[:1], events[1:]))
    ]
    return horizon.reach([Scan((file,), horizon.known)() for file in parts])


def event(
    t_ns: int, kind: str, actor: str = "conn:A", amount: int = 0, boot_id: str = "b", peer: str = ""
) -> FlowEvent:
    return FlowEvent(boot_id, t_ns, t_ns, kind, actor, peer or "chan:A/1", "credit", amount, {})


def test_before_anything_is_known_all_is_new(tmp_path: Path) -> None:
    file = written(tmp_path / "new.parquet", [event(500, "actor_up")], 0)
    first = Horizon((file,), (), (), (), (), (), -1, 10, False)
    assert first.reach([Scan((file,), -1)()])[:2] == (
        0,
        {"b": End("", 500, 500)},
    )


def test_the_bucket_of_the_last_event_is_not_over(horizon: Horizon, tmp_path: Path) -> None:
    assert reach(horizon, tmp_path, event(505, "actor_up"))[:2] == (260, {"b": End("", 505, 505)})


def test_a_new_boot_changes_nothing_of_the_others(horizon: Horizon, tmp_path: Path) -> None:
    new = event(505, "gate_opened", amount=-4, boot_id="d")
    assert reach(horizon, tmp_path, new)[:2] == (500, {"d": End("", 505, 505)})


def test_the_end_of_a_hold_that_is_known_reaches_no_further(
    horizon: Horizon, tmp_path: Path
) -> None:
    assert reach(horizon, tmp_path, event(300, "gate_opened", amount=250)).from_ns == 260


def test_the_end_of_another_reaches_to_its_beginning(horizon: Horizon, tmp_path: Path) -> None:
    new = event(300, "gate_opened", "conn:B", amount=225)
    assert reach(horizon, tmp_path, new).from_ns == 70


@pytest.mark.parametrize(
    ("actor", "kind", "from_ns"),
    [
        ("conn:A", "time_sample", 260),  # (240 + 300) / 2 lies behind the last event
        ("conn:B", "time_sample", 160),
        ("queue:/q", "queue_sample", 190),
    ],
)
def test_a_sample_reaches_to_the_place_of_its_step(
    horizon: Horizon, tmp_path: Path, actor: str, kind: str, from_ns: int
) -> None:
    assert reach(horizon, tmp_path, event(300, kind, actor)).from_ns == from_ns


def test_what_is_late_reaches_to_the_sample_before_it(horizon: Horizon, tmp_path: Path) -> None:
    assert reach(horizon, tmp_path, event(215, "actor_up"))[:2] == (140, {"b": End("", 260, 260)})


def test_of_a_batch_that_was_cut_short_what_is_late_makes_all_anew(
    horizon: Horizon, tmp_path: Path
) -> None:
    torn = replace(horizon, is_torn=True)
    assert reach(torn, tmp_path, event(215, "actor_up")).from_ns == 0


def test_a_consumer_that_is_named_late_reaches_to_its_first_hold(
    horizon: Horizon, tmp_path: Path
) -> None:
    held = {**HOLD, "actor": "consumer:b", "boot_id": "b", "closed_by": "gate_opened"}
    file = tmp_path / "held.parquet"
    rows = [{**held, "start_ns": 21, "end_ns": 25}]
    pq.write_table(pa.Table.from_pylist(rows, schema=BLOCK_INTERVAL), file)
    known = replace(horizon, holds=(*horizon.holds, str(file)))
    named = event(300, "gate_opened", "consumer:b", peer="queue:/q")
    assert reach(known, tmp_path, named).from_ns == 20
    up = event(290, "actor_up", "consumer:b", peer="queue:/q")
    assert reach(known, tmp_path, up, named).from_ns == 260


def test_a_boot_that_was_taken_to_be_over_is_made_from_its_beginning(
    horizon: Horizon, tmp_path: Path
) -> None:
    new = event(300, "actor_up", boot_id="old")._replace(node="m")
    found = reach(horizon, tmp_path, new)
    assert found.from_ns == 20
    assert found.last == {"old": End("m", 300, 300)} and found.alive.keys() == {"b", "old"}
    assert reach(horizon, tmp_path, new._replace(boot_id="young")).from_ns == 300


def test_boots_whose_place_was_taken_are_not_remembered(
    horizon: Horizon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """d is of the node of b, and e of another one."""
    new = event(505, "actor_up", boot_id="d")
    other = new._replace(boot_id="e", node="n")
    assert reach(horizon, tmp_path, new).alive.keys() == {"b", "d"}
    monkeypatch.setattr(reach_module, "REPLACED_NS", 200)
    found = reach(horizon, tmp_path, new)
    assert found.alive.keys() == {"d"}
    late = reach(horizon, tmp_path, new._replace(t_ns=265))
    assert late.alive.keys() == {"b", "d"}
    assert reach(horizon, tmp_path, other).alive.keys() == {"b", "e"}
    monkeypatch.setattr(reach_module, "SILENT_NS", 200)
    assert reach(horizon, tmp_path, other).alive.keys() == {"e"}
