"""The analysis from end to end: input directory to tables, promises and one report.

    bronze   the lines as they came, without repeats
    silver   facts: block intervals, alarm intervals, message spans
    gold     answers: who blocked whom, root causes, time in state, latency, throughput, integrity

With Spark the tables are Parquet; without it the same tables are computed in plain Python and
written as CSV, and the summary says what to install.
"""

import csv
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.base.errors import OperatorError
from penstock.spark import plain
from penstock.spark.formats import (
    read_events,
    read_run,
    read_traces,
    require_input,
)
from penstock.spark.java import JavaHome, find_java
from penstock.spark.names import renamed
from penstock.spark.report import write_report
from penstock.spark.rows import Tables
from penstock.spark.summary import Source, Summary, summarise

BUCKET_NS: Final = 1_000_000_000
SPARK_PACKAGES: Final = ("pyspark", "pyarrow", "pandas")
INSTALL: Final = 'pip install "penstock[spark]"'


@dataclass(frozen=True, slots=True)
class Engine:
    """What computes the tables. `java`: None for plain Python; `note`: which, or why not Spark."""

    java: JavaHome | None
    note: str


def run(
    input_dir: Path,
    output_dir: Path,
    *,
    with_spark: bool = True,
    bucket_ns: int = BUCKET_NS,
) -> Summary:
    """Analyse `input_dir`, write tables, summary.json and index.html below `output_dir`.

    bucket_ns: width of the buckets of blame, a second for minutes of data, ten for hours.
    Raises: OperatorError when the input cannot be used or the output not be written.
    """
    require_input(input_dir)
    description = read_run(input_dir)
    engine = choose_engine() if with_spark else Engine(None, "plain Python, as asked")
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
        if engine.java is None:
            tables, source = _run_plain(
                input_dir,
                output_dir,
                engine.note,
                bucket_ns,
                description.origin_ns,
            )
        else:
            tables, source = _run_spark(
                input_dir,
                output_dir,
                engine,
                bucket_ns,
                description.origin_ns,
            )
        tables = renamed(tables, description.names)
        summary = summarise(tables, description, source)
        summary.write(output_dir / "summary.json")
        write_report(output_dir / "index.html", tables, description, summary, bucket_ns)
    except OSError as fault:
        raise OperatorError(
            f"the report cannot be written below {output_dir}: {fault}; choose another directory"
        ) from fault
    return summary


def choose_engine() -> Engine:
    """Spark when its packages and a Java are there, else plain Python with what to install."""
    missing = [name for name in SPARK_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        return Engine(
            None, f"plain Python, because {' and '.join(missing)} cannot be found: {INSTALL}"
        )
    try:
        java = find_java()
    except OperatorError as fault:
        return Engine(None, f"plain Python, because {fault}")
    return Engine(java, f"Java {java.version} ({java.source})")


def _run_spark(
    input_dir: Path,
    output_dir: Path,
    engine: Engine,
    bucket_ns: int,
    origin_ns: int,
) -> tuple[Tables, Source]:
    assert engine.java is not None, "the caller chose Spark only with a Java"
    # Spark is an optional, heavy dependency: whoever runs without it must not import it.
    from penstock.spark.job import SparkJob
    from penstock.spark.session import open_session

    with open_session(engine.java) as spark:
        job = SparkJob(spark, input_dir, output_dir / "tables", bucket_ns, origin_ns)
        tables, counts = job.run()
        note = f"pyspark {spark.version} · {engine.note} · {spark.sparkContext.master}"
    return tables, Source("spark", note, *counts)


def _run_plain(
    input_dir: Path,
    output_dir: Path,
    note: str,
    bucket_ns: int,
    origin_ns: int,
) -> tuple[Tables, Source]:
    events = read_events(input_dir)
    traces = read_traces(input_dir)
    tables = plain.analyse(events, traces, bucket_ns, origin_ns)
    gold_dir = output_dir / "tables" / "gold"
    gold_dir.mkdir(parents=True, exist_ok=True)
    for name, rows in tables._asdict().items():
        _write_csv(gold_dir / f"{name}.csv", rows)
    return tables, Source(
        "plain",
        note,
        len(events.events),
        events.missing_count,
        events.unreadable_count + traces.unreadable_count,
        len(traces.lines),
    )


def _write_csv(path: Path, rows: Sequence[tuple[object, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        if rows:
            fields: tuple[str, ...] = getattr(rows[0], "_fields", ())
            writer.writerow(fields)
        writer.writerows(rows)
