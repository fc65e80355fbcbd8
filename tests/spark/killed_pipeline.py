"""The flow pipeline under kill -9: of its driver, its JVM, its Python workers, and the broker.

    python -m tests.spark.killed_pipeline --kills 30 --seed 1

A broker puts its events into its stream while publishers are held and freed; `penstock pipeline run
--follow` makes tables of them; one of the four is killed at a random moment, again and again, and
what has ended is started again. Afterwards the stream is read by a plain client, and what the
oracle makes of its events must be what is in the tables, row by row.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from penstock.client.errors import ClientError
from penstock.client.io_blocking import connect
from penstock.protocol.values import Table
from penstock.spark.job.pipeline import BUCKET_NS
from penstock.spark.schema.formats import EVENT_STREAM, Header
from penstock.spark.schema.rows import Tables
from penstock.spark.tables.loading import load_tables
from penstock.spark.tables.store import open_store
from penstock.telemetry.event_batch import decode_batch
from tests.spark import oracle
from tests.spark.flow_events import FlowEvent, event_from_fields
from tests.spark.mortal import MortalBroker
from tests.spark.oracle_input import EventLog, TraceLog
from tests.spark.test_killed_job import parents, workers_of
from tests.spark.through_amqp import read_stream

DRIVER, JVM, WORKER, BROKER = VICTIMS = ("driver", "JVM", "worker", "broker")
FULL: Table = {"x-max-length": 5, "x-overflow": "backpressure"}
STARTS_S = 120
"""Until a pipeline has done a batch, on a machine that does much else."""


class Pipeline:
    """`penstock pipeline run --follow` as processes of a session of their own, started again when
    it has ended. lives: how often it was started; batches: lines it has told of all its lives."""

    def __init__(self, url: str, tables: Path, folder: Path) -> None:
        self._url, self._tables, self._output = url, tables, folder / "pipeline.txt"
        self._seen: set[int] = set()
        self.lives = 0
        self.batches = 0
        self._told = 0
        self._start()

    def _start(self) -> None:
        self.lives += 1
        self._told = 0
        command = [sys.executable, "-m", "penstock.cli.main", "pipeline", "run", "--follow"]
        command += ["--input", self._url, "--tables", str(self._tables), "--every", "0.5"]
        with self._output.open("wb") as out:
            self._process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

    def look(self) -> None:
        """Count its batches, and start it again if it has ended."""
        told = self._output.read_bytes().count(b" lines in ")
        self.batches += told - self._told
        self._told = told
        self._seen |= set(self._below())
        if self._process.poll() is not None:
            self.end()
            self._start()

    def wait_for_a_batch(self) -> None:
        """Until this life of it has done one, or ended, or it takes too long."""
        end_s = time.monotonic() + STARTS_S
        while self._told == 0 and time.monotonic() < end_s:
            self.look()
            time.sleep(0.05)

    def victims(self, kind: str) -> list[int]:
        """The processes of one kind that are there."""
        if kind == DRIVER:
            return [self._process.pid]
        if kind == WORKER:
            return workers_of(self._process.pid)
        return [pid for pid in self._below() if _command(pid).endswith("java")]

    def _below(self) -> list[int]:
        above = parents()
        found: list[int] = []
        for pid in above:
            parent = above[pid]
            while parent > 1 and parent != self._process.pid:
                parent = above.get(parent, 0)
            if parent == self._process.pid:
                found.append(pid)
        return found

    def end(self) -> None:
        """Kill what is left of it: its own session, and the workers' groups in it."""
        mine = {pid for pid in self._seen if _session(pid) == self._process.pid}
        for pid in {self._process.pid, *mine}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._seen.clear()


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0].decode()
    return ""


def _session(pid: int) -> int:
    with suppress(OSError):
        return os.getsid(pid)
    return 0


@contextmanager
def load(url: str, dice: Random) -> Iterator[None]:
    """A publisher that is held by a full queue until it is purged; the broker comes and goes."""
    over = threading.Event()

    def publish() -> None:
        while not over.is_set():
            with suppress(ClientError, OSError), connect(url) as connection:
                channel = connection.channel()
                channel.declare_queue("full", arguments=FULL)
                for _ in range(200):
                    channel.publish("", "full", b"x")
                over.wait(dice.uniform(0.1, 0.6))
            with suppress(ClientError, OSError), connect(url) as broom:
                broom.channel().purge_queue("full")
            over.wait(0.1)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def killed(
    folder: Path,
    kills: int,
    dice: Random,
    say: Callable[[str], None],
    victims: Sequence[str] = VICTIMS,
) -> Counter[str]:
    """Kill `kills` processes of some kinds; how many of each. Raises: AssertionError when a table
    is not that of the oracle."""
    tables, done = folder / "tables", Counter[str]()
    with MortalBroker(folder / "broker", "--event-stream") as broker:
        pipeline = Pipeline(broker.url, tables, folder)
        try:
            with load(broker.url, dice):
                while sum(done.values()) < kills:
                    # Most of them while it works, some while it starts.
                    if dice.random() < 0.75:
                        pipeline.wait_for_a_batch()
                    time.sleep(dice.uniform(0.0, 4.0))
                    kind = dice.choice(
                        [one for one in victims if done[one] <= kills // len(victims)]
                    )
                    if kind == BROKER:
                        broker.again()
                    else:
                        found = pipeline.victims(kind)
                        if not found:
                            continue
                        os.kill(dice.choice(found), signal.SIGKILL)
                    done[kind] += 1
                    time.sleep(0.3)
                    count, told = sum(done.values()), pipeline.batches
                    if count < kills:
                        # The next life after the last kill is the run below.
                        pipeline.look()
                    say(f"{count}: {kind}; {told} batches, {pipeline.lives} lives")
        finally:
            pipeline.end()
        # What the broker puts in once a second; then one run that ends by itself.
        time.sleep(1.5)
        command = [sys.executable, "-m", "penstock.cli.main", "pipeline", "run"]
        command += ["--input", broker.url, "--tables", str(tables)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        say(compared(tables, read_stream(broker.url, EVENT_STREAM)))
    lives = f"{broker.lives} of the broker, {pipeline.lives + 1} of the pipeline"
    say(f"lives: {lives}; batches told: {pipeline.batches}")
    return done


def compared(tables: Path, bodies: list[bytes]) -> str:
    """Every table against the oracle's, of those events of the stream that were there when it was
    read. Raises: AssertionError."""
    store = open_store(tables)
    rows = store.read("bronze/events")
    assert rows is not None
    read = list(zip(rows["boot_id"].to_pylist(), rows["seq"].to_pylist(), strict=True))
    last: dict[str, int] = {}
    for boot_id, seq in read:
        last[boot_id] = max(seq, last.get(boot_id, seq))
    events: dict[tuple[str, int], FlowEvent] = {}
    for body in bodies:
        header, batch = decode_batch(body)
        whose = Header(header.boot_id, header.node, header.wall_ns - header.mono_ns)
        for event in batch:
            one = event_from_fields(whose, dict(event.plain()))
            if one.seq <= last.get(one.boot_id, -1):
                events[one.boot_id, one.seq] = one
    assert sorted(read) == sorted(events), "every event once"
    ordered = tuple(events[key] for key in sorted(events))
    expected = oracle.analyse(EventLog(ordered, 0, 0), TraceLog((), 0), BUCKET_NS)
    found = load_tables(store)
    counts = []
    for name, mine, other in zip(Tables._fields, found, expected, strict=True):
        assert sorted(mine) == sorted(other), name
        counts.append(f"{name} {len(mine)}")
    boots = len({boot_id for boot_id, _ in read})
    return (
        f"{len(read)} events of {boots} boots, each once; equal tables, rows: {', '.join(counts)}"
    )


def main() -> None:
    """Counts to standard output."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        done = killed(
            Path(folder), options.kills, Random(options.seed), lambda line: print(line, flush=True)
        )
    print(f"{sum(done.values())} kills: {dict(done)}")


if __name__ == "__main__":
    main()
