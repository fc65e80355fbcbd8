"""What a directory of tables says about itself: by what it was made, of how much, of which run.

    about.json   beside the tables; the report and the next update read it

The width of buckets and the origin of throughput belong to the tables: going on with others would
mix buckets, so another width is refused.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.spark.report.summary import TableSource
from penstock.spark.schema.formats import RunDescription, read_run, write_run, write_whole

FILE: Final = "about.json"
VERSION: Final = 5
"""Of the columns of the tables; those of another one are not gone on with."""


@dataclass(frozen=True, slots=True)
class About:
    """bucket_ns: width of the buckets; origin_ns: where those of throughput begin; run: as its
    input described it."""

    source: TableSource
    bucket_ns: int
    origin_ns: int
    run: RunDescription


def write_about(directory: Path, about: About) -> None:
    """Write it, unless it says the same already. Raises: OSError."""
    fields = {
        "format": "penstock-tables",
        "version": VERSION,
        "bucket_ns": about.bucket_ns,
        "origin_ns": about.origin_ns,
        **asdict(about.source),
    }
    text = json.dumps(fields, indent=1) + "\n"
    path = directory / FILE
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_whole(path, text)
    if read_run(directory) != about.run:
        write_run(directory, about.run)


def read_about(directory: Path) -> About | None:
    """None when there are no tables yet. Raises: OperatorError when the file cannot be read."""
    path = directory / FILE
    if not path.is_file():
        return None
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        if fields["version"] != VERSION:
            raise ValueError(f"of version {fields['version']}, where this one reads {VERSION}")
        return About(
            msgspec.convert(fields, TableSource),
            int(fields["bucket_ns"]),
            int(fields["origin_ns"]),
            read_run(directory),
        )
    except (OSError, ValueError, KeyError, TypeError, msgspec.ValidationError) as fault:
        raise OperatorError(
            f"{path} does not describe tables that can be read here ({fault}); make them anew in "
            "another directory"
        ) from fault
