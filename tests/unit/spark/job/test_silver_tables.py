"""Events to facts and answers with arrays: the tables of the oracle, whatever was recorded."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("pyspark", reason="pyspark is not installed")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spark.blame.blame import actor_kind
from penstock.spark.job.sketches import sketch
from penstock.spark.schema.rows import (
    HELD_BY,
    ROW_TYPES,
    AlarmInterval,
    DepthRow,
    KindRow,
)
from tests.spark import oracle
from tests.spark.flow_events import FlowEvent
from tests.spark.oracle_input import TraceLog
from tests.spark.oracle_intervals import block_intervals
from tests.unit.spark.by_arrays import answers_of, facts_of, holds_of, log_of, written
from tests.unit.spark.recorded import WIDTH_NS, Moves, recorded, steps


@settings(max_examples=15, deadline=None)
@given(st.lists(steps, min_size=1, max_size=60))
def test_tables_are_those_of_the_plain_twin(
    moves: Moves,
) -> None:
    events = recorded(moves)
    log = log_of(events)
    twin = oracle.analyse(log, TraceLog((), 0), WIDTH_NS)
    with TemporaryDirectory() as scratch:
        directory = Path(scratch)
        # Out of order, in two files.
        files = [
            written(directory / "1.parquet", events[len(events) // 3 :]),
            written(directory / "2.parquet", events[: len(events) // 3]),
        ]
        found = facts_of(files, WIDTH_NS)
        borders = (0, 1_200, 1_240, 4_000)
        answers = answers_of(directory, found, WIDTH_NS, borders)
    sketches = answers.pop("gold/hold_sketch")
    for name, table in answers.items():
        field = name.removeprefix("gold/")
        rows = sorted(ROW_TYPES[field](**row) for row in table.to_pylist())
        assert rows == sorted(getattr(twin, field)), name
    for name, expected, kind in (
        ("gold/queue_depth", twin.queue_depth, DepthRow),
        ("gold/event_kinds", twin.event_kinds, KindRow),
        ("silver/alarm_interval", twin.alarms, AlarmInterval),
    ):
        assert sorted(kind(**row) for row in found[name].to_pylist()) == sorted(expected), name
    holds = holds_of(found["silver/block_interval"].to_pylist())
    holds = sorted(one for one in holds if one.end_ns > one.start_ns)
    assert holds == sorted(block_intervals(log.events))
    lengths: dict[tuple[int, str], list[int]] = {}
    for one in holds:
        if one.closed_by != "end_of_data":
            stage = actor_kind(one.actor) + HELD_BY + actor_kind(one.peer)
            key = (one.end_ns // WIDTH_NS * WIDTH_NS, stage)
            lengths.setdefault(key, []).append(one.end_ns - one.start_ns)
    assert {
        (row["bucket_ns"], row["stage"]): (row["messages"], row["max_ns"], row["sketch"])
        for row in sketches.to_pylist()
    } == {
        key: (len(some), max(some), sketch(np.array(some, np.int64)))
        for key, some in lengths.items()
    }


def gate(seq: int, t_ns: int, kind: str, amount: int = 0) -> FlowEvent:
    return FlowEvent("b", seq, t_ns, kind, "conn:A", "chan:A/1", "credit", amount, {})


def test_a_hold_that_is_still_open_is_kept_even_without_length(tmp_path: Path) -> None:
    files = [written(tmp_path / "1.parquet", [gate(3, 50, "gate_closed")])]
    (row,) = facts_of(files, WIDTH_NS)["silver/block_interval"].to_pylist()
    assert (row["start_ns"], row["end_ns"], row["closed_by"]) == (50, 50, "end_of_data")


@pytest.mark.parametrize("shares", [1, 3])
def test_what_one_reader_of_a_broker_lost_is_there_if_another_has_it(
    tmp_path: Path, shares: int
) -> None:
    """A broker writes files and a stream, each by a reader of its own with gaps of its own."""
    lost = FlowEvent("b", 2, 20, "dropped", "", "", "", 2, {})
    whole = [gate(1, 10, "gate_closed"), gate(2, 20, "gate_opened", 10), gate(3, 90, "x")]
    parts = [[lost, gate(3, 90, "x")], whole]
    files = [written(tmp_path / f"{at}.parquet", part) for at, part in enumerate(parts)]
    found = facts_of(files, WIDTH_NS, shares)
    (hold,) = found["silver/block_interval"].to_pylist()
    assert (hold["start_ns"], hold["end_ns"], hold["closed_by"]) == (10, 20, "gate_opened")
    assert sum(row["there"] for row in found["gold/coverage"].to_pylist()) == 3


def test_time_is_not_summed_from_a_queue_to_the_next_of_its_name(tmp_path: Path) -> None:
    """Which counts from 0 on, or would seem to have given time back."""

    def sample(seq: int, t_ns: int, waiting_ns: int) -> FlowEvent:
        numbers = {"waiting_ns": waiting_ns}
        return FlowEvent("b", seq, t_ns, "time_sample", "queue:/q", "", "", 0, numbers)

    events = [
        sample(1, 100, 70),
        sample(2, 110, 80),
        FlowEvent("b", 3, 115, "actor_up", "queue:/q", "", "", 0, {}),
        sample(4, 120, 5),
        sample(5, 130, 15),
    ]
    found = facts_of([written(tmp_path / "1.parquet", events)], 10)["silver/sample_step"]
    steps = [(row["start_ns"], row["end_ns"], row["waiting_ns"]) for row in found.to_pylist()]
    assert sorted(steps, key=str) == [(100, 110, 10), (120, 130, 10)]
    states = oracle.time_in_state(events, 10)
    assert [(row.bucket_ns, row.wall_ns, row.waiting_ns) for row in states] == [
        (100, 10, 10),
        (120, 10, 10),
    ]


def test_nothing_gives_tables_without_rows(tmp_path: Path) -> None:
    found = facts_of([written(tmp_path / "1.parquet", [])], WIDTH_NS)
    assert {len(table) for table in found.values()} == {0}
    assert {len(one) for one in answers_of(tmp_path, found, WIDTH_NS, (0, 400)).values()} == {0}
