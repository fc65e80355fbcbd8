"""How far back new events reach."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa

from penstock.spark.input import parse
from penstock.spark.input.bronze import horizon_of
from penstock.spark.schema.arrow_columns import ALARM_INTERVAL, BLOCK_INTERVAL, SAMPLE_STEP
from penstock.spark.schema.formats import FlowEvent
from penstock.spark.tables.files import WrittenFile
from penstock.spark.tables.store import TableStore, open_store
from tests.unit.spark.by_arrays import written


def took_in(store: TableStore, batch: int, *events: FlowEvent) -> None:
    place = store.place("bronze/events")
    place.mkdir(parents=True, exist_ok=True)
    name = f"part-{batch}.parquet"
    path = Path(written(place / name, events, batch))
    part = WrittenFile(name, path.stat().st_size, len(events))
    store.append("bronze/events", [part], parse.EVENTS, batch, {})


def event(boot_id: str, t_ns: int, kind: str, actor: str = "conn:A", amount: int = 0) -> FlowEvent:
    return FlowEvent(boot_id, t_ns, t_ns, kind, actor, "chan:A/1", "credit", amount, {})


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    """One batch is known: a hold, an alarm and two samples of boot b are open, and a hold of c."""
    store = open_store(tmp_path)
    took_in(store, 0, event("b", 5, "gate_closed"))
    hold = {"actor": "conn:A", "peer": "chan:A/1", "reason": "credit", "end_ns": 60}
    holds = [
        {**hold, "boot_id": "b", "start_ns": 50, "closed_by": "end_of_data"},
        {**hold, "boot_id": "b", "start_ns": 3, "closed_by": "gate_opened"},
        {**hold, "boot_id": "c", "start_ns": 1, "closed_by": "end_of_data"},
    ]
    alarm = {"boot_id": "b", "alarm": "alarm:disk", "start_ns": 45, "end_ns": 60, "is_open": True}
    step = {"boot_id": "b", "kind": "time_sample"}
    steps = [
        {**step, "actor": "conn:A", "start_ns": 40},
        {**step, "actor": "conn:B", "start_ns": 30},
        {**step, "actor": "conn:A", "start_ns": 20, "end_ns": 40},
    ]
    for name, rows, schema in (
        ("block_interval", holds, BLOCK_INTERVAL),
        ("alarm_interval", [alarm], ALARM_INTERVAL),
        ("sample_step", steps, SAMPLE_STEP),
    ):
        store.replace(f"silver/{name}", pa.Table.from_pylist(rows, schema=schema), 0, "start_ns")
    return store


def test_before_anything_is_known_all_is_new(store: TableStore) -> None:
    assert horizon_of(store, -1)() == 0


def test_holds_and_alarms_of_its_boot_are_made_anew(store: TableStore) -> None:
    took_in(store, 1, event("b", 100, "actor_up"))
    assert horizon_of(store, 0)() == 45


def test_a_sample_reaches_back_to_the_one_before_it(store: TableStore) -> None:
    took_in(store, 1, event("b", 100, "time_sample"))
    assert horizon_of(store, 0)() == 40


def test_the_end_of_a_hold_reaches_back_to_its_beginning(store: TableStore) -> None:
    took_in(store, 1, event("b", 100, "gate_opened", amount=70))
    assert horizon_of(store, 0)() == 30


def test_a_new_boot_changes_nothing_of_the_others(store: TableStore) -> None:
    took_in(store, 1, event("d", 100, "gate_opened", amount=-4))
    assert horizon_of(store, 0)() == 100
