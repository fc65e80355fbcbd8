"""A sweep as Spark tasks: points in, rows out, round after round.

Each task takes a few points and runs them one after the other in its Python worker. A row follows
from its point alone, so a task that is lost, repeated or speculated changes nothing. Rows come back
to the driver at the end of each round; what a killed sweep loses is one round.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.spark.session.watching import tasks_done, watched
from penstock.sweep.point import COLUMNS, REAL, SCHEMA, TEXT, TRUTH, WHOLE, Point, Row, point_of
from penstock.sweep.run import run_point

TASKS_PER_CORE: Final = 4
"""In a round: points differ tenfold in what they cost, so a task done early takes another."""
POINTS_PER_TASK: Final = 4
_TYPES: Final = {TEXT: pa.string(), WHOLE: pa.int64(), REAL: pa.float64(), TRUTH: pa.bool_()}
_ROWS: Final = pa.schema([(name, _TYPES[kind]) for name, kind in SCHEMA.items()])
_POINTS: Final = pa.schema([_ROWS.field(name).with_nullable(False) for name in COLUMNS])


def run_in_spark(
    session: SparkSession, points: Sequence[Point], seen: Callable[[int], None] = lambda done: None
) -> Iterator[list[Row]]:
    """The rows of `points`, a round at a time; `seen` is told how many are done, also in a round.
    Raises: what Spark raises when a task fails."""
    context = session.sparkContext
    cores = session.sparkContext.defaultParallelism
    each = cores * TASKS_PER_CORE * POINTS_PER_TASK
    for at in range(0, len(points), each):
        some = points[at : at + each]

        def look(before: int = at, count: int = len(some)) -> None:
            done, tasks = tasks_done(context)
            seen(before + (count * done // tasks if tasks else 0))

        yield watched(context, partial(run_round, session, some), look)


def run_round(session: SparkSession, points: Sequence[Point]) -> list[Row]:
    """The rows of `points`, all at once."""
    tasks = min(len(points), session.sparkContext.defaultParallelism * TASKS_PER_CORE)
    # Dealt out like cards, because neighbours in a grid cost the same.
    dealt = [point for first in range(tasks) for point in points[first::tasks]]
    context = session.sparkContext
    frame = session.createDataFrame(
        context.parallelize([tuple(asdict(point).values()) for point in dealt], tasks),
        from_arrow_schema(_POINTS),
    )
    found = frame.mapInArrow(run_batches, from_arrow_schema(_ROWS)).toArrow()
    rows: list[Row] = found.to_pylist()
    return rows


def run_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What runs in a worker."""
    for batch in batches:
        rows = [run_point(point_of(row)) for row in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, _ROWS)
