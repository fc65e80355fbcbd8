"""Both kinds of tables: rows, batches and marks; and what is there is never taken for another."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import OperatorError

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("deltalake", reason="deltalake is not installed")

import pyarrow.parquet as pq  # noqa: E402

from penstock.spark.tables import files  # noqa: E402
from penstock.spark.tables import store as stores  # noqa: E402
from penstock.spark.tables.files import WrittenFile, write_file  # noqa: E402
from penstock.spark.tables.loading import newest  # noqa: E402
from penstock.spark.tables.store import DeltaStore, ParquetStore, TableStore, existing_store  # noqa: E402

NAME = "gold/t"


def rows(**numbers: int) -> Any:
    return pa.table(
        {
            "name": pa.array(list(numbers), pa.string()),
            "at": pa.array(list(numbers.values()), pa.int64()),
        }
    )


def content(store: TableStore) -> dict[str, int]:
    table = store.read(NAME)
    return {} if table is None else {row["name"]: row["at"] for row in table.to_pylist()}


@pytest.fixture(params=[DeltaStore, ParquetStore])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TableStore:
    make: Callable[[Path], TableStore] = request.param
    return make(tmp_path)


def test_rows_from_a_moment_on_are_replaced(store: TableStore) -> None:
    assert (store.batch(NAME), store.read(NAME)) == (-1, None)
    store.replace(NAME, rows(a=1, b=5, c=9), 0, "at", 0)
    store.replace(NAME, rows(d=6), 3, "at", 5)
    assert content(store) == {"a": 1, "d": 6}
    assert store.batch(NAME) == 3
    store.replace(NAME, rows(e=0), 4)
    assert content(store) == {"e": 0}


def test_files_of_tasks_are_added_with_how_far_they_go(store: TableStore) -> None:
    place = store.place(NAME)
    place.mkdir(parents=True)
    for batch, numbers in enumerate(({"a": 1}, {"b": 2})):
        pq.write_table(rows(**numbers), place / f"part-{batch}-x.parquet")
        part = WrittenFile(
            f"part-{batch}-x.parquet", (place / f"part-{batch}-x.parquet").stat().st_size, 1
        )
        store.append(NAME, [part], rows().schema, batch, {"files": 7 * batch})
    (place / "part-2-y.parquet").write_bytes(b"of a task that has failed")
    assert content(store) == {"a": 1, "b": 2}
    assert (store.mark(NAME, "files"), store.mark(NAME, "stream-1")) == (7, -1)
    assert store.batch(NAME) == 1


def test_files_take_the_place_of_rows_from_a_moment_on(
    store: TableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a dictionary: files that straddle the moment, some of several groups of rows, and
    commits that bring nothing or take everything."""
    monkeypatch.setattr(files, "GROUP_ROWS", 3)
    dice = random.Random(4)
    expected: dict[str, int] = {}
    store.place(NAME).mkdir(parents=True)
    for batch in range(25):
        from_ = dice.choice([0, *range(40)])
        new: list[dict[str, int]] = []
        for part in range(dice.randrange(3)):
            times = [from_ + dice.randrange(20) for _ in range(dice.randrange(9))]
            new.append({f"{batch}-{part}-{at}": time for at, time in enumerate(times)})
        written = [
            write_file(store.place(NAME), f"part-{batch}-{at}.parquet", rows(**one), "at")
            for at, one in enumerate(new)
        ]
        (store.place(NAME) / f"part-{batch}-x.parquet").write_bytes(
            b"of a task that was done twice"
        )
        store.exchange(NAME, written, rows().schema, batch, "at", from_)
        expected = {name: at for name, at in expected.items() if at < from_}
        for one in new:
            expected |= one
        assert content(store) == expected
        assert store.batch(NAME) == batch
        if isinstance(store, ParquetStore):
            left = {str(path) for path in store.place(NAME).glob("part-*.parquet")}
            assert left == set(store.files(NAME))
        assert newest(store, NAME, "at") == max(expected.values(), default=0)


def test_delta_tables_are_gone_on_with(tmp_path: Path) -> None:
    DeltaStore(tmp_path).replace(NAME, rows(a=1), 5, "at", 0)
    again = existing_store(tmp_path)
    assert (again.batch(NAME), content(again)) == (5, {"a": 1})


def test_many_small_versions_are_tidied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "TIDY_EVERY", 4)
    store = DeltaStore(tmp_path)
    for number in range(7):
        store.replace(NAME, rows(**{f"n{number}": number}), number, "at", number)
    assert content(store) == {f"n{number}": number for number in range(7)}
    assert len(store.files(NAME)) < 7
    assert store.batch(NAME) == 6


def test_two_writers_are_not_both_let(tmp_path: Path) -> None:
    place = tmp_path / NAME
    first = DeltaStore(tmp_path)
    first.replace(NAME, rows(a=1), 0)
    pq.write_table(rows(b=2), place / "part-1.parquet")
    part = WrittenFile("part-1.parquet", (place / "part-1.parquet").stat().st_size, 1)
    late = DeltaStore(tmp_path)
    table = late._table(NAME)
    late._table = lambda name: table  # type: ignore[method-assign]
    first.append(NAME, [part], rows().schema, 1, {})
    with pytest.raises(OperatorError, match="another `penstock pipeline"):
        late.append(NAME, [part], rows().schema, 1, {})
    assert content(first) == {"a": 1, "b": 2}


def test_a_place_that_delta_tables_are_not_found_in_is_refused(tmp_path: Path) -> None:
    store = DeltaStore(tmp_path / "a bä")
    store.replace(NAME, rows(a=1), 0)
    assert content(store) == {"a": 1}
    with pytest.raises(OperatorError, match="a % in its path"):
        DeltaStore(tmp_path / "a%20b")


def test_delta_tables_are_not_taken_for_plain_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DeltaStore(tmp_path).replace(NAME, rows(a=1), 0)
    monkeypatch.setattr("penstock.spark.tables.store.importlib.util.find_spec", lambda name: None)
    for opened in (stores.open_store, existing_store):
        with pytest.raises(OperatorError, match="install deltalake"):
            opened(tmp_path)
    assert DeltaStore(tmp_path).files(NAME)


def test_plain_tables_are_made_anew(tmp_path: Path) -> None:
    ParquetStore(tmp_path).replace(NAME, rows(a=1), 5)
    (tmp_path / "gold" / "mine.txt").write_text("keep")
    assert content(existing_store(tmp_path)) == {"a": 1}
    assert content(ParquetStore(tmp_path)) == {}
    assert existing_store(tmp_path).files(NAME) == []
    assert (tmp_path / "gold" / "mine.txt").exists()
