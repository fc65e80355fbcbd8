"""What a session of ours does that Spark's own would not."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


def test_python_workers_import_pyspark_from_files(spark: "SparkSession") -> None:
    """Spark would give them an archive, in which Python can keep nothing that it has compiled."""

    def places(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        import pyspark

        for _ in batches:
            yield pyarrow.record_batch({"file": [pyspark.__file__]})

    (row,) = spark.range(1, numPartitions=1).mapInArrow(places, "file STRING").collect()
    assert Path(row.file).is_file()
    assert not (Path(row.file).parents[4] / "work").exists()
