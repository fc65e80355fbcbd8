"""Spark's own standalone cluster on loopback: a master and two workers as processes."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

START_S_MAX = 120.0
STOP_S_MAX = 60.0
LOOK_S = 0.05
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
SHORT_LIFE: Final = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""What open_session gives its Java: one of a minute never earns back better code."""


def pyspark_home() -> str:
    """Spark's own directory, in the environment."""
    import pyspark

    return str(Path(pyspark.__file__).parent)


def spark_environment(java_home: str) -> dict[str, str]:
    """For processes of Spark's that know nothing of this package: a session has to bring it."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    return (
        environment
        | SHORT_LIFE
        | {
            "JAVA_HOME": java_home,
            "SPARK_HOME": pyspark_home(),
            "PYSPARK_PYTHON": sys.executable,
        }
    )


@contextmanager
def standalone(java_home: str, folder: Path, workers: int = 2) -> Iterator[str]:
    """The URL of a cluster of `workers` with a core each; skips the test if it does not come up."""
    environment = spark_environment(java_home) | {
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "SPARK_WORKER_DIR": str(folder / "work"),
    }
    program = str(Path(environment["SPARK_HOME"]) / "bin" / "spark-class")
    common = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with (
        running([program, MASTER, *common], environment, folder / "master.txt") as master,
        ExitStack() as stack,
    ):
        url = said(master, folder / "master.txt", r"Starting Spark master at (spark://\S+)")
        worker = [program, WORKER, *common, "--cores", "1", "--memory", "1g", url]
        outputs = [folder / f"worker-{number}.txt" for number in range(workers)]
        started = [stack.enter_context(running(worker, environment, one)) for one in outputs]
        for process, output in zip(started, outputs, strict=True):
            said(process, output, r"(Successfully registered with master)")
        yield url


@contextmanager
def running(
    command: list[str], environment: dict[str, str], output: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own group, its words in `output`, ended with the block."""
    with output.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def said(process: subprocess.Popen[bytes], output: Path, pattern: str) -> str:
    """What `pattern` finds in the output. Skips the test when it does not come."""
    end_s = time.monotonic() + START_S_MAX
    while time.monotonic() < end_s and process.poll() is None:
        found = re.search(pattern, output.read_text(errors="replace"))
        if found is not None:
            return found[1]
        time.sleep(LOOK_S)
    tail = output.read_text(errors="replace")[-600:]
    pytest.skip(f"Spark's own cluster does not start here: {tail}")
