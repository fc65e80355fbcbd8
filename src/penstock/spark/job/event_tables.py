"""What follows from events: silver and gold from a moment on, made by tasks, put in by the driver.

The moment is the reach of the new events (`reach.py`). Tasks work with arrays: shares of the actors
give facts, stretches of time give answers. Files are read once and dealt to them, and they write
their tables themselves (`tasks.py`). What was seen last is put in last of all: a batch that was cut
short begins where it had begun.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.spark.job.backlog import BLAME, HOLDS
from penstock.spark.job.facts import CarriedFile, EventFile, Facts
from penstock.spark.job.gold_tables import Answers, FactFile
from penstock.spark.job.reach import Horizon, Reach, Scan
from penstock.spark.job.silver_tables import SHARED
from penstock.spark.job.tasks import (
    TASKS_A_CORE,
    Made,
    Piece,
    Target,
    Work,
    bundled,
    found_in_tasks,
    make_tables,
)
from penstock.spark.schema.arrow_columns import ANSWERS, FACTS
from penstock.spark.tables.files import time_of
from penstock.spark.tables.store import EVENTS, TableStore

TABLES_AT_A_TIME: Final = 2
STRETCHES_A_CORE: Final = 2
SHARE_BYTES: Final = 1 << 19
"""Of bronze, some thirty thousand events, for which a share of its own is worth while."""

STRETCH_ROWS: Final = 50_000
"""Of facts, for which a stretch of its own is worth while."""

TAIL_BUCKETS: Final = 2
"""How many of the last buckets are in files of their own, as the next batch makes them anew."""

EVENT_TABLES: Final = (*FACTS, *ANSWERS)
KNOWN: Final = ("silver/consumer", "silver/last_seen")
"""What is known of everything so far: small, and exchanged as a whole, once all else is there."""

NEVER_NS: Final = 1 << 62

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
        horizon = self._horizon(known)
        parts = bundled(horizon.events, self._tasks(horizon.events))
        scans = [Scan(tuple(files), known) for files in parts]
        reach = found_in_tasks(self._spark, scans, horizon.reach)
        if not reach.last:
            # All that is new are lines that cannot be read, of which nothing follows.
            self._put(dict.fromkeys(EVENT_TABLES, Made((), ())), EVENT_TABLES, batch, NEVER_NS)
            return
        from_ns = store.kept(EVENTS, reach.from_ns, self._bucket_ns)
        pieces, shares = self._slice(reach, from_ns)
        works = [
            Facts(horizon.consumers, reach.alive, reach.over, number, from_ns, self._bucket_ns)
            for number in range(shares)
        ]
        self._begun(HOLDS)
        tail_ns = self._tail(reach)
        found = self._make(pieces, works, FACTS, batch, from_ns, tail_ns)
        self._put(found, FACTS.keys() - set(KNOWN), batch, from_ns)
        place = store.place("silver/consumer")
        consumers = tuple(str(place / file.path) for file in found["silver/consumer"].files)
        self._begun(BLAME)
        borders = self._borders(found, from_ns)
        stretches = list(pairwise(borders))
        facts = [
            FactFile(name, file, tuple(borders))
            for name, table in (("holds", "block_interval"), ("steps", "sample_step"))
            for file in self._since(f"silver/{table}", from_ns)
            if stretches
        ]
        answers = [Answers(consumers, low, high, self._bucket_ns) for low, high in stretches]
        found |= self._make(facts, answers, ANSWERS, batch, from_ns, tail_ns)
        self._put(found, ANSWERS, batch, from_ns)
        for name in KNOWN:
            self._put(found, [name], batch, 0)

    def _slice(self, reach: Reach, from_ns: int) -> tuple[list[Piece], int]:
        """What is dealt of events and of what tables know, and to how many shares."""
        store = self._store
        live = store.live(EVENTS, "t_ns")
        size = sum(file.bytes for file in live if file.high >= from_ns)
        cores = self._spark.sparkContext.defaultParallelism
        shares = max(1, min(cores, size // SHARE_BYTES))
        pieces: list[Piece] = [
            EventFile(
                str(store.place(EVENTS) / file.path),
                file.low,
                file.high,
                from_ns,
                min(reach.earlier_ns, from_ns),
                shares,
            )
            for file in live
            if file.high >= min(reach.earlier_ns, from_ns)
        ]
        for name, files in (
            ("holds", self._since("silver/block_interval", from_ns)),
            ("alarms", self._since("silver/alarm_interval", from_ns)),
            ("seen", store.files("silver/last_seen")),
        ):
            pieces += [CarriedFile(name, file, from_ns, shares) for file in files]
        return pieces, shares

    def _tasks(self, files: Iterable[str]) -> int:
        """How many of them are worth while."""
        size = sum(Path(file).stat().st_size for file in files)
        cores = self._spark.sparkContext.defaultParallelism
        return max(1, min(cores * TASKS_A_CORE, size // SHARE_BYTES))

    def _horizon(self, known: int) -> Horizon:
        store = self._store
        holds, steps, consumers, seen, coverage = (
            tuple(store.files(name))
            for name in (
                "silver/block_interval",
                "silver/sample_step",
                "silver/consumer",
                "silver/last_seen",
                "gold/coverage",
            )
        )
        new = tuple(file for file in store.files(EVENTS) if _may_be_new(file, known))
        is_torn = len({store.batch(name) for name in EVENT_TABLES}) > 1
        return Horizon(
            new, holds, steps, consumers, seen, coverage, known, self._bucket_ns, is_torn
        )

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
        pieces: Sequence[Piece],
        works: Sequence[Work],
        schemas: Mapping[str, pa.Schema],
        batch: int,
        from_ns: int,
        tail_ns: int,
    ) -> dict[str, Made]:
        targets = {
            name: Target(
                str(self._store.place(name)),
                schema,
                time_of(schema.names),
                0 if name in KNOWN else from_ns,
                0 if name in KNOWN else tail_ns,
                SHARED.get(name),
            )
            for name, schema in schemas.items()
        }
        return make_tables(self._spark, pieces, works, targets, batch)

    def _put(
        self, found: Mapping[str, Made], names: Iterable[str], batch: int, from_ns: int
    ) -> None:
        """Put files in the place of rows from `from_ns` on."""
        schemas = FACTS | ANSWERS

        def put(name: str) -> None:
            schema, files = schemas[name], found[name].files
            self._store.exchange(name, files, schema, batch, time_of(schema.names), from_ns)

        with ThreadPoolExecutor(TABLES_AT_A_TIME) as pool:
            list(pool.map(put, names))

    def _borders(self, found: Mapping[str, Made], from_ns: int) -> list[int]:
        """Of the time of the slice in parts of about as many rows each, of whole buckets."""
        last_ns = found["gold/event_kinds"].high
        if last_ns < 0:
            return []
        made = [found[name] for name in ("silver/block_interval", "silver/sample_step")]
        rows = sum(file.rows for one in made for file in one.files)
        most = self._spark.sparkContext.defaultParallelism * STRETCHES_A_CORE
        count = max(1, min(most, rows // STRETCH_ROWS))
        starts = sorted(one for table in made for one in table.starts)
        inner = [starts[len(starts) * number // count] for number in range(1, count) if starts]
        return sorted({
            from_ns,
            last_ns + self._bucket_ns,
            *(self._floor(max(one, from_ns)) for one in inner),
        })  # fmt: skip

    def _floor(self, t_ns: int) -> int:
        return t_ns - t_ns % self._bucket_ns


def _may_be_new(file: str, known: int) -> bool:
    """Whether a file of bronze may have events of a batch after `known`: those that were put
    together from others do not say."""
    found = _BATCH.match(PurePath(file).name)
    return found is None or int(found[1]) > known
