"""A kill of the flow pipeline; many are for `python -m tests.spark.killed_pipeline`."""

from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("deltalake", reason="deltalake is not installed")

from penstock.spark.java import JavaHome
from tests.spark.killed_pipeline import DRIVER, JVM, killed

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_tables_are_those_of_the_oracle_whatever_was_killed(java: JavaHome, tmp_path: Path) -> None:
    done = killed(tmp_path, 1, Random(5), print, (DRIVER, JVM))
    assert sum(done.values()) == 1
