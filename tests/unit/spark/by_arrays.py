"""Events to tables by arrays, without Spark: the works of the tasks, done one after the other."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark.input import parse
from penstock.spark.job import event_tables
from penstock.spark.job.facts import Facts
from penstock.spark.job.gold_tables import Answers
from penstock.spark.job.reach import Horizon
from penstock.spark.job.silver_tables import SHARED
from penstock.spark.schema.arrow_columns import ANSWERS, FACTS
from penstock.spark.schema.formats import FlowEvent
from penstock.spark.schema.rows import BlockInterval
from tests.spark.oracle_input import EventLog

Tables = dict[str, pa.Table]


def written(path: Path, events: Iterable[FlowEvent], batch: int = 0) -> str:
    """A file of bronze. Returns its path."""
    numbers = dict.fromkeys(parse._NUMBERS, 0)
    rows = [{**numbers, **one._asdict(), **one.numbers, "batch": batch} for one in events]
    for row in rows:
        del row["numbers"]
    pq.write_table(pa.Table.from_pylist(rows, schema=parse.EVENTS), path)
    return str(path)


def log_of(events: Iterable[FlowEvent]) -> EventLog:
    """As `formats.read_events` gives them: ordered, each once."""
    found: dict[tuple[str, int], FlowEvent] = {}
    for event in events:
        found.setdefault((event.boot_id, event.seq), event)
    return EventLog(tuple(found[key] for key in sorted(found)), 0, 0)


def facts_of(files: Sequence[str], width_ns: int, shares: int = 3) -> Tables:
    """Silver, and those of gold that are made with it."""
    spans = tuple((file, 0, 1 << 62) for file in files)
    last = Horizon(tuple(files), (), (), (), (), -1, width_ns, False)().last
    parts = [
        Facts(spans, (), (), (), (), (), last, number, shares, 0, width_ns)()
        for number in range(shares)
    ]
    found = {
        name: pa.concat_tables([one[name].cast(schema) for one in parts])
        for name, schema in FACTS.items()
    }
    return found | {name: merge(found[name]) for name, merge in SHARED.items()}


def holds_of(intervals: Sequence[dict[str, Any]]) -> list[BlockInterval]:
    """As the plain twin has them."""
    return [BlockInterval(**{n: row[n] for n in BlockInterval._fields}) for row in intervals]


def answers_of(directory: Path, silver: Tables, width_ns: int, borders: Sequence[int]) -> Tables:
    """Gold, a stretch between two borders at a time."""
    files = {}
    for name in ("block_interval", "sample_step"):
        path = directory / f"{name}.parquet"
        pq.write_table(silver[f"silver/{name}"], path)
        files[name] = (str(path),)
    known = event_tables._members(silver["silver/consumer"])
    parts = [
        Answers(files["block_interval"], files["sample_step"], low, high, width_ns, known)()
        for low, high in pairwise(borders)
    ]
    return {
        name: pa.concat_tables([one[name].cast(schema) for one in parts])
        for name, schema in ANSWERS.items()
    }
