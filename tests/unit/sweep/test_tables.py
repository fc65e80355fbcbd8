"""Tests of the table of a sweep: rows come back as they were, in both formats, and once."""

from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from penstock.base.errors import OperatorError
from penstock.sweep.choices import AUTO, DELTA, PARQUET
from penstock.sweep.point import Point, Row, failed_row
from penstock.sweep.tables import FOLDER, RowTable, table_of

HAS_DELTA = find_spec("deltalake") is not None
KINDS = [
    PARQUET,
    pytest.param(DELTA, marks=pytest.mark.skipif(not HAS_DELTA, reason="no deltalake")),
]


def row(seed: int, throughput: float = 1.5) -> Row:
    point = Point("events", "w", 0, 1.0, "penstock", "", 0, 0, 1.0, seed, "m")
    return {**failed_row(point, ""), "throughput_per_s": throughput, "is_growing": False}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_come_back_as_they_were(tmp_path: Path, kind: str) -> None:
    kept = RowTable(tmp_path, kind)
    assert kept.rows() == []
    kept.append([row(1), row(2)])
    kept.append([row(3)])
    again = RowTable(tmp_path)
    assert again.kind == kind
    assert sorted(again.rows(), key=lambda one: str(one["seed"])) == [row(1), row(2), row(3)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_was_kept_twice_counts_once(tmp_path: Path, kind: str) -> None:
    kept = RowTable(tmp_path, kind)
    kept.append([row(1)])
    kept.append([row(1)])
    assert kept.rows() == [row(1)]


def test_what_went_wrong_is_not_kept(tmp_path: Path) -> None:
    kept = RowTable(tmp_path, PARQUET)
    kept.append([{**row(1), "error": "LawBroken: x"}])
    assert not (tmp_path / FOLDER).exists()


def test_half_a_part_is_no_part(tmp_path: Path) -> None:
    kept = RowTable(tmp_path, PARQUET)
    kept.append([row(1)])
    (tmp_path / FOLDER / "unfinished-1").write_bytes(b"PAR1")
    assert RowTable(tmp_path).rows() == [row(1)]


def test_a_damaged_part_is_told(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "part-1.parquet").write_bytes(b"nonsense")
    with pytest.raises(OperatorError, match="remove what is damaged"):
        RowTable(tmp_path).rows()


def test_another_table_is_not_taken_for_one(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / FOLDER).mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / FOLDER / "part-1.parquet")
    with pytest.raises(OperatorError, match="has no column 'engine'"):
        RowTable(tmp_path).rows()


def test_a_folder_goes_on_as_what_it_is(tmp_path: Path) -> None:
    RowTable(tmp_path, PARQUET).append([row(1)])
    assert RowTable(tmp_path, AUTO).kind == PARQUET
    if HAS_DELTA:
        with pytest.raises(OperatorError, match="is kept as parquet"):
            RowTable(tmp_path, DELTA)


def test_columns_have_their_types() -> None:
    types = {field.name: str(field.type) for field in table_of([row(1)]).schema}
    assert types["seed"] == "int64" and types["load"] == "double"
    assert types["is_growing"] == "bool" and types["profile"] == "string"


@pytest.mark.parametrize("name", ["my results", "größe", "a#b?c&d", "50%", "a%20b", "[1]", "a^b"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_may_have_any_name(tmp_path: Path, kind: str, name: str) -> None:
    """Rows of a Delta table were written, and never found again."""
    out = tmp_path / name
    if kind == DELTA and set(name) & set("%[^"):
        with pytest.raises(OperatorError, match="deltalake does not find what it writes"):
            RowTable(out, kind)
        kind = AUTO
    kept = RowTable(out, kind)
    kept.append([row(1)])
    assert kept.rows() == RowTable(out).rows() == [row(1)]


@pytest.mark.skipif(not HAS_DELTA, reason="no deltalake")
@pytest.mark.parametrize("text", ["", "{"])
def test_a_damaged_log_is_told(tmp_path: Path, text: str) -> None:
    log = tmp_path / FOLDER / "_delta_log"
    log.mkdir(parents=True)
    if text:
        (log / "00000000000000000000.json").write_text(text)
    with pytest.raises(OperatorError, match=r"cannot be read: .*remove what is damaged"):
        RowTable(tmp_path).rows()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_cannot_be_kept_are_told(tmp_path: Path, kind: str) -> None:
    (tmp_path / FOLDER).touch()
    with pytest.raises(OperatorError, match=f"{FOLDER} cannot be written: File exists"):
        RowTable(tmp_path, kind).append([row(1)])
