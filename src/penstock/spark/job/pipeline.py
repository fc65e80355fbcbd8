"""The analysis from end to end: input directory to tables, tables to promises and one report.

    bronze   the lines as they came, in columns
    silver   facts: block intervals, alarm intervals, steps between samples, message spans
    gold     answers: who blocked whom, root causes, time in state, latency, throughput, integrity

With Spark the tables are Delta tables (or Parquet, without `deltalake`), and only what is new is
worked on. Without it the same tables are computed in plain Python, written as CSV, and the summary
says what to install.

`follow` runs it along with a broker, again and again, and prints one line a round about the newest
buckets: how many events came, how long publishers were held, and because of whom.
"""

import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from penstock.base.errors import OperatorError
from penstock.spark.blame.blame import QUEUES, blamed, held_kinds
from penstock.spark.input.pipeline_input import PipelineInput, as_input
from penstock.spark.input.stream_input import InputAway
from penstock.spark.java import JavaHome, find_java
from penstock.spark.job import in_memory
from penstock.spark.job.about import (
    PLAIN,
    SPARK,
    About,
    read_about,
    read_csv,
    write_about,
    write_csv,
)
from penstock.spark.report.report import write_report
from penstock.spark.report.summary import Summary, TableSource, summarise
from penstock.spark.schema.formats import TABLES, RunDescription, require_input
from penstock.spark.schema.rows import BlameRow, Tables, client_names, renamed

BUCKET_NS: Final = 1_000_000_000
SPARK_PACKAGES: Final = ("pyspark", "pyarrow", "pandas")
INSTALL: Final = 'pip install "penstock[spark]"'
BUCKETS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Engine:
    """What computes the tables. `java`: None for plain Python; `note`: which, or why not Spark;
    `master`: of Spark, "" for this machine."""

    java: JavaHome | None
    note: str
    master: str = ""


PLAIN_ASKED: Final = Engine(None, "plain Python, as asked")


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
    engine = choose_engine() if with_spark else PLAIN_ASKED
    tables_dir = output_dir / TABLES
    with open_updater(input_dir, tables_dir, engine, bucket_ns) as updater:
        updater.update()
    return report(tables_dir, output_dir)


def report(tables_dir: Path, output_dir: Path) -> Summary:
    """Write summary.json and index.html of tables that are there.

    Raises: OperatorError when there are none, or the output cannot be written.
    """
    about = read_about(tables_dir)
    if about is None:
        raise OperatorError(
            f"{tables_dir} holds no tables; make some with "
            f"`penstock pipeline run --input EVENTS_DIR --tables {tables_dir}`"
        )
    tables = renamed(stored_tables(tables_dir, about), stored_names(tables_dir, about))
    summary = summarise(tables, about.run, about.source, about.bucket_ns)
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
        summary.write(output_dir / "summary.json")
        write_report(output_dir / "index.html", tables, about.run, summary, about.bucket_ns)
    except OSError as fault:
        raise OperatorError(
            f"the report cannot be written below {output_dir}: {fault}; choose another directory"
        ) from fault
    return summary


def stored_tables(tables_dir: Path, about: About) -> Tables:
    """The gold tables, with the broker's own names. Raises: OperatorError."""
    if about.source.engine == PLAIN:
        return read_csv(tables_dir / "gold")
    if importlib.util.find_spec("pyarrow") is None:
        raise OperatorError(f"pyarrow cannot be found, which reads these tables: {INSTALL}")
    # Optional: an installation with plain tables alone does not need it.
    from penstock.spark.tables.loading import load_tables
    from penstock.spark.tables.store import existing_store

    return load_tables(existing_store(tables_dir))


def stored_names(tables_dir: Path, about: About) -> dict[str, str]:
    """What clients are called, by address; what the run calls them comes first."""
    if about.source.engine == PLAIN:
        return dict(about.run.names)
    # Optional, as above.
    from penstock.spark.tables.loading import load_names
    from penstock.spark.tables.store import existing_store

    return {**load_names(existing_store(tables_dir)), **about.run.names}


def choose_engine(master: str = "") -> Engine:
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
    return Engine(java, f"Java {java.version} ({java.source})", master)


class Updater:
    """Brings the tables of one directory up to one directory of input. Nominal base."""

    def __init__(self, place: Path | PipelineInput, tables_dir: Path, bucket_ns: int) -> None:
        self.input = as_input(place)
        self.tables_dir = tables_dir
        self.run = self.input.run()
        self.bucket_ns = bucket_ns
        before = read_about(tables_dir)
        # Tables that were begun before the description of the run was there go on as they began.
        self.origin_ns = self.run.origin_ns if before is None else before.origin_ns
        if before is not None and before.bucket_ns != bucket_ns:
            raise OperatorError(
                f"{tables_dir} has buckets of {before.bucket_ns / 1e9:g} s, not of "
                f"{bucket_ns / 1e9:g} s; go on with --bucket {before.bucket_ns / 1e9:g}, or choose "
                "another --tables directory"
            )

    def update(self) -> About:
        """Take in what is new. Raises: OperatorError when that cannot be done."""
        try:
            return self.described_by(self.work())
        except OSError as fault:
            raise OperatorError(
                f"the tables in {self.tables_dir} cannot be written: {fault}; choose another "
                "directory"
            ) from fault

    def described_by(self, source: TableSource) -> About:
        """Write down what the tables are made of. Raises: OSError."""
        self.tables_dir.mkdir(parents=True, exist_ok=True)
        about = About(source, self.bucket_ns, self.origin_ns, self.described())
        write_about(self.tables_dir, about)
        return about

    def follow(self, period_s: float, say: Callable[[str], None]) -> None:
        """Go on with what comes; a line for every time something did. Raises: OperatorError."""
        raise NotImplementedError

    def keep(self, keep_ns: int | None, bronze_ns: int | None) -> None:
        """How old tables, and bronze, may become while it runs; None for any age."""

    def described(self) -> RunDescription:
        """What the run says of itself."""
        return self.input.run()

    def work(self) -> TableSource:
        """Make the tables."""
        raise NotImplementedError


class PlainUpdater(Updater):
    """Everything anew, in memory."""

    def __init__(
        self, place: Path | PipelineInput, tables_dir: Path, bucket_ns: int, note: str
    ) -> None:
        super().__init__(place, tables_dir, bucket_ns)
        self._note = note
        self._names: dict[str, str] = {}
        self._told_count = 0

    def follow(self, period_s: float, say: Callable[[str], None]) -> None:
        while True:
            begun_s = time.monotonic()
            about = self.update()
            count = about.source.event_count + about.source.trace_count
            new_count, self._told_count = count - self._told_count, count
            if new_count:
                recent = recent_blame(self.tables_dir, about)
                say(line_of(recent, about, new_count, time.monotonic() - begun_s))
            time.sleep(max(0.0, period_s - (time.monotonic() - begun_s)))

    def described(self) -> RunDescription:
        """With the names of clients, for which there is no table."""
        run = self.input.run()
        return replace(run, names={**self._names, **run.names})

    def work(self) -> TableSource:
        events = self.input.events()
        ups = (one for one in events.events if one.kind == "actor_up")
        self._names = client_names((one.actor, one.reason) for one in ups)
        traces = self.input.traces()
        tables = in_memory.analyse(events, traces, self.bucket_ns, self.origin_ns)
        write_csv(self.tables_dir / "gold", tables)
        return TableSource(
            PLAIN,
            self._note,
            len(events.events),
            events.missing_count,
            events.unreadable_count + traces.unreadable_count,
            len(traces.lines),
        )


@contextmanager
def open_updater(
    place: Path | PipelineInput, tables_dir: Path, engine: Engine, bucket_ns: int
) -> Iterator[Updater]:
    """An updater with its Spark session, if it has one. place: a directory of event files, or
    another input. Raises: OperatorError."""
    if engine.java is None:
        yield PlainUpdater(place, tables_dir, bucket_ns, engine.note)
        return
    # Spark is an optional, heavy dependency: a run without it must not import it.
    from penstock.spark.job.job import SparkJob
    from penstock.spark.session.session import open_session

    class SparkUpdater(Updater):
        """Only what is new."""

        def work(self) -> TableSource:
            job.update()
            return TableSource(SPARK, note, *job.counts())

        def follow(self, period_s: float, say: Callable[[str], None]) -> None:
            ended_s = time.monotonic()

            def told(count: int) -> None:
                nonlocal ended_s
                about = self.described_by(TableSource(SPARK, note, *job.counts()))
                began_s, ended_s = ended_s, time.monotonic()
                recent = recent_blame(self.tables_dir, about)
                say(line_of(recent, about, count, ended_s - began_s))

            job.follow(period_s, told)

        def keep(self, keep_ns: int | None, bronze_ns: int | None) -> None:
            job.upkeep.keep_ns, job.upkeep.bronze_ns = keep_ns, bronze_ns

    updater = SparkUpdater(place, tables_dir, bucket_ns)
    with open_session(engine.java, engine.master) as spark:
        job = SparkJob(spark, updater.input, tables_dir, bucket_ns, updater.origin_ns)
        note = f"pyspark {spark.version} · {engine.note} · {spark.sparkContext.master}"
        yield updater


def follow(updater: Updater, period_s: float, say: Callable[[str], None]) -> None:
    """Go on with what comes until a KeyboardInterrupt, which is passed on; `say` is told a line of
    each batch. A broker that is away is waited for, once it has been there. Raises: OperatorError.
    """
    has_been_there = is_away = False

    def told(line: str) -> None:
        nonlocal has_been_there, is_away
        has_been_there, is_away = True, False
        say(line)

    while True:
        try:
            updater.follow(period_s, told)
        except InputAway as fault:
            if not has_been_there:
                raise
            if not is_away:
                say(f"{fault}; it is tried again every {period_s:g} s")
            is_away = True
        time.sleep(period_s)


def recent_blame(tables_dir: Path, about: About) -> list[BlameRow]:
    """The root causes of the last BUCKETS_SHOWN buckets in which anything happened."""
    if about.source.engine == PLAIN:
        tables = stored_tables(tables_dir, about)
        newest_ns = max((row.bucket_ns for row in tables.event_kinds), default=0)
        since_ns = newest_ns - (BUCKETS_SHOWN - 1) * about.bucket_ns
        return [row for row in tables.root_cause if row.bucket_ns >= since_ns]
    # Optional: an installation with plain tables alone does not need it.
    from penstock.spark.tables.loading import load_blame, newest
    from penstock.spark.tables.store import existing_store

    store = existing_store(tables_dir)
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
