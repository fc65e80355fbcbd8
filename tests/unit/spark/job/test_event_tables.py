"""Events in many batches give the tables of one pass, whatever they are cut into.

The works of the tasks are done here, one after the other, without Spark; the tables are real ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.spark.input import event_slice, parse
from penstock.spark.job import event_tables, facts, reach, tasks
from penstock.spark.job.event_tables import EVENT_TABLES, EventTables
from penstock.spark.schema.rows import ROW_TYPES, AlarmInterval
from penstock.spark.tables.files import WrittenFile, write_days
from penstock.spark.tables.store import EVENTS, ParquetStore, TableStore, open_store
from tests.spark import oracle
from tests.spark.flow_events import FlowEvent
from tests.spark.oracle_input import TraceLog
from tests.spark.oracle_intervals import block_intervals
from tests.unit.spark.by_arrays import holds_of, log_of, written
from tests.unit.spark.recorded import WIDTH_NS, Moves, recorded, steps

SHARES = 2


def make_here(
    spark: object,
    pieces: Sequence[tasks.Piece],
    works: Sequence[tasks.Work],
    targets: Mapping[str, tasks.Target],
    batch: int,
) -> dict[str, tasks.Made]:
    """As `make_tables`, without the executors."""
    bundles = tasks.bundled(pieces, SHARES)
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(bundles)))})
    deal = tasks.dealing(bundles, len(works))
    dealt = [row for block in deal(iter([numbers])) for row in block.to_pylist()]
    rows = []
    for share in range(len(works)):
        mine = [row for row in dealt if row["share"] == share]
        block = pa.RecordBatch.from_pylist(mine, schema=tasks._PIECE)
        for made in tasks.doing(works, targets, batch)(iter([block])):
            rows += made.to_pylist()
    found = {}
    for name in targets:
        parts = [row for row in rows if row["name"] == name]
        if parts:
            told = pa.Table.from_pylist(parts, schema=tasks._SCHEMA)
            parts = tasks.merging(targets, batch)((pa.scalar(name),), told).to_pylist()
        found[name] = tasks._made(parts)
    return found


@pytest.fixture(autouse=True, params=["all at once", "in small parts"])
def _here(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """In small parts a boot is also taken to be over before long, and comes back."""
    monkeypatch.setattr(event_tables, "make_tables", make_here)

    def find(spark: object, works: Sequence[Any], merge: Callable[[Sequence[Any]], Any]) -> Any:
        return merge([work() for work in works])

    monkeypatch.setattr(event_tables, "found_in_tasks", find)
    if request.param == "in small parts":
        monkeypatch.setattr(event_tables, "SHARE_BYTES", 1)
        monkeypatch.setattr(event_tables, "STRETCH_ROWS", 1)
        monkeypatch.setattr(reach, "REPLACED_NS", 60)
        monkeypatch.setattr(reach, "SILENT_NS", 90)


def update(store: TableStore, width_ns: int = WIDTH_NS) -> None:
    known = min(store.batch(name) for name in EVENT_TABLES)
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=SHARES))
    if store.batch(EVENTS) > known:
        EventTables(spark, store, width_ns, lambda step: None).update(known, store.batch(EVENTS))


def take_in(store: TableStore, events: Sequence[FlowEvent]) -> None:
    batch = store.batch(EVENTS) + 1
    place = store.place(EVENTS)
    place.mkdir(parents=True, exist_ok=True)
    name = f"part-{batch}-x.parquet"
    size = Path(written(place / name, events, batch)).stat().st_size
    times = [one.t_ns for one in events]
    part = WrittenFile(name, size, len(events), min(times), max(times))
    store.append(EVENTS, [part], parse.EVENTS, batch, {})


def rows_of(store: TableStore, name: str) -> list[dict[str, Any]]:
    found = store.read(name)
    return [] if found is None else found.to_pylist()


def assert_one_pass(store: TableStore, events: Sequence[FlowEvent]) -> None:
    log = log_of(events)
    twin = oracle.analyse(log, TraceLog((), 0), WIDTH_NS)

    for name in (
        "who_blocked_whom",
        "held_time",
        "time_in_state",
        "root_cause",
        "queue_depth",
        "event_kinds",
    ):
        found = sorted(ROW_TYPES[name](**row) for row in rows_of(store, f"gold/{name}"))
        assert found == sorted(getattr(twin, name)), name
    assert sorted(
        AlarmInterval(**row) for row in rows_of(store, "silver/alarm_interval")
    ) == sorted(twin.alarms)
    holds = holds_of(rows_of(store, "silver/block_interval"))
    assert sorted(one for one in holds if one.end_ns > one.start_ns) == sorted(
        block_intervals(log.events)
    )
    ended = sum(one.closed_by != "end_of_data" and one.end_ns > one.start_ns for one in holds)
    assert sum(row["messages"] for row in rows_of(store, "gold/hold_sketch")) == ended
    there = sum(row["there"] for row in rows_of(store, "gold/coverage"))
    assert there == sum(one.kind != "dropped" for one in log.events)


def pieces(events: Sequence[FlowEvent], cuts: Sequence[int]) -> Iterator[Sequence[FlowEvent]]:
    borders = sorted({0, len(events), *(cut % (len(events) + 1) for cut in cuts)})
    for low, high in pairwise(borders):
        yield events[low:high]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(steps, min_size=4, max_size=70), st.lists(st.integers(0, 200), max_size=5))
def test_many_batches_are_one_pass(moves: Moves, cuts: list[int]) -> None:
    events = recorded(moves)
    with TemporaryDirectory() as scratch:
        store = ParquetStore(Path(scratch))
        for part in pieces(events, cuts):
            take_in(store, part)
            update(store)
        if events:
            assert_one_pass(store, events)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(steps, min_size=4, max_size=70),
    st.lists(st.integers(0, 200), max_size=5),
    st.randoms(use_true_random=False),
)
def test_what_comes_late_or_twice_is_put_in_its_place(
    moves: Moves, cuts: list[int], chance: Any
) -> None:
    events = recorded(moves)
    parts = list(pieces(events, cuts))
    chance.shuffle(parts)
    parts += parts[:1]
    with TemporaryDirectory() as scratch:
        store = ParquetStore(Path(scratch))
        for part in parts:
            take_in(store, part)
            update(store)
        if events:
            assert_one_pass(store, events)


class Cut(Exception):
    """The driver was killed."""


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(steps, min_size=4, max_size=70),
    st.lists(st.integers(0, 200), min_size=1, max_size=4),
    st.lists(st.integers(0, 12), min_size=5, max_size=5),
)
def test_a_batch_that_was_cut_short_is_made_again(
    moves: Moves, cuts: list[int], deaths: list[int]
) -> None:
    """After so many tables had it."""
    events = recorded(moves)
    with TemporaryDirectory() as scratch:
        store = ParquetStore(Path(scratch))
        change = store.change
        left = [0]

        def mortal(*arguments: Any) -> None:
            if left[0] == 0:
                raise Cut
            left[0] -= 1
            change(*arguments)

        vars(store)["change"] = mortal
        for part, death in zip(pieces(events, cuts), deaths, strict=False):
            left[0] = 1
            take_in(store, part)
            left[0] = death
            with pytest.raises(Cut):
                update(store)
            left[0] = 1_000
            if death % 2:
                update(store)
        update(store)
        if events:
            assert_one_pass(store, events)


class Work(NamedTuple):
    """What batches have read of bronze."""

    rows: list[int]


def test_a_long_hold_makes_no_batch_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hold and an alarm that are there from the beginning, and a sample a second."""
    counts = Work([])
    read = event_slice.read_events

    def counted(*arguments: Any) -> pa.Table:
        found = read(*arguments)
        counts.rows[-1] += len(found)
        return found

    monkeypatch.setattr(facts, "read_events", counted)
    store = open_store(tmp_path)
    seconds, second = 24, 1_000_000_000
    everything: list[FlowEvent] = []
    for number in range(seconds):
        at = number * second + 100
        events = [
            FlowEvent("b", seq, at + seq, *what, {"busy_ns": at, "consumers": 1})
            for seq, what in enumerate(
                [
                    ("gate_closed", "conn:A", "chan:A/1", "credit", 0),
                    ("alarm_set", "alarm:disk", "", "", 0),
                ]
                if number == 0
                else [
                    ("time_sample", "conn:A", "", "", 0),
                    ("queue_sample", "queue:/q", "", "", 0),
                    ("gate_closed", "chan:A/1", "queue:/q", "credit", 0),
                    ("gate_opened", "chan:A/1", "queue:/q", "credit", 1),
                ],
                number * 4,
            )
        ]
        everything += events
        counts.rows.append(0)
        take_in(store, events)
        update(store, second)
    assert max(counts.rows[12:]) <= max(counts.rows[2:12]) <= 12 * SHARES
    (hold,) = [
        one for one in holds_of(rows_of(store, "silver/block_interval")) if one.actor == "conn:A"
    ]
    assert (hold.start_ns, hold.closed_by) == (100, "end_of_data")
    assert hold.end_ns == max(one.t_ns for one in everything)
    held = [row["held_ns"] for row in rows_of(store, "gold/held_time") if row["actor"] == "conn:A"]
    assert sum(held) == hold.end_ns - hold.start_ns
    assert len(held) == seconds


def test_lines_that_cannot_be_read_change_nothing_that_is_known(tmp_path: Path) -> None:
    """A batch has nothing else, as when a line is torn and its broker is silent."""
    events = [
        FlowEvent("b", 1, 100, "gate_closed", "chan:A/1", "queue:/q", "credit", 0, {}, "n"),
        FlowEvent("b", 2, 110, "alarm_set", "alarm:memory", "", "", 0, {}, "n"),
        FlowEvent("b", 3, 400, "actor_up", "conn:B", "", "", 0, {}, "n"),
    ]
    store = open_store(tmp_path)
    take_in(store, events)
    update(store)
    assert_one_pass(store, events)
    torn = pa.Table.from_pylist([{"unreadable": "{torn", "batch": 1}], schema=parse.EVENTS)
    store.append(EVENTS, write_days(store.place(EVENTS), 1, torn, "t_ns"), torn.schema, 1, {})
    update(store)
    assert_one_pass(store, events)
    more = [FlowEvent("b", 4, 500, "gate_opened", "chan:A/1", "queue:/q", "credit", 400, {}, "n")]
    take_in(store, more)
    update(store)
    assert_one_pass(store, [*events, *more])
