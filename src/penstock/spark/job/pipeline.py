"""The analysis from end to end: input directory to tables, tables to promises and one report.

    bronze   the lines as they came, in columns
    silver   facts: block intervals, alarm intervals, steps between samples, message spans
    gold     answers: who blocked whom, root causes, time in state, latency, throughput, integrity

The tables are Delta tables (or Parquet, without `deltalake`), and only what is new is worked on, by
Spark. The report reads them without it.

`follow` runs it along with a broker, again and again, and prints one line a round about the newest
buckets: how many events came, how long publishers were held, and because of whom.
"""

import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.base.errors import OperatorError
from penstock.spark.blame.blame import QUEUES, blamed, held_kinds
from penstock.spark.input.pipeline_input import PipelineInput, run_of
from penstock.spark.java import JavaHome, find_java
from penstock.spark.job.about import About, read_about, write_about
from penstock.spark.job.backlog import See
from penstock.spark.report.report import render
from penstock.spark.report.summary import Summary, summarise
from penstock.spark.schema.formats import TABLES, RunDescription
from penstock.spark.schema.rows import BlameRow, nodes_of, renamed

if TYPE_CHECKING:
    from penstock.spark.job.job import SparkJob
    from penstock.spark.tables.store import TableStore

BUCKET_NS: Final = 1_000_000_000
SPARK_PACKAGES: Final = ("pyspark", "pyarrow", "pandas")
TOO_OLD: Final = ("4.0.", "4.1.")
"""Versions that do not tell a source where the query is, which `penstock-files` has to know."""
INSTALL: Final = 'pip install "penstock-mq[spark]"'
BUCKETS_SHOWN: Final = 10


def report(tables_dir: Path, output_dir: Path, form: str = "") -> Summary:
    """Write summary.json and index.html of tables that are there, and these with the broker's own
    names, as "csv" or "parquet" if `form` says so.

    Raises: OperatorError when there are none, or the output cannot be written.
    """
    about = read_about(tables_dir)
    if about is None:
        raise OperatorError(
            f"{tables_dir} holds no tables; make some with "
            f"`penstock pipeline run --input EVENTS_DIR --tables {tables_dir}`"
        )
    require_packages("the report", "pyarrow")
    # Optional: an installation without the extra has a broker all the same.
    from penstock.spark.tables.loading import export, load_names, load_tables
    from penstock.spark.tables.store import existing_store

    store = existing_store(tables_dir)
    stored = load_tables(store)
    names = load_names(store)
    # A run knows the names of its own clients, and only its own brokers have them.
    nodes = {one.node for one in about.run.brokers} or nodes_of(stored)
    names |= {node: {**names.get(node, {}), **about.run.clients_at(node)} for node in nodes}
    tables = renamed(stored, names)
    summary = summarise(tables, about.run, about.source, about.bucket_ns)
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
        summary.write(output_dir / "summary.json")
        page = render(tables, about.run, summary, about.bucket_ns)
        (output_dir / "index.html").write_text(page, encoding="utf-8")
        if form:
            export(output_dir / TABLES, stored, form)
    except OSError as fault:
        raise OperatorError(
            f"the report cannot be written below {output_dir}: {fault}; choose another directory"
        ) from fault
    return summary


def require_packages(what: str, *names: str) -> None:
    """Raises: OperatorError when one of `names` cannot be imported, which `what` needs."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise OperatorError(f"{what} needs {' and '.join(missing)}: {INSTALL}")


def spark_java() -> JavaHome:
    """The Java that the pipeline runs on. Raises: OperatorError without one, or without Spark."""
    require_packages("the pipeline", *SPARK_PACKAGES)
    found = version("pyspark")
    if found.startswith(TOO_OLD):
        raise OperatorError(
            f"the pipeline needs PySpark 4.2 or 4.3, and {found} is installed, with which only the "
            'connector works: pip install "pyspark>=4.2,<4.4"'
        )
    return find_java()


class Updater:
    """Brings the tables of one directory up to its inputs, by a job in a session of Spark. note:
    which Spark, on which Java, where."""

    def __init__(
        self, job: "SparkJob", places: Sequence[PipelineInput], tables_dir: Path, note: str
    ) -> None:
        self._job = job
        self._places = places
        self._tables_dir = tables_dir
        self._note = note

    def update(self, see: See | None = None) -> About:
        """Take in what is new; `see` is told now and then how far it is. Raises: OperatorError when
        that cannot be done."""
        try:
            self._job.update(see)
            return self._described()
        except OSError as fault:
            raise _unwritten(self._tables_dir, fault) from fault

    def follow(self, period_s: float, say: Callable[[str], None]) -> None:
        """Go on with what comes; a line for every batch, and one when a broker is away, which is
        waited for. Raises: OperatorError."""
        ended_s = time.monotonic()

        def told(count: int) -> None:
            nonlocal ended_s
            about = self._described()
            began_s, ended_s = ended_s, time.monotonic()
            recent = recent_blame(self._job.store, about)
            say(line_of(recent, about, count, ended_s - began_s))

        self._job.follow(period_s, told, say)

    def keep(self, keep_ns: int | None, bronze_ns: int | None) -> None:
        """How old tables, and bronze, may become while it runs; None for any age."""
        self._job.upkeep.keep_ns, self._job.upkeep.bronze_ns = keep_ns, bronze_ns

    def _described(self) -> About:
        """Write down what the tables are made of. Raises: OSError."""
        source = self._job.counts(self._note)
        about = About(source, self._job.bucket_ns, self._job.origin_ns, run_of(self._places))
        write_about(self._tables_dir, about)
        return about


@contextmanager
def open_updater(
    places: Sequence[PipelineInput],
    tables_dir: Path,
    java: JavaHome,
    bucket_ns: int,
    master: str = "",
) -> Iterator[Updater]:
    """An updater, with its Spark session. bucket_ns: width of the buckets of blame, a second for
    minutes of data, ten for hours; master: where Spark runs, "" for this machine.
    Raises: OperatorError."""
    origin_ns = origin_of(tables_dir, run_of(places), bucket_ns)
    try:
        tables_dir.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise _unwritten(tables_dir, fault) from fault
    # Spark is an optional, heavy dependency: what reads tables alone must not import it.
    from penstock.spark.job.job import SparkJob
    from penstock.spark.session.session import open_session

    with open_session(java, master, has_python_tasks=True) as spark:
        job = SparkJob(spark, places, tables_dir, bucket_ns, origin_ns)
        where = f"Java {java.version} ({java.source}) · {spark.sparkContext.master}"
        yield Updater(job, places, tables_dir, f"pyspark {spark.version} · {where}")


def _unwritten(tables_dir: Path, fault: OSError) -> OperatorError:
    return OperatorError(
        f"the tables in {tables_dir} cannot be written: {fault}; choose another directory"
    )


def origin_of(tables_dir: Path, run: RunDescription, bucket_ns: int) -> int:
    """Where buckets of throughput begin. Tables that were begun before the description of the run
    was there go on as they began. Raises: OperatorError when their buckets have another width."""
    before = read_about(tables_dir)
    if before is None:
        return run.origin_ns
    if before.bucket_ns != bucket_ns:
        raise OperatorError(
            f"{tables_dir} has buckets of {before.bucket_ns / 1e9:g} s, not of "
            f"{bucket_ns / 1e9:g} s; go on with --bucket {before.bucket_ns / 1e9:g}, or choose "
            "another --tables directory"
        )
    return before.origin_ns


def recent_blame(store: "TableStore", about: About) -> list[BlameRow]:
    """The root causes of the last BUCKETS_SHOWN buckets in which anything happened."""
    # Optional, as above.
    from penstock.spark.tables.loading import load_blame, newest

    newest_ns = newest(store, "gold/event_kinds", "bucket_ns")
    return load_blame(store, newest_ns - (BUCKETS_SHOWN - 1) * about.bucket_ns)


def line_of(recent: Sequence[BlameRow], about: About, new_count: int, seconds: float) -> str:
    """One batch: what came, and what the last ten buckets of blame say."""
    sums = blamed(recent, "cause", "root")
    parts = [f"+{new_count:,} lines in {seconds:.1f} s"]
    window = f"last {BUCKETS_SHOWN * about.bucket_ns / 1e9:g} s"
    if sums:
        (cause, root), held_ns = next(iter(sums.items()))
        whole_ns = sum(sums.values())
        who = "queues" if held_kinds(recent) == QUEUES else "publishers"
        parts.append(
            f"{window}: {who} held {whole_ns / 1e9:.1f} s, {held_ns / whole_ns:.0%} {cause} "
            f"({root})"
        )
    else:
        parts.append(f"{window}: nothing held")
    if about.source.events_missing:
        parts.append(f"{about.source.events_missing:,} events are missing")
    return " · ".join(parts)
