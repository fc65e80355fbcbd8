"""What follows from events: silver and gold from a moment on, made by tasks, put in by the driver.

The moment is the reach of the new events (`reach.py`). Two rounds of tasks work with arrays: shares
of the actors give facts, stretches of time give answers, and both write their tables themselves
(`tasks.py`). What was seen last is put in last of all: a batch that was cut short begins where
it had begun.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import PurePath
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from penstock.spark.job.backlog import BLAME, HOLDS
from penstock.spark.job.facts import Facts
from penstock.spark.job.gold_tables import Answers
from penstock.spark.job.reach import Horizon, Reach
from penstock.spark.job.silver_tables import SHARED
from penstock.spark.job.tasks import Made, Target, found_in_task, make_tables
from penstock.spark.schema.arrow_columns import ANSWERS, FACTS, Tables, read
from penstock.spark.tables.store import EVENTS, TableStore

TABLES_AT_A_TIME: Final = 2
STRETCHES_A_CORE: Final = 2
TAIL_BUCKETS: Final = 2
"""How many of the last buckets are in files of their own, as the next batch makes them anew."""

EVENT_TABLES: Final = (*FACTS, *ANSWERS)
KNOWN: Final = ("silver/consumer", "silver/last_seen")
"""What is known of everything so far: small, and exchanged as a whole, once all else is there."""

_TIMES: Final = ("bucket_ns", "end_ns", "since_ns", "t_ns")
"""What a table is exchanged by: the first of these columns that it has."""
_BATCH: Final = re.compile(r"part-(\d+)-")


class EventTables:
    """The tables of `store` that are made of events. bucket_ns: width of the buckets; begun: told
    of each step of `backlog.STEPS`."""

    def __init__(
        self, spark: SparkSession, store: TableStore, bucket_ns: int, begun: Callable[[str], None]
    ) -> None:
        self._spark = spark
        self._store = store
        self._bucket_ns = bucket_ns
        self._begun = begun

    def update(self, known: int, batch: int) -> None:
        """Make what the batches of bronze after `known`, up to `batch`, say. Raises: OSError,
        OperatorError, and what Spark raises when a task fails."""
        store = self._store
        reach = found_in_task(self._spark, self._horizon(known))
        from_ns = store.kept(EVENTS, reach.from_ns, self._bucket_ns)
        shares = self._spark.sparkContext.defaultParallelism
        work = Facts(
            tuple(
                (str(store.place(EVENTS) / file.path), file.low, file.high)
                for file in store.live(EVENTS, "t_ns")
            ),
            self._since("silver/block_interval", from_ns),
            self._since("silver/alarm_interval", from_ns),
            self._since("silver/sample_step", from_ns),
            tuple(store.files("silver/consumer")),
            tuple(store.files("silver/last_seen")),
            reach.last,
            0,
            shares,
            from_ns,
            self._bucket_ns,
        )
        self._begun(HOLDS)
        works = [replace(work, share=number) for number in range(shares)]
        tail_ns = self._tail(reach)
        found = self._make(works, FACTS, batch, from_ns, tail_ns)
        self._put(found, FACTS.keys() - set(KNOWN), batch, from_ns)
        members = _members(self._rows(found["silver/consumer"], "silver/consumer"))
        intervals = self._since("silver/block_interval", from_ns)
        steps = self._since("silver/sample_step", from_ns)
        self._begun(BLAME)
        answers = [
            Answers(intervals, steps, low, high, self._bucket_ns, members)
            for low, high in self._stretches(found, from_ns)
        ]
        self._put(self._make(answers, ANSWERS, batch, from_ns, tail_ns), ANSWERS, batch, from_ns)
        for name in KNOWN:
            self._put(found, [name], batch, 0)

    def _horizon(self, known: int) -> Horizon:
        store = self._store
        holds, steps, consumers, seen = (
            tuple(store.files(f"silver/{name}"))
            for name in ("block_interval", "sample_step", "consumer", "last_seen")
        )
        new = tuple(file for file in store.files(EVENTS) if _may_be_new(file, known))
        is_torn = len({store.batch(name) for name in EVENT_TABLES}) > 1
        return Horizon(new, holds, steps, consumers, seen, known, self._bucket_ns, is_torn)

    def _since(self, name: str, from_ns: int) -> tuple[str, ...]:
        """The files of a table with facts that end at `from_ns` or later."""
        place = self._store.place(name)
        return tuple(
            str(place / file.path)
            for file in self._store.live(name, "end_ns")
            if file.high >= from_ns
        )

    def _tail(self, reach: Reach) -> int:
        """From when on the next batch probably makes things anew."""
        last_ns = min((end.t_ns for end in reach.last.values()), default=0)
        return max(0, self._floor(last_ns) - TAIL_BUCKETS * self._bucket_ns)

    def _make(
        self,
        works: Sequence[Callable[[], Tables]],
        schemas: Mapping[str, pa.Schema],
        batch: int,
        from_ns: int,
        tail_ns: int,
    ) -> dict[str, Made]:
        targets = {
            name: Target(
                str(self._store.place(name)),
                schema,
                _time_of(schema),
                0 if name in KNOWN else from_ns,
                0 if name in KNOWN else tail_ns,
                SHARED.get(name),
            )
            for name, schema in schemas.items()
        }
        return make_tables(self._spark, works, targets, batch)

    def _put(
        self, found: Mapping[str, Made], names: Iterable[str], batch: int, from_ns: int
    ) -> None:
        """Put files in the place of rows from `from_ns` on."""
        schemas = FACTS | ANSWERS

        def put(name: str) -> None:
            schema, files = schemas[name], found[name].files
            self._store.exchange(name, files, schema, batch, _time_of(schema), from_ns)

        with ThreadPoolExecutor(TABLES_AT_A_TIME) as pool:
            list(pool.map(put, names))

    def _stretches(self, found: Mapping[str, Made], from_ns: int) -> list[tuple[int, int]]:
        """The time of the slice in parts of about as many rows each, of whole buckets."""
        last_ns = found["gold/event_kinds"].high
        if last_ns < 0:
            return []
        count = self._spark.sparkContext.defaultParallelism * STRETCHES_A_CORE
        tables = ("silver/block_interval", "silver/sample_step")
        starts = sorted(one for name in tables for one in found[name].starts)
        inner = [starts[len(starts) * number // count] for number in range(1, count) if starts]
        borders = {
            from_ns,
            last_ns + self._bucket_ns,
            *(self._floor(max(one, from_ns)) for one in inner),
        }
        return list(pairwise(sorted(borders)))

    def _rows(self, made: Made, name: str) -> pa.Table:
        """What tasks have made of a small table that is not put in yet."""
        place = self._store.place(name)
        files = [str(place / file.path) for file in made.files]
        return read(files, FACTS[name], pc.scalar(True))

    def _floor(self, t_ns: int) -> int:
        return t_ns - t_ns % self._bucket_ns


def _time_of(schema: pa.Schema) -> str:
    return next(one for one in _TIMES if one in schema.names)


def _may_be_new(file: str, known: int) -> bool:
    """Whether a file of bronze may have events of a batch after `known`: those that were put
    together from others do not say."""
    found = _BATCH.match(PurePath(file).name)
    return found is None or int(found[1]) > known


def _members(consumers: pa.Table) -> dict[tuple[str, str], tuple[str, ...]]:
    """The consumers of each queue of each boot."""
    found: dict[tuple[str, str], set[str]] = {}
    for row in consumers.to_pylist():
        found.setdefault((row["boot_id"], row["group"]), set()).add(row["consumer"])
    return {group: tuple(sorted(consumers)) for group, consumers in sorted(found.items())}
