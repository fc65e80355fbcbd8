"""Exactly once from a queue with a real Spark, over kills of the driver and the broker."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.spark.lease_job import start
from tests.spark.marks import IN_SPARK
from tests.spark.mortal import MortalBroker

pytestmark = IN_SPARK

KILLS = int(os.environ.get("PENSTOCK_SPARK_KILLS", "1"))


def test_driver_and_broker_are_killed_and_every_row_is_there_once(
    spark: Any, tmp_path: Path
) -> None:
    from penstock.spark import register

    register(spark)
    sent = 0
    with MortalBroker(tmp_path / "broker") as broker:
        for _ in range(KILLS):
            broker.publish(sent, 400)
            sent += 400
            with (tmp_path / "driver.txt").open("ab") as errors:
                driver = subprocess.Popen(
                    [sys.executable, "-m", "tests.spark.lease_job", broker.url, str(tmp_path)],
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                )
            try:
                assert driver.stdout is not None
                # Two batches are through, and a third is on its way.
                assert driver.stdout.readline() + driver.stdout.readline() == b"batch\nbatch\n"
                broker.again()
            finally:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.communicate()
        query = start(spark, broker.url, str(tmp_path), True)
        query.awaitTermination()
        rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert len(rows) == sent
    assert sorted(int(row.body) for row in rows) == list(range(sent))
    assert sorted(row.offset for row in rows) == list(range(sent))
