"""A report beside a run: figures that are checked against each other are of one batch."""

import threading
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("deltalake", reason="deltalake is not installed")

from penstock.base.errors import OperatorError  # noqa: E402
from penstock.spark.schema.arrow_columns import ANSWERS  # noqa: E402
from penstock.spark.tables import loading  # noqa: E402
from penstock.spark.tables.files import write_days  # noqa: E402
from penstock.spark.tables.loading import load_tables  # noqa: E402
from penstock.spark.tables.store import DeltaStore  # noqa: E402


def put(store: DeltaStore, name: str, batch: int) -> None:
    """A row of ten seconds, which is all there is, as batch after batch makes them anew."""
    schema = ANSWERS[name]
    row: dict[str, Any] = {
        field.name: {pa.int64(): 10 + batch, pa.binary(): b""}.get(field.type, "a")
        for field in schema
    }
    rows = pa.Table.from_pylist([row | {"bucket_ns": 0}], schema=schema)
    files = write_days(store.place(name), batch, rows, "bucket_ns")
    store.exchange(name, files, schema, batch, "bucket_ns", 0)


@pytest.fixture
def store(tmp_path: Path) -> DeltaStore:
    found = DeltaStore(tmp_path)
    for name in ANSWERS:
        put(found, name, 0)
    put(found, "gold/held_time", 1)
    return found


def test_a_batch_that_is_under_way_is_waited_for(store: DeltaStore) -> None:
    def go_on() -> None:
        for name in ANSWERS:
            put(store, name, 1)

    later = threading.Timer(0.3, go_on)
    later.start()
    tables = load_tables(store)
    later.join()
    assert [row.held_ns for row in tables.held_time] == [11]
    assert [row.blamed_ns for row in tables.root_cause] == [11]


def test_a_run_that_was_cut_short_is_told_and_not_reported(
    store: DeltaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "WAIT_S", 0.2)
    with pytest.raises(OperatorError, match="a run was cut short"):
        load_tables(store)
