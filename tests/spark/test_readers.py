"""Other programs read the tables: the queries of docs/pipeline.md, as they stand there."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.spark.input.pipeline_input import FileInput
from penstock.spark.job.pipeline import BUCKET_NS
from penstock.spark.schema.formats import read_run
from tests.spark.marks import IN_SPARK
from tests.spark.synthetic import World, write_world

pytestmark = IN_SPARK

PAGE = Path(__file__).parents[2] / "docs/pipeline.md"
LIBRARIES = ("duckdb", "polars", "pandas", "spark")


def blocks(language: str) -> list[str]:
    """The blocks of one language in the section about readers."""
    section = PAGE.read_text(encoding="utf-8").partition("## Reading the tables\n")[2]
    section = section.partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def test_every_reader_has_the_answer_that_the_page_shows(spark: Any, tmp_path: Path) -> None:
    from penstock.spark.job.job import SparkJob

    for name in LIBRARIES[:3]:
        pytest.importorskip(name, reason=f"{name} is not installed")
    write_world(tmp_path / "in", World(seed=12))
    tables = tmp_path / "tables"
    origin_ns = read_run(tmp_path / "in").origin_ns
    SparkJob(spark, FileInput(tmp_path / "in"), tables, BUCKET_NS, origin_ns).update()
    (shown,) = blocks("text")
    queries = blocks("python")
    assert len(queries) == len(LIBRARIES)
    # Polars finds no table below a directory with a space in its name; Spark's query does.
    spaced = tmp_path / "the tables"
    shutil.copytree(tables, spaced)
    for library, query in zip(LIBRARIES, queries, strict=True):
        names: dict[str, Any] = {"spark": spark}
        place = spaced if library == "spark" else tables
        exec(query.replace("TABLES_DIR", str(place)), names)
        lines = [f"{day}  {cause:20} {seconds:6.2f}" for day, cause, seconds in names["found"]]
        assert "\n".join(lines) + "\n" == shown, library
