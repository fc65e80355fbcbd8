"""How the flow pipeline grows: with time, with events, with executors, and on paper.

    python bench/pipeline_growth.py sustained    100,000 events a second, a batch a second
    python bench/pipeline_growth.py memory       what the driver takes for 1, 10, 30 million events
    python bench/pipeline_growth.py executors    local-cluster[2,1,1024] against [1,1,1024], paired
    python bench/pipeline_growth.py costs        time of tasks, bytes shuffled, and 100 executors
    python bench/pipeline_growth.py shares       processor time of all tasks, 1 to 64 shares
    python bench/pipeline_growth.py executors --share 0.5    the same, with half a processor each
    python bench/pipeline_growth.py all --smoke  does everything run? two minutes

The rate of a backlog is measured by `pipeline.py`. Every measurement has a JVM of its own, warmed
up by a small directory. The machine's load before and after is printed: on a busy one only the
ratios say much, and processor seconds.

    sustained   lines are appended to a file at an even pace while a query follows it. The lag of a
                batch is that of its oldest event: since it was written, until all tables have it.
    memory      the driver of local-cluster[2,1,1024], so that no task runs in it: the most its JVM
                and its Python had in memory, the most its heap had, and what was left of that after
                a collection at the end.
    executors   the same events in turns, one, two, two, one executor of one core; with --pinned
                each executor has one processor, with --share 0.5 half of one, and what is left is
                the driver's; without these the only executor takes up to two processors.
    costs       what the tasks of each step of a backlog took, by Spark's own counts.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

# Run as a program neither the directory above nor the sources are on the path yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from bench.cpu_share import LEAST
from bench.machine import describe
from bench.pipeline import BUCKET_NS, SMOKE_EVENTS, WARM_UP_EVENTS, check, warm_session
from bench.pipeline_events import SHAPES, write_events
from bench.pipeline_executors import executors, memory, one
from bench.pipeline_shares import shares
from bench.pipeline_sustained import sustained
from penstock.spark.input import bronze
from penstock.spark.job import event_tables
from penstock.spark.job.job import SparkJob

PARTS: Final = ("shares", "costs", "sustained", "memory", "executors")
COUNT_ALWAYS: Final = "--conf spark.ui.liveUpdate.period=0 pyspark-shell"
"""Spark's counts have every task as soon as it ended."""

SETTLE_S: Final = 0.5
"""After which Spark's counts have what the last stage did."""

PAPER_EXECUTORS: Final = (1, 2, 10, 30, 100)


# -- costs -----------------------------------------------------------------------------------------


class Steps:
    """What Spark's own counts say of the steps of a backlog, and how long each took."""

    def __init__(self, spark: Any) -> None:
        self._store = spark.sparkContext._jsc.sc().statusStore()
        # What Scala fills in, for a list of all stages.
        self._defaults = [getattr(self._store, f"stageList$default${at}")() for at in range(2, 6)]
        self.found: dict[str, dict[str, float]] = {}
        self.spent_s = 0.0
        """On counting."""

    def counts(self) -> dict[str, float]:
        """Of all stages so far."""
        began_s = time.perf_counter()
        time.sleep(SETTLE_S)
        known = self._store.stageList(None, *self._defaults)
        every = [known.apply(at) for at in range(known.size())]
        found = {
            "tasks": sum(one.numCompleteTasks() for one in every),
            "task_s": sum(one.executorRunTime() for one in every) / 1000,
            "shuffled_bytes": sum(one.shuffleWriteBytes() for one in every),
        }
        self.spent_s += time.perf_counter() - began_s
        return found

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """`work`, counted as step `name`."""

        def do(*given: Any, **named: Any) -> Any:
            before, began_s = self.counts(), time.perf_counter()
            try:
                return work(*given, **named)
            finally:
                took_s = time.perf_counter() - began_s
                known = self.found.setdefault(name, {"times": 0, "seconds": 0.0})
                known["times"] += 1
                known["seconds"] += took_s
                for key, value in self.counts().items():
                    known[key] = known.get(key, 0) + value - before[key]

        return do

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Steps are counted meanwhile."""
        places: list[tuple[Any, str, str]] = [
            (bronze, "take_in", "reading"),
            (event_tables, "found_in_tasks", "reach"),
            (event_tables.EventTables, "_make", ""),
        ]
        kept = [getattr(owner, name) for owner, name, _ in places]

        def make(tables: Any, pieces: Any, works: Any, schemas: Any, *more: Any) -> Any:
            step = "facts" if "silver/last_seen" in schemas else "answers"
            return self.timed(step, kept[2])(tables, pieces, works, schemas, *more)

        for (owner, name, step), work in zip(places, kept, strict=True):
            setattr(owner, name, self.timed(step, work) if step else make)
        try:
            yield
        finally:
            for (owner, name, _), work in zip(places, kept, strict=True):
                setattr(owner, name, work)


def costs(options: argparse.Namespace, place: Path) -> dict[str, Any]:
    """What tasks cost, and what follows for more executors."""
    write_events(place / "in", options.events, options.shape)
    with warm_session(place) as spark:
        cores = spark.sparkContext.defaultParallelism
        steps = Steps(spark)
        job = SparkJob(spark, place / "in", place / "tables", BUCKET_NS)
        began_s = time.perf_counter()
        with steps.watching():
            job.update()
        took_s = time.perf_counter() - began_s
        count = check(job, 0)
        batches = int(steps.found["facts"]["times"])
        took_s -= steps.spent_s
        sizes = {name: sum(one.bytes for one in job.store.live(name)) for name in job.store.names()}
    by_event = {name: known["task_s"] / count * 1e6 for name, known in steps.found.items()}
    serial_s = max(0.0, took_s - sum(known["seconds"] for known in steps.found.values())) / batches
    return {
        "events": count,
        "batches": batches,
        "steps": {
            name: {key: round(value, 2) for key, value in known.items()}
            for name, known in steps.found.items()
        },
        "task_us_per_event": {name: round(value, 2) for name, value in by_event.items()},
        "shuffled_bytes_per_event": round(
            sum(known["shuffled_bytes"] for known in steps.found.values()) / count, 3
        ),
        "driver_alone_s_per_batch": round(serial_s, 2),
        "state_bytes": {name: sizes.get(name, 0) for name in ("silver/last_seen",)},
        "table_bytes_per_event": round(sum(sizes.values()) / count, 1),
        "paper": paper(by_event, serial_s, cores, count / batches),
    }


def paper(task_us: dict[str, float], serial_s: float, cores: int, events: float) -> list[str]:
    """How long a batch takes with more executors of a core each, as sums.

    task_us: of tasks an event; serial_s: of the driver alone for a batch; cores: at which this was
    measured; events: of a batch."""
    shared_us = sum(task_us.values())
    found = [
        f"seconds of a batch = {serial_s:.2f} (driver) + events × {shared_us:.2f} µs / executors"
    ]
    for executors_ in PAPER_EXECUTORS:
        rates = []
        # A batch as it is, and one that grows with the cores.
        for size in (events, events * max(1, executors_ / cores)):
            took_s = serial_s + size * shared_us / executors_ / 1e6
            rates.append(f"{size / took_s:,.0f}/s with {size:,.0f} events a batch")
        found.append(f"{executors_} executors: " + "; ".join(rates))
    return found


# -- all -------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    parts: dict[str, Callable[[argparse.Namespace, Path], dict[str, Any]]] = {
        "shares": shares,
        "sustained": sustained,
        "memory": memory,
        "executors": executors,
        "costs": costs,
        "one": one,
    }
    os.environ["PYSPARK_SUBMIT_ARGS"] = COUNT_ALWAYS
    result: dict[str, Any] = {}
    for part in PARTS if options.part == "all" else [options.part]:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=options.scratch) as scratch:
            result[part] = parts[part](options, Path(scratch))
    if options.part == "one":
        print(json.dumps(result["one"]))
        return 0
    print(json.dumps({**result, "machine": describe()}, indent=1))
    return 0 if options.smoke or all(one.get("is_met", True) for one in result.values()) else 1


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """What is to be measured. Raises: SystemExit."""
    parser = argparse.ArgumentParser(description="How the flow pipeline grows.")
    parser.add_argument("part", choices=(*PARTS, "all", "one"))
    parser.add_argument("--events", type=int, default=4_000_000, help="of executors and costs")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 10_000_000, 30_000_000])
    parser.add_argument("--rate", type=int, default=100_000, help="events a second, sustained")
    parser.add_argument("--seconds", type=float, default=60.0, help="of sustained")
    parser.add_argument("--shape", choices=SHAPES, default="pressed")
    parser.add_argument("--runs", type=int, default=4, help="of executors, in turns: 2 or 4")
    parser.add_argument("--pinned", action="store_true", help="a processor an executor")
    parser.add_argument(
        "--share", type=float, default=0.0, help="of executors: of a processor, for each of them"
    )
    parser.add_argument(
        "--warm-up", type=int, default=2_000_000, help="of a share: events before those that count"
    )
    parser.add_argument("--cluster", default="local-cluster[{},1,1024]")
    parser.add_argument("--scratch", help="a directory with room: 150 bytes an event, and tables")
    parser.add_argument("--smoke", action="store_true", help="few events; does everything run?")
    parser.add_argument("--input", help=argparse.SUPPRESS)
    parser.add_argument("--master", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if min(options.events, options.rate, options.seconds, options.warm_up, *options.sizes) <= 0:
        parser.error("sizes, rates and seconds are above 0")
    if options.share and not LEAST <= options.share <= 1:
        parser.error(f"a share is {LEAST} to 1 of a processor")
    if options.share and options.pinned:
        parser.error("executors have a share of a processor, or one of their own")
    if options.smoke:
        options.events, options.sizes = SMOKE_EVENTS, [SMOKE_EVENTS]
        options.rate, options.seconds = SMOKE_EVENTS // 4, 4.0
        options.warm_up = WARM_UP_EVENTS
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
