"""Events to tables by arrays, without Spark: the works of the tasks, done one after the other."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark.input import parse
from penstock.spark.job.facts import EventFile, Facts
from penstock.spark.job.gold_tables import Answers, FactFile
from penstock.spark.job.reach import Horizon, Scan
from penstock.spark.job.silver_tables import SHARED
from penstock.spark.job.tasks import Piece, slim
from penstock.spark.schema.arrow_columns import ANSWERS, FACTS
from penstock.spark.schema.rows import BlockInterval
from tests.spark.flow_events import FlowEvent
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
    pieces = [EventFile(file, 0, 1 << 62, 0, 0, shares) for file in files]
    horizon = Horizon(tuple(files), (), (), (), (), (), -1, width_ns, False)
    alive = horizon.reach([Scan(horizon.events, -1)()]).alive
    works = [Facts((), alive, {}, number, 0, width_ns) for number in range(shares)]
    parts = [work(dealt) for work, dealt in zip(works, dealt_to(pieces, shares), strict=True)]
    found = {
        name: pa.concat_tables([one[name].cast(schema) for one in parts])
        for name, schema in FACTS.items()
    }
    return found | {name: merge(found[name]) for name, merge in SHARED.items()}


def dealt_to(pieces: Sequence[Piece], shares: int) -> list[dict[str, list[pa.Table]]]:
    """What each share gets."""
    found: list[dict[str, list[pa.Table]]] = [{} for _ in range(shares)]
    for piece in pieces:
        for share, name, rows in piece():
            found[share].setdefault(name, []).append(slim(rows))
    return found


def holds_of(intervals: Sequence[dict[str, Any]]) -> list[BlockInterval]:
    """As the plain twin has them."""
    return [BlockInterval(**{n: row[n] for n in BlockInterval._fields}) for row in intervals]


def answers_of(directory: Path, silver: Tables, width_ns: int, borders: Sequence[int]) -> Tables:
    """Gold, a stretch between two borders at a time."""
    files = {}
    for name in ("block_interval", "sample_step", "consumer"):
        path = directory / f"{name}.parquet"
        pq.write_table(silver[f"silver/{name}"], path)
        files[name] = str(path)
    pieces = [
        FactFile("holds", files["block_interval"], tuple(borders)),
        FactFile("steps", files["sample_step"], tuple(borders)),
    ]
    works = [Answers((files["consumer"],), low, high, width_ns) for low, high in pairwise(borders)]
    found = dealt_to(pieces, len(works))
    parts = [work(dealt) for work, dealt in zip(works, found, strict=True)]
    return {
        name: pa.concat_tables([one[name].cast(schema) for one in parts])
        for name, schema in ANSWERS.items()
    }
