"""How fast flow events become tables: lines of a recorder to bronze, silver and gold, with Spark.

    python bench/pipeline.py                    a million events, three times; about three minutes
    python bench/pipeline.py --events 4000000 --repeats 5
    python bench/pipeline.py --smoke            does everything arrive? about half a minute

The events are those of a busy broker: 200 connections whose channels and queues hold each other, a
sample of each every second. They are written to two files beforehand. What is timed is one update
of empty tables, from the first read to the last commit; a small directory before it warms Java up.
Wanted: 200,000 events a second on two cores.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

# Run as a program neither the directory above nor the sources are on the path yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from bench.machine import describe
from penstock.spark.java import find_java
from penstock.spark.job import SparkJob
from penstock.spark.session import open_session
from penstock.telemetry.events import GATE_CLOSED, GATE_OPENED, Event, TimeSample
from penstock.telemetry.trace import TraceHeader, encode_events, encode_header

WANTED_PER_S: Final = 200_000
CONNECTIONS: Final = 200
BUCKET_NS: Final = 1_000_000_000
STEP_NS: Final = 50_000
BLOCK: Final = 20_000
SMOKE_EVENTS: Final = 20_000
WARM_UP_EVENTS: Final = 5_000


class BenchFailed(Exception):
    """Events were missing, or the books did not balance."""


def events_of(seed: int, count: int) -> Iterator[Event]:
    """`count` events of one boot, STEP_NS apart: holds, and a time sample for every tenth."""
    chance = random.Random(seed)
    open_: dict[tuple[str, str], int] = {}
    t_ns = 5_000 * BUCKET_NS
    for seq in range(count):
        t_ns += STEP_NS
        number = chance.randrange(CONNECTIONS)
        connection, channel = f"conn:10.0.0.{seed}:{number}", f"chan:10.0.0.{seed}:{number}/1"
        if seq % 10 == 0:
            age_ns = t_ns - 5_000 * BUCKET_NS
            yield TimeSample(seq, t_ns, connection, age_ns // 2, age_ns - age_ns // 2, 0, 0)
            continue
        pair = (connection, channel) if seq % 2 else (channel, f"queue:/work-{number % 20}")
        began_ns = open_.pop(pair, None)
        if began_ns is None:
            open_[pair] = t_ns
            yield Event(seq, t_ns, GATE_CLOSED, *pair, "credit", 0)
        else:
            yield Event(seq, t_ns, GATE_OPENED, *pair, "credit", t_ns - began_ns)


def write_events(directory: Path, count: int) -> None:
    """Two boots with half of the events each."""
    directory.mkdir(parents=True)
    for seed in (1, 2):
        block: list[Event] = []
        with (directory / f"events-{seed}.jsonl").open("wb") as file:
            file.write(encode_header(TraceHeader("bench", str(seed), 0, 0, "bench")))
            for event in events_of(seed, count // 2):
                block.append(event)
                if len(block) == BLOCK:
                    file.write(encode_events(block))
                    block.clear()
            file.write(encode_events(block))


def check(job: SparkJob, count: int) -> None:
    """Raises: BenchFailed."""
    counts = job.counts()
    if (counts.event_count, counts.events_missing, counts.unreadable_lines) != (count, 0, 0):
        raise BenchFailed(f"{count} events were written, and the tables say {counts}")
    held, blamed = job.store.read("gold/held_time"), job.store.read("gold/root_cause")
    assert held is not None and blamed is not None, "something was held"
    held_ns, blamed_ns = sum(held["held_ns"].to_pylist()), sum(blamed["blamed_ns"].to_pylist())
    if held_ns != blamed_ns:
        raise BenchFailed(f"{held_ns} ns were held and {blamed_ns} ns blamed")


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    count = SMOKE_EVENTS if options.smoke else options.events
    repeats = 1 if options.smoke else options.repeats
    rates: list[float] = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        place = Path(scratch)
        write_events(place / "small", WARM_UP_EVENTS)
        write_events(place / "in", count)
        size = sum(path.stat().st_size for path in (place / "in").iterdir())
        with open_session(find_java()) as spark:
            SparkJob(spark, place / "small", place / "small-tables", BUCKET_NS).update()
            for number in range(repeats):
                job = SparkJob(spark, place / "in", place / f"tables-{number}", BUCKET_NS)
                began = time.perf_counter()
                job.update()
                rates.append(count / (time.perf_counter() - began))
                check(job, count)
                print(f"run {number + 1}: {rates[-1]:,.0f} events/s", flush=True)
    median = statistics.median(rates)
    result = {
        "events": count,
        "bytes": size,
        "events_per_s": round(median),
        "wanted_per_s": WANTED_PER_S,
        "machine": describe(),
    }
    print(json.dumps(result, indent=1))
    if options.smoke:
        print("every event is in the tables, and the books balance")
        return 0
    print(f"pipeline: {median:,.0f} events/s, {WANTED_PER_S:,} wanted")
    return 0 if median >= WANTED_PER_S else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Flow events to tables: events a second.")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="few events; is everything there?")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
