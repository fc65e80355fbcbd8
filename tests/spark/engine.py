"""A micro-batch engine that calls a reader as Spark 4.3 does, and may die after any step.

    latest   latestOffset(start, limit), reportLatestOffset
    wal      the batch's range is in the write-ahead log
    commit   commit(end of the batch before)
    plan     partitions(start, end)
    read     read, of pickled copies of reader and partitions
    sink     the sink has the rows under the batch's number (a second time changes nothing)
    done     the batch is in the commit log

What is on the disk afterwards is all that a restarted query knows. As a program it runs until it is
killed: `python -m tests.spark.engine DIRECTORY OPTIONS`, with the options as JSON.
"""

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from penstock.client.url import parse_url
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.spark.connector.source import AmqpDataSource
from tests.patience import PATIENCE_S

STEPS = ("latest", "wal", "commit", "plan", "read", "sink", "done")
IDLE_S = 0.01
LOOK_S = 0.04
STILL_S = 0.2
"""A look that takes longer was disturbed."""
# Spark parses the source's own schema and hands it back; parsing needs a JVM.
SCHEMA = (
    StructType()
    .add("body", BinaryType())
    .add("queue", StringType())
    .add("offset", LongType())
    .add("timestamp", TimestampType())
    .add("exchange", StringType())
    .add("routing_key", StringType())
    .add("redelivered", BooleanType())
)


def wait_for_life(address: tuple[str, int]) -> None:
    """Return when whoever listens at `address` has answered something, or nobody does."""
    try:
        with socket.create_connection(address, PATIENCE_S) as probe:
            probe.sendall(PROTOCOL_HEADER)
            probe.recv(1)
    except OSError:
        # Tests take brokers away.
        return


class Died(Exception):
    """The engine was told to die here."""


class Engine:
    """One run of a query, from its start to its stop or death."""

    def __init__(self, directory: Path, options: dict[str, str]) -> None:
        source = AmqpDataSource(options)
        where = parse_url(options["url"])
        self._address = (where.host, where.port)
        self.reader: Any = source.streamReader(SCHEMA)
        self._directory = directory
        self.dies_after = ""
        for name in ("offsets", "commits", "sink"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        numbers = [int(path.name) for path in (directory / "offsets").iterdir()]
        self.batch = max(numbers, default=-1)
        self._is_unfinished = self.batch >= 0 and not self._path("commits", self.batch).exists()
        if self.batch >= 0:
            self.end = self._read("offsets", self.batch)["end"]
        else:
            # Spark asks twice.
            self.end = self.reader.initialOffset()
            assert self.reader.initialOffset() == self.end

    def step(self) -> bool:
        """One trigger: False when there was nothing to do. Raises: Died."""
        if self._is_unfinished:
            self._is_unfinished = False
            span = self._read("offsets", self.batch)
            # Spark writes ends only, so of the first batch it asks for the start again.
            start = span["start"] if self.batch > 0 else self.reader.initialOffset()
            self._run(start, span["end"])
            return True
        start = self.end
        end = json.loads(
            json.dumps(self.reader.latestOffset(start, self.reader.getDefaultReadLimit()))
        )
        self.reader.reportLatestOffset()
        self._maybe_die("latest")
        if end == start:
            return False
        self.batch += 1
        self._write("offsets", self.batch, {"start": start, "end": end})
        self._maybe_die("wal")
        if self.batch > 0:
            self.reader.commit(start)
        self._maybe_die("commit")
        self._run(start, end)
        return True

    def drain(self, idle_s: float = 0.4, rows: int = 0) -> int:
        """Trigger until nothing has come for `idle_s`; how many batches that were.

        rows: so many different ones must be in the sink before silence is an end. A while in which
        this process or the broker stood still does not count as silence in any case."""
        batches = 0
        quiet_s = 0.0
        end_s = time.monotonic() + PATIENCE_S
        while (quiet_s < idle_s or self._is_short_of(rows)) and time.monotonic() < end_s:
            began_s = time.monotonic()
            if self.step():
                batches += 1
                quiet_s = 0.0
                end_s = time.monotonic() + PATIENCE_S
                continue
            time.sleep(LOOK_S)
            wait_for_life(self._address)
            passed_s = time.monotonic() - began_s
            quiet_s = quiet_s + passed_s if passed_s < STILL_S else 0.0
        return batches

    def _is_short_of(self, rows: int) -> bool:
        return rows > 0 and len(set(sunk(self._directory))) < rows

    def stop(self) -> None:
        """The query ends; what it has written stays."""
        self.reader.stop()

    def _run(self, start: dict[str, Any], end: dict[str, Any]) -> None:
        partitions = self.reader.partitions(start, end)
        self._maybe_die("plan")
        rows: list[str] = []
        for partition in partitions:
            copy, part = pickle.loads(pickle.dumps((self.reader, partition)))
            for batch in copy.read(part):
                rows += [body.decode() for body in batch.column(0).to_pylist()]
        self._maybe_die("read")
        if not self._path("sink", self.batch).exists():
            self._write("sink", self.batch, rows)
        self._maybe_die("sink")
        self._write("commits", self.batch, {})
        self.end = end
        self._maybe_die("done")

    def _maybe_die(self, step: str) -> None:
        if step == self.dies_after:
            raise Died

    def _path(self, kind: str, batch: int) -> Path:
        return self._directory / kind / str(batch)

    def _read(self, kind: str, batch: int) -> Any:
        return json.loads(self._path(kind, batch).read_text(encoding="utf-8"))

    def _write(self, kind: str, batch: int, value: object) -> None:
        unfinished = self._directory / f"unfinished-{os.getpid()}"
        unfinished.write_text(json.dumps(value), encoding="utf-8")
        unfinished.rename(self._path(kind, batch))


def sunk(directory: Path) -> list[str]:
    """Every row in the sink, in the order of the batches."""
    paths = sorted((directory / "sink").iterdir(), key=lambda path: int(path.name))
    return [row for path in paths for row in json.loads(path.read_text(encoding="utf-8"))]


def earliest(url: str, stream: str, **more: str) -> dict[str, str]:
    """Options of a query that reads a stream from its beginning, unless they say otherwise."""
    given = {"url": url, "queue": stream, "mode": "stream", "startingOffsets": "earliest"}
    return {**given, **more}


def numbers(stop: int, first: int = 0) -> list[str]:
    """Rows first..stop-1 as `publish` makes them."""
    return [str(number) for number in range(first, stop)]


def live(directory: Path, options: dict[str, str], rows: int = 0, idle_s: float = 0.4) -> Engine:
    """One run of a query until silence, as `Engine.drain`, that ends in order."""
    engine = Engine(directory, options)
    engine.drain(idle_s, rows)
    engine.stop()
    return engine


def die(
    directory: Path, options: dict[str, str], step: str, rows: int = 0, triggers: int = 0
) -> None:
    """One run of a query that dies after `step`, `triggers` triggers later than at first."""
    engine = Engine(directory, options)
    for _ in range(triggers):
        engine.step()
    engine.dies_after = step
    try:
        engine.drain(rows=rows)
    except Died:
        engine.stop()
        return
    raise AssertionError(f"there was nothing to do, and so no step {step}")


@contextmanager
def reading(directory: Path, options: dict[str, str]) -> Iterator[None]:
    """The engine as a process of its own, which is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.engine", str(directory), json.dumps(options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"running\n"
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def main() -> None:
    """Run until killed."""
    engine = Engine(Path(sys.argv[1]), json.loads(sys.argv[2]))
    print("running", flush=True)
    while True:
        if not engine.step():
            time.sleep(IDLE_S)


if __name__ == "__main__":
    main()
