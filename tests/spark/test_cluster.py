"""On Spark's own cluster: driver and executors are processes that share nothing but the disk.

Each test starts several Java machines, which takes a minute, so it is the long run's.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.spark.java import JavaHome
from penstock.spark.tables.loading import load_tables
from penstock.spark.tables.store import existing_store
from tests.spark import oracle
from tests.spark.cluster import pyspark_home, standalone
from tests.spark.synthetic import World, write_world
from tests.spark.through_amqp import publish, queue_at, read_stream

pytestmark = [pytest.mark.spark, pytest.mark.slow]
STREAM = {"x-queue-type": "stream"}
ROWS = 500
JOB_S_MAX = 600


def run(*arguments: str) -> str:
    """A program of this Python to its end; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=JOB_S_MAX
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_job(master: str, url: str, folder: Path) -> None:
    """The job of cluster_job.py, and whether its target has every row of stream and queue once."""
    with (
        queue_at(url, STREAM) as (channel, source),
        queue_at(url) as (_, queue),
        queue_at(url, STREAM) as (_, target),
    ):
        publish(channel, source, 0, ROWS)
        publish(channel, queue, ROWS, ROWS)
        said = run("tests.spark.cluster_job", master, url, source, queue, target, str(folder))
        assert json.loads(said.splitlines()[-1]) == {
            "count": ROWS,
            "points": ["", ""],
            "executors": 2,
        }
        found = [int(body) for body in read_stream(url, target)]
        assert sorted(found) == list(range(2 * ROWS))
        assert channel.declare_queue(queue, passive=True).message_count == 0


@pytest.mark.usefixtures("java")
def test_connector_and_sweep_on_processes_of_this_machine(
    penstock_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Path(pyspark_home()) / "work"
    before = set(work.glob("*"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    run_job("local-cluster[2,1,1024]", penstock_url, tmp_path / "state")
    assert set(work.glob("*")) == before, "executors have put files into the environment"
    assert not list(scratch.glob("penstock-spark-*")), "they stay in TMPDIR"


@pytest.fixture(scope="module")
def master(java: JavaHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a standalone cluster for the tests of this file."""
    with standalone(java.home, tmp_path_factory.mktemp("cluster")) as url:
        yield url


def test_connector_and_sweep_on_a_standalone_cluster(
    master: str, penstock_url: str, tmp_path: Path
) -> None:
    run_job(master, penstock_url, tmp_path / "state")


def test_the_pipeline_makes_the_same_tables_on_a_cluster(master: str, tmp_path: Path) -> None:
    write_world(tmp_path / "in", World(seed=21))
    command = ("penstock.cli.main", "pipeline", "run", "--input", str(tmp_path / "in"))
    assert master in run(*command, "--tables", str(tmp_path / "tables"), "--master", master)
    expected = oracle.of_directory(tmp_path / "in", 10**9)
    for name, found, twin in zip(
        expected._fields, load_tables(existing_store(tmp_path / "tables")), expected, strict=True
    ):
        assert sorted(found) == sorted(twin), name
