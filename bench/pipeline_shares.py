"""What all tasks of a batch cost together, by how many shares it is divided into.

Without Spark: the works of the tasks are done one after the other by one process, whose processor
seconds are counted, so a busy machine says as much as a quiet one but for its caches. What may grow
with the number of shares is what each of them does for itself; what each reads must not.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.pipeline import BUCKET_NS
from bench.pipeline_events import write_events
from penstock.spark.input import bronze
from penstock.spark.input.intake import fresh
from penstock.spark.input.sources import parse_ranges
from penstock.spark.job.event_tables import STRETCH_ROWS, STRETCHES_A_CORE
from penstock.spark.job.facts import EventFile, Facts
from penstock.spark.job.gold_tables import Answers, FactFile
from penstock.spark.job.reach import Horizon, Scan
from penstock.spark.job.tasks import Piece, Work, bundled, dealing, unpacked
from penstock.spark.schema.arrow_columns import Tables
from penstock.spark.tables.store import EVENTS

SHARES: Final = (1, 2, 4, 16)
FILES: Final = 8
"""Of bronze, as two cores make of a batch."""

GROWTH_MAX: Final = 1.5


class Dealt:
    """What was dealt: rows and bytes of all shares, and the rows of each by name."""

    def __init__(self, pieces: Sequence[Piece], shares: int) -> None:
        bundles = bundled(pieces, len(pieces))
        numbers = pa.RecordBatch.from_pydict({"id": list(range(len(bundles)))})
        self.rows = self.bytes = 0
        self.parts: list[dict[str, list[pa.Table]]] = [{} for _ in range(shares)]
        for block in dealing(bundles, shares)(iter([numbers])):
            for row in block.to_pylist():
                if row["name"]:
                    table = unpacked(row["data"])
                    self.parts[row["share"]].setdefault(row["name"], []).append(table)
                    self.rows += len(table)
                    self.bytes += len(row["data"])


def shares(options: argparse.Namespace, place: Path) -> dict[str, Any]:
    """Processor seconds, rows and bytes of each step, for each number of shares."""
    count = write_events(place / "in", options.events, options.shape)
    files = bronze_of(place)
    found = {str(number): measured(files, number, place, count) for number in SHARES}
    whole = {number: one["together_us_per_event"] for number, one in found.items()}
    # One share alone has arrays of a size that no memory of a processor holds.
    first, last = (whole[str(number)] for number in (SHARES[1], SHARES[-1]))
    return {
        "events": count,
        "shares": found,
        "wanted": f"{SHARES[-1]} shares take at most {GROWTH_MAX} times as much as {SHARES[1]}",
        "is_met": last <= GROWTH_MAX * first,
    }


def bronze_of(place: Path) -> list[str]:
    """The event files below `place` as files of bronze."""
    target = place / "bronze"
    target.mkdir()
    ranges = fresh(place / "in", {}, 1 << 62)
    write = bronze._writer(parse_ranges, {EVENTS: str(target)}, 0)
    for some in bundled(ranges, FILES):
        rows = [one._asdict() for one in some]
        for _ in write(iter([pa.RecordBatch.from_pylist(rows)])):
            pass
    return sorted(map(str, target.rglob("*.parquet")))


def measured(files: Sequence[str], number: int, place: Path, events: int) -> dict[str, Any]:
    """One batch in so many shares, and as many stretches as a run with as many cores makes."""
    seconds: dict[str, float] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        began_s = time.process_time()
        result = work()
        seconds[name] = time.process_time() - began_s
        return result

    horizon = Horizon(tuple(files), (), (), (), (), (), -1, BUCKET_NS, False)
    reach = timed("reach", lambda: horizon.reach([Scan((file,), -1)() for file in files]))
    pieces = [EventFile(file, 0, 1 << 62, 0, 0, number) for file in files]
    dealt = timed("deal events", lambda: Dealt(pieces, number))
    works: list[Work] = [Facts((), reach.alive, {}, share, 0, BUCKET_NS) for share in range(number)]
    made: list[Tables] = timed("facts", lambda: _done(works, dealt))
    target = place / f"silver-{number}"
    target.mkdir()
    held = {name: _written(made, f"silver/{table}", target) for name, table in _SILVER.items()}
    times = np.sort(np.concatenate([one["silver/block_interval"]["end_ns"] for one in made]))
    rows = sum(len(one[f"silver/{_SILVER[name]}"]) for one in made for name in _FACTS)
    stretches = max(1, min(STRETCHES_A_CORE * number, rows // STRETCH_ROWS))
    inner = times[np.arange(1, stretches) * len(times) // stretches] // BUCKET_NS * BUCKET_NS
    borders = tuple(sorted({0, int(times[-1]) + 2 * BUCKET_NS, *inner.tolist()}))
    facts: list[Piece] = [FactFile(name, file, borders) for name in _FACTS for file in held[name]]
    of_time = timed("deal facts", lambda: Dealt(facts, len(borders) - 1))
    answers: list[Work] = [
        Answers(tuple(held["consumers"]), low, high, BUCKET_NS) for low, high in pairwise(borders)
    ]
    timed("answers", lambda: _done(answers, of_time))
    return {
        "us_per_event": {name: round(one / events * 1e6, 3) for name, one in seconds.items()},
        "together_us_per_event": round(sum(seconds.values()) / events * 1e6, 3),
        "rows_dealt_per_event": round(dealt.rows / events, 3),
        "bytes_dealt_per_event": round((dealt.bytes + of_time.bytes) / events, 1),
        "facts_dealt_per_event": round(of_time.rows / events, 3),
    }


_SILVER: Final = {"holds": "block_interval", "steps": "sample_step", "consumers": "consumer"}
_FACTS: Final = ("holds", "steps")


def _done(works: Sequence[Work], dealt: Dealt) -> list[Tables]:
    return [work(parts) for work, parts in zip(works, dealt.parts, strict=True)]


def _written(made: Sequence[Tables], name: str, place: Path) -> list[str]:
    paths = [place / f"{name.rpartition('/')[2]}-{at}.parquet" for at in range(len(made))]
    for path, tables in zip(paths, made, strict=True):
        pq.write_table(tables[name], path)
    return [str(path) for path in paths]
