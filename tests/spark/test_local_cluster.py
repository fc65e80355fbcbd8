"""`local-cluster` starts a Java for each of its executors, and Python below them: all of it ends
with the session, also when the driver is killed, and Spark's own directory is not written to.

A process is known by a variable in its environment, which every child of the job inherits.
"""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from penstock.spark.java import JavaHome
from penstock.spark.session.session import FIRST_LEVEL
from tests.patience import until
from tests.spark.cluster import pyspark_home

pytestmark = [pytest.mark.spark, pytest.mark.slow]
MARK = "PENSTOCK_TEST_MARK"
EXECUTORS = 2
START_S_MAX = 600
JOB = """
import sys
from penstock.spark.java import find_java
from penstock.spark.session.session import open_session

with open_session(find_java(), "local-cluster[2,1,1024]", has_python_tasks=True) as spark:
    rows = spark.range(100, numPartitions=4).mapInArrow(lambda batches: batches, "id BIGINT")
    print("COUNTED", rows.count(), flush=True)
    sys.stdin.readline()
    if sys.argv[1] == "fail":
        raise RuntimeError("as a job may")
"""


@contextmanager
def running(
    java: JavaHome, how: str, scratch: Path
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The job when its executors have counted, and its mark. Whatever it has left is killed."""
    mark = uuid.uuid4().hex
    job = subprocess.Popen(
        [sys.executable, "-c", JOB, how],
        env={**os.environ, MARK: mark, "JAVA_HOME": java.home, "TMPDIR": str(scratch)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        with job:
            assert job.stdout is not None, "it has a pipe"
            assert job.stdout.readline() == "COUNTED 100\n"
            yield job, mark
            job.kill()
    finally:
        for one in marked(mark):
            one.kill()


def marked(mark: str) -> list[psutil.Process]:
    """Processes with that mark that are there, as far as they may be looked at."""
    found: list[psutil.Process] = []
    for one in psutil.process_iter():
        try:
            if one.environ().get(MARK) == mark and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
        except (psutil.Error, OSError):
            continue
    return found


def of_executors(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that are executors' Java."""
    name = "CoarseGrainedExecutorBackend"
    return [one for one in processes if any(name in it for it in one.cmdline())]


@pytest.mark.parametrize("how", ["fail", "kill"])
def test_nothing_of_it_stays(java: JavaHome, tmp_path: Path, how: str) -> None:
    """That one which ends well leaves nothing is in test_cluster.py."""
    work = Path(pyspark_home()) / "work"
    before = set(work.glob("*"))
    with running(java, how, tmp_path) as (job, mark):
        there = marked(mark)
        assert len(of_executors(there)) == EXECUTORS
        assert all(FIRST_LEVEL in one.cmdline() for one in of_executors(there))
        # Driver, its Java, and Python below the executors.
        assert len(there) >= 2 + EXECUTORS + 1
        assert list(tmp_path.rglob("stderr")), "executors have files where they belong"
        if how == "kill":
            os.kill(job.pid, signal.SIGKILL)
        else:
            assert job.stdin is not None, "it has a pipe"
            job.stdin.write("\n")
            job.stdin.flush()
            assert job.wait(START_S_MAX) == 1
        until(lambda: not marked(mark), "driver, Java and executors are gone")
    assert set(work.glob("*")) == before, "executors have put files into the environment"
    # Who is killed removes nothing.
    assert how == "kill" or not list(tmp_path.glob("penstock-spark-*")), "they stay in TMPDIR"
