"""What a directory of tables says of itself stays whole when a run cannot write it."""

import resource
from pathlib import Path

import pytest

from penstock.spark.job.about import About, read_about, write_about
from penstock.spark.report.summary import TableSource
from penstock.spark.schema.formats import RunDescription


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    first = About(TableSource("Spark", 1, 0, 0, 0), 10**9, 7, RunDescription(messages=("one",)))
    write_about(tmp_path, first)
    more = About(TableSource("Spark", 2, 0, 0, 0), 10**9, 7, RunDescription(messages=("two",)))
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    # As many bytes may be in a file: Python hears of it as of a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, usual[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_about(tmp_path, more)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert read_about(tmp_path) == first
    write_about(tmp_path, more)
    assert read_about(tmp_path) == more
