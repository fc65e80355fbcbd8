"""The sweep in Spark: the same rows as without it, with the schema that it promises."""

from dataclasses import replace
from typing import Any

from penstock.sweep.choices import EVENTS
from penstock.sweep.grid import Grid, points_of
from penstock.sweep.point import key_of
from penstock.sweep.run import run_point
from tests.spark.marks import IN_SPARK

pytestmark = IN_SPARK


def test_spark_gives_the_rows_that_plain_python_gives(spark: Any) -> None:
    from penstock.spark.sweep import run_in_spark

    points = points_of(
        Grid(
            ("chain-consumer",), ("static-20", "none"), ("events", "fluid"), connections=(4,),
            loads=(2.0,), seconds=0.2,
        )
    )  # fmt: skip
    points.append(replace(points[0], engine=EVENTS, seed=2))
    found = [row for rows in run_in_spark(spark, points) for row in rows]
    expected = [run_point(point) for point in points]
    assert sorted(found, key=lambda row: str(key_of(row))) == sorted(
        expected, key=lambda row: str(key_of(row))
    )
