"""Exactly once through a real Spark: driver, workers and broker are killed, the oracle counts."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.client.io_blocking import connect
from tests.spark.mortal import MortalBroker

pytestmark = [pytest.mark.spark, pytest.mark.slow]
KILLS = int(os.environ.get("PENSTOCK_SPARK_KILLS", "0"))
"""Of driver, workers and broker together; 50 took six minutes, longer than
pytest's own bound (-o faulthandler_timeout=0)."""
SEED = int(os.environ.get("PENSTOCK_SPARK_SEED", "3"))
ROWS_AT_ONCE = 600
LIFE_S_MAX = 900


class Job:
    """The job of killed_job.py as processes of a group of their own."""

    def __init__(self, url: str, folder: Path, source: str) -> None:
        self.output = folder / "job.txt"
        command = [sys.executable, "-m", "tests.spark.killed_job", url, str(folder), source]
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

    def has_said(self, word: str) -> bool:
        return word in self.output.read_text(errors="replace").splitlines()

    def wait_for(self, word: str, seconds: float = LIFE_S_MAX) -> None:
        """Until the job has said `word`. Raises: AssertionError."""
        end = time.monotonic() + seconds
        while not self.has_said(word):
            text = self.output.read_text(errors="replace")[-3000:]
            assert self.process.poll() is None, f"the job has ended: {text}"
            assert time.monotonic() < end, f"no {word}: {text}"
            time.sleep(0.05)

    def kill(self) -> None:
        """Driver, JVM and workers at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_worker(self, dice: Random) -> bool:
        """One Python worker of Spark, if there is one."""
        found = workers_of(self.process.pid)
        if not found:
            return False
        os.kill(dice.choice(found), signal.SIGKILL)
        return True


def parents() -> dict[int, int]:
    """The parent of every process."""
    found: dict[int, int] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                stat = (place / "stat").read_text()
            except OSError:
                continue
            found[int(place.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def workers_of(driver: int) -> list[int]:
    """Forks of the pyspark daemons below a driver, which have process groups of their own."""
    above = parents()
    found: list[int] = []
    for pid, parent in above.items():
        if is_daemon(pid) and is_daemon(parent):
            while parent > 1 and parent != driver:
                parent = above.get(parent, 0)
            if parent == driver:
                found.append(pid)
    return found


def is_daemon(pid: int) -> bool:
    try:
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


STREAM = {"x-queue-type": "stream"}


def declare(url: str, source: str) -> None:
    """The queue that is the sink, and the stream `numbers`, or a super stream of three."""
    with connect(url) as connection:
        channel = connection.channel()
        channel.declare_queue("out", durable=True)
        if source == "queue":
            channel.declare_queue("numbers", durable=True, arguments=dict(STREAM))
            return
        channel.declare_exchange("numbers", "x-super-stream", durable=True)
    for number in range(3):
        add_partition(url, number)


def add_partition(url: str, number: int) -> None:
    with connect(url) as connection:
        channel = connection.channel()
        channel.declare_queue(f"numbers-{number}", durable=True, arguments=dict(STREAM))
        order = {"x-stream-partition-order": number}
        channel.bind_queue(f"numbers-{number}", "numbers", str(number), arguments=dict(order))


def publish(url: str, source: str, first: int) -> int:
    """More rows for the stream; the number behind the last."""
    exchange, key = ("", "numbers") if source == "queue" else ("numbers", "")
    with connect(url) as connection:
        channel = connection.channel()
        channel.confirm_select()
        for number in range(first, first + ROWS_AT_ONCE):
            channel.publish(exchange, key or str(number), b"%d" % number)
        channel.wait_for_confirms(30_000)
    return first + ROWS_AT_ONCE


def found_in(url: str, folder: Path) -> dict[str, Counter[int]]:
    """Every row of the three sinks, as often as it is there."""
    import deltalake
    import pyarrow as pa
    import pyarrow.parquet as pq

    queue: Counter[int] = Counter()
    with connect(url) as connection:
        channel = connection.channel()
        while (one := channel.get("out", no_ack=True)) is not None:
            queue[int(one.body)] += 1
    delta = pa.table(deltalake.DeltaTable(str(folder / "delta")).to_pyarrow_table())["body"]
    files = Counter[int]()
    for name in parquet_files(folder / "parquet"):
        files.update(int(body) for body in pq.read_table(name)["body"].to_pylist())
    return {
        "queue": queue,
        "delta": Counter(int(body) for body in delta.to_pylist()),
        "parquet": files,
    }


def parquet_files(folder: Path) -> list[Path]:
    """What Spark's file sink says is in its table: readers have to go by its log."""
    names: set[str] = set()
    for log in (folder / "_spark_metadata").iterdir():
        if log.name.startswith("."):
            continue
        for line in log.read_text().splitlines()[1:]:
            names.add(json.loads(line)["path"])
    return [Path(name.removeprefix("file://")) for name in sorted(names)]


@pytest.mark.skipif(not KILLS, reason="takes minutes: PENSTOCK_SPARK_KILLS=60")
@pytest.mark.parametrize("source", ["queue", "superStream"])
def test_no_row_is_lost_or_doubled_in_any_sink(
    java: Any, tmp_path: Path, request: pytest.FixtureRequest, source: str
) -> None:
    """A super stream gets a partition more with each fifth kill."""
    pytest.importorskip("deltalake")
    dice = Random(SEED)
    kills = Counter[str]()
    lives = 1
    with MortalBroker(tmp_path) as broker:
        declare(broker.url, source)
        end = publish(broker.url, source, 0)
        job = Job(broker.url, tmp_path, source)
        request.addfinalizer(lambda: job.kill() if job.process.poll() is None else None)
        job.wait_for("RUNNING")
        while sum(kills.values()) < KILLS:
            time.sleep(dice.random() * 3)
            if job.has_said("DONE"):
                job.process.wait()
                end = publish(broker.url, source, end)
                job = Job(broker.url, tmp_path, source)
                lives += 1
                job.wait_for("RUNNING")
                continue
            # A driver takes longest to come back.
            victim = dice.choice(["worker", "worker", "broker", "broker", "driver"])
            if victim == "driver":
                job.kill()
                end = publish(broker.url, source, end)
                job = Job(broker.url, tmp_path, source)
                lives += 1
                job.wait_for("RUNNING")
            elif victim == "broker":
                broker.kill()
                broker.start()
            elif not job.kill_worker(dice):
                continue
            kills[victim] += 1
            print(dict(kills), flush=True)
            if source == "superStream" and sum(kills.values()) % 5 == 0:
                add_partition(broker.url, 2 + sum(kills.values()) // 5)
        job.wait_for("DONE")
        job.process.wait()
        found = found_in(broker.url, tmp_path)
    print(f"{end} rows, {lives} lives of the job, {broker.lives} of the broker, {dict(kills)}")
    for name, rows in found.items():
        doubled = sum(count - 1 for count in rows.values())
        assert (len(set(range(end)) - set(rows)), doubled) == (0, 0), name
        assert len(rows) == end, name
