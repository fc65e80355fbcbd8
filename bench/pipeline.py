"""How fast flow events become tables: lines of a recorder to bronze, silver and gold, with Spark.

    python bench/pipeline.py                    a million events of each shape; some minutes
    python bench/pipeline.py --events 4000000 --repeats 5 --shape pressed
    python bench/pipeline.py --input DIR        event files of a broker of your own
    python bench/pipeline.py --smoke            does everything arrive? about half a minute

The events are those of a busy broker in three shapes: see `pipeline_events.py`. They are written
to two files beforehand. What is timed is one update of empty tables, from the first read to the
last commit; a small directory before it warms Java up. Shapes take turns. Where others use the
machine, time says little: what processors worked is printed beside it.
Wanted: 300,000 events a second on two quiet cores, of ten million that a pressed broker wrote:
`--events 10000000 --repeats 1 --shape pressed`, under a minute. How it grows is measured by
`pipeline_growth.py`.
"""

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import psutil
from pyspark.sql import SparkSession

# Run as a program neither the directory above nor the sources are on the path yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from bench.machine import describe
from bench.pipeline_events import SHAPES, write_events
from penstock.spark.java import find_java
from penstock.spark.job.job import SparkJob
from penstock.spark.session.session import CORES_MAX, open_session

WANTED_PER_S: Final = 300_000
BUCKET_NS: Final = 1_000_000_000
SMOKE_EVENTS: Final = 20_000
WARM_UP_EVENTS: Final = 5_000


class BenchFailed(Exception):
    """Events were missing, or the books did not balance."""


def check(job: SparkJob, count: int) -> int:
    """How many events the tables have: `count`, if that is not 0. Raises: BenchFailed."""
    counts = job.counts()
    found = (counts.event_count, counts.events_missing, counts.unreadable_lines)
    if count and found != (count, 0, 0):
        raise BenchFailed(f"{count} events were written, and the tables say {counts}")
    sums = []
    for name, column in (("gold/held_time", "held_ns"), ("gold/root_cause", "blamed_ns")):
        table = job.store.read(name)
        sums.append(0 if table is None else sum(table[column].to_pylist()))
    if sums[0] != sums[1] or (count and not sums[0]):
        raise BenchFailed(f"{sums[0]} ns were held and {sums[1]} ns blamed")
    return counts.event_count


def worked_by() -> dict[str, float]:
    """Processor seconds so far of the driver's Python and its JVM, and of the JVMs and the Python
    workers of executors, also of those that ended. Tasks of `local` run in the driver's JVM."""
    me = psutil.Process()
    drivers = [one for one in me.children() if is_java(one)]
    found = dict.fromkeys(("driver_python", "driver_jvm", "executor_jvms", "python_workers"), 0.0)
    for one in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            spent = one.cpu_times()
            key = "executor_jvms" if is_java(one) else "python_workers"
            if one == me or one in drivers:
                key = "driver_python" if one == me else "driver_jvm"
            found[key] += spent.user + spent.system
            found["python_workers"] += spent.children_user + spent.children_system
    return found


def worked_s() -> float:
    """All of them."""
    return sum(worked_by().values())


def is_java(process: psutil.Process) -> bool:
    """False for one that has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return "java" in process.name()
    return False


@contextlib.contextmanager
def warm_session(
    place: Path, master: str = "", events: int = WARM_UP_EVENTS
) -> Iterator[SparkSession]:
    """A session whose JVM has compiled a small backlog. place: for that; master: of Spark; events:
    of the small backlog."""
    write_events(place / "small", events)
    with open_session(find_java(), master, has_python_tasks=True) as spark:
        SparkJob(spark, place / "small", place / "small-tables", BUCKET_NS).update()
        yield spark


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    options.events = SMOKE_EVENTS if options.smoke else options.events
    count = options.events
    repeats = 1 if options.smoke else options.repeats
    shapes = [options.shape] if options.shape else list(SHAPES)
    rates: dict[str, list[float]] = {}
    costs: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        place = Path(scratch)
        if options.input:
            count, inputs = 0, {"recorded": Path(options.input)}
        else:
            inputs = {shape: place / shape for shape in shapes}
            for shape, directory in inputs.items():
                count = write_events(directory, options.events, shape)
        with warm_session(place) as spark:
            for number in range(repeats):
                for shape, directory in inputs.items():
                    tables = place / f"tables-{shape}-{number}"
                    job = SparkJob(spark, directory, tables, BUCKET_NS)
                    began, worked = time.perf_counter(), worked_s()
                    job.update()
                    took_s, worked = time.perf_counter() - began, worked_s() - worked
                    found = check(job, count)
                    rates.setdefault(shape, []).append(found / took_s)
                    costs.setdefault(shape, []).append(worked / found * 1e6)
                    print(
                        f"{shape} {number + 1}: {found / took_s:,.0f} events/s, "
                        f"{costs[shape][-1]:.1f} µs of a processor each",
                        flush=True,
                    )
    result = {
        "events": count,
        "shapes": {
            shape: {
                "events_per_s": round(statistics.median(found)),
                "slowest_per_s": round(min(found)),
                "fastest_per_s": round(max(found)),
                "processor_us_per_event": round(statistics.median(costs[shape]), 1),
            }
            for shape, found in rates.items()
        },
        "wanted_per_s": WANTED_PER_S,
        "cores": CORES_MAX,
        "machine": describe(),
    }
    print(json.dumps(result, indent=1))
    if options.smoke:
        print("every event is in the tables, and the books balance")
        return 0
    shape = next(iter(rates))
    median = statistics.median(rates[shape])
    print(f"pipeline, {shape}: {median:,.0f} events/s, {WANTED_PER_S:,} wanted")
    return 0 if median >= WANTED_PER_S else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Flow events to tables: events a second.")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--shape", choices=SHAPES, help="one only")
    parser.add_argument("--input", help="a directory of event files instead")
    parser.add_argument("--smoke", action="store_true", help="few events; is everything there?")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
