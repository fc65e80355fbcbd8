"""What a session of ours does that Spark's own would not."""

from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.marks import IN_SPARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = IN_SPARK


def test_files_are_written_without_checksums_beside_them(
    spark: "SparkSession", tmp_path: Path
) -> None:
    spark.range(3).write.parquet(str(tmp_path / "table"))
    names = [one.name for one in (tmp_path / "table").iterdir()]
    assert any(name.endswith(".parquet") for name in names)
    assert not any(name.endswith(".crc") for name in names)
    assert spark.read.parquet(str(tmp_path / "table")).count() == 3
