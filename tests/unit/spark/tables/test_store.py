"""Both kinds of tables: rows, batches and marks; and what is there is never taken for another."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import OperatorError

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")

import pyarrow.parquet as pq  # noqa: E402

from penstock.spark.tables import files  # noqa: E402
from penstock.spark.tables import store as stores  # noqa: E402
from penstock.spark.tables.files import WrittenFile, write_days  # noqa: E402
from penstock.spark.tables.loading import newest  # noqa: E402
from penstock.spark.tables.store import DeltaStore, ParquetStore, TableStore, existing_store  # noqa: E402
from penstock.spark.tables.upkeep import compact  # noqa: E402

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
    store.replace(NAME, rows(e=0), 4, "at", 0)
    assert content(store) == {"e": 0}
    for number in range(2):
        store.replace("gold/latency", rows(e=number), number)
        assert store.read("gold/latency") == rows(e=number)


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
            file for one in new for file in write_days(store.place(NAME), batch, rows(**one), "at")
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
            left = {str(path) for path in store.place(NAME).glob("**/part-*.parquet")}
            assert left == set(store.files(NAME))
        assert newest(store, NAME, "at") == max(expected.values(), default=0)


def test_delta_tables_are_gone_on_with(tmp_path: Path) -> None:
    DeltaStore(tmp_path).replace(NAME, rows(a=1), 5, "at", 0)
    again = existing_store(tmp_path)
    assert (again.batch(NAME), content(again)) == (5, {"a": 1})


def test_a_table_that_is_known_is_opened_seldom_and_never_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch asks often, and opening costs a look at all of the log."""
    opened: list[str] = []
    kind = deltalake.DeltaTable

    class Counted(kind):  # type: ignore[misc, valid-type]
        def __init__(self, *given: Any, **named: Any) -> None:
            opened.append(NAME)
            super().__init__(*given, **named)

    monkeypatch.setattr(deltalake, "DeltaTable", Counted)
    store, other = DeltaStore(tmp_path), DeltaStore(tmp_path)
    assert store.batch(NAME) == -1
    for batch in range(2 * stores.KNOWN_VERSIONS):
        # Each sees at once what the other has done.
        writer, reader = (store, other) if batch % 3 else (other, store)
        writer.replace(NAME, rows(**{f"n{batch}": batch}), batch, "at", 0)
        assert reader.batch(NAME) == batch and content(reader) == {f"n{batch}": batch}
    # Twice where there was none, and anew after each KNOWN_VERSIONS.
    assert len(opened) <= 4 + 2 * 2
    shutil.rmtree(store.place(NAME))
    assert store.batch(NAME) == other.batch(NAME) == -1
    other.replace(NAME, rows(a=1), 0, "at", 0)
    assert (store.batch(NAME), content(store)) == (0, {"a": 1})


def test_a_run_is_not_let_beside_another_one(tmp_path: Path) -> None:
    """Whoever was overtaken by a compaction plans again; by another batch he is refused."""
    store = DeltaStore(tmp_path)
    for batch, number in enumerate((1, 2, 3)):
        (part,) = write_days(store.place(NAME), batch, rows(**{f"n{number}": number}), "at")
        store.append(NAME, [part], rows().schema, batch, {})
    table_of = store.table

    def overtaken_by(what: Callable[[], object]) -> Callable[[str], Any]:
        def stale(name: str) -> Any:
            store.table = table_of  # type: ignore[method-assign]
            table = table_of(name)
            what()
            return table

        return stale

    other = DeltaStore(tmp_path)
    store.table = overtaken_by(lambda: list(compact(other, is_dry=False)))  # type: ignore[method-assign, assignment]
    store.exchange(NAME, [], rows().schema, 5, "at", 2)
    assert content(store) == {"n1": 1}
    late = overtaken_by(lambda: other.replace(NAME, rows(a=1), 6, "at", 5))
    store.table = late  # type: ignore[method-assign, assignment]
    with pytest.raises(OperatorError, match="another `penstock pipeline"):
        store.replace(NAME, rows(b=1), 7, "at", 5)
    assert content(store) == {"n1": 1, "a": 1} and store.batch(NAME) == 6


def test_a_place_that_delta_tables_are_not_found_in_is_refused(tmp_path: Path) -> None:
    for name in ("a bä", "100%", "5%b"):
        store = DeltaStore(tmp_path / name)
        store.replace(NAME, rows(a=1), 0, "at")
        assert content(store) == {"a": 1}
    with pytest.raises(OperatorError, match=r"has %20 in its path.*another --tables directory"):
        DeltaStore(tmp_path / "a%20b")


def test_delta_tables_are_not_taken_for_plain_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DeltaStore(tmp_path).replace(NAME, rows(a=1), 0, "at")
    monkeypatch.setattr("penstock.spark.tables.store.importlib.util.find_spec", lambda name: None)
    for opened in (stores.open_store, existing_store):
        with pytest.raises(OperatorError, match="install deltalake"):
            opened(tmp_path)
    assert DeltaStore(tmp_path).files(NAME)


def test_plain_tables_are_made_anew(tmp_path: Path) -> None:
    ParquetStore(tmp_path).replace(NAME, rows(a=1), 5, "at")
    (tmp_path / "gold" / "mine.txt").write_text("keep")
    assert content(existing_store(tmp_path)) == {"a": 1}
    assert content(ParquetStore(tmp_path)) == {}
    assert existing_store(tmp_path).files(NAME) == []
    assert (tmp_path / "gold" / "mine.txt").exists()
