"""What a session of ours does that Spark's own would not."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    # PySpark 4.3 leaves its own sockets and deprecated calls behind.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning",
        "ignore::DeprecationWarning",
        "ignore::FutureWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),
]


def test_files_are_written_without_checksums_beside_them(
    spark: "SparkSession", tmp_path: Path
) -> None:
    spark.range(3).write.parquet(str(tmp_path / "table"))
    names = [one.name for one in (tmp_path / "table").iterdir()]
    assert any(name.endswith(".parquet") for name in names)
    assert not any(name.endswith(".crc") for name in names)
    assert spark.read.parquet(str(tmp_path / "table")).count() == 3
