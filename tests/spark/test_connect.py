"""The connector through Spark Connect: a client without Java, and a server that works."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.java import JavaHome
from tests.conformance.live import free_port
from tests.spark.cluster import running, said, spark_environment
from tests.spark.marks import IN_SPARK
from tests.spark.through_amqp import publish, queue_at, read_stream

NEEDED = ("pyspark", "grpc", "grpc_status", "zstandard")
pytestmark = [
    *IN_SPARK,
    pytest.mark.skipif(
        any(
            importlib.util.find_spec(name) is None for name in ("grpc", "grpc_status", "zstandard")
        ),
        reason="penstock-mq[connect] is not installed",
    ),
]
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
ROWS = 500
JOB_S_MAX = 300


def test_from_stream_and_queue_into_a_stream(
    java: JavaHome, penstock_url: str, tmp_path: Path
) -> None:
    port = free_port()
    environment = spark_environment(java.home) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    program = str(Path(environment["SPARK_HOME"]) / "bin" / "spark-submit")
    command = [program, "--master", "local[2]", "--class", SERVER]
    for setting in (
        f"spark.connect.grpc.binding.port={port}",
        "spark.connect.grpc.binding.address=127.0.0.1",
        "spark.driver.host=127.0.0.1",
        "spark.ui.enabled=false",
        f"spark.local.dir={tmp_path}",
        f"spark.sql.warehouse.dir={tmp_path}",
    ):
        command += ["--conf", setting]
    command += ["spark-internal"]
    with (
        running(command, environment, tmp_path / "server.txt") as server,
        queue_at(penstock_url, {"x-queue-type": "stream"}) as (channel, source),
        queue_at(penstock_url) as (_, queue),
        queue_at(penstock_url, {"x-queue-type": "stream"}) as (_, target),
    ):
        publish(channel, source, 0, ROWS)
        publish(channel, queue, ROWS, ROWS)
        said(server, tmp_path / "server.txt", r"(Spark Connect server started at)")
        where = f"sc://127.0.0.1:{port}"
        job = ["tests.spark.connect_job", where, penstock_url, source, queue, target, str(tmp_path)]
        done = subprocess.run(
            [sys.executable, "-m", *job], capture_output=True, text=True, timeout=JOB_S_MAX
        )
        log = (tmp_path / "server.txt").read_text(errors="replace")
        assert done.returncode == 0, done.stdout + done.stderr + log[-3000:]
        assert json.loads(done.stdout.splitlines()[-1]) == {"count": ROWS}
        found = [int(body) for body in read_stream(penstock_url, target)]
        assert sorted(found) == list(range(2 * ROWS))
        assert channel.declare_queue(queue, passive=True).message_count == 0
