"""What the shop's tables say of the run: when Spark took how many orders, when the shop sold them.

Batches are those of a Delta table's log; the shop's own time and count are in each of its orders.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import msgspec


class Batch(NamedTuple):
    """One batch in the table bronze. at_ms: when it was committed, ms since 1970; rows: up to it,
    with those before."""

    at_ms: int
    rows: int


class Order(msgspec.Struct):
    """Of an order what is looked at here: its number behind the last dash, and when it was made."""

    order: str
    at: datetime


def batches_of(table: Path) -> list[Batch]:
    """The batches of a Delta table in their order, [] where there is none yet."""
    # Both come with the extra for Spark.
    import deltalake
    import pyarrow as pa

    if not deltalake.DeltaTable.is_deltatable(str(table)):
        return []
    files = pa.table(deltalake.DeltaTable(str(table)).get_add_actions(flatten=True))
    rows: dict[int, int] = {}
    times = files["modification_time"].cast(pa.int64()).to_pylist()
    for at_ms, count in zip(times, files["num_records"].to_pylist(), strict=True):
        rows[at_ms] = rows.get(at_ms, 0) + count
    found: list[Batch] = []
    for at_ms in sorted(rows):
        found.append(Batch(at_ms, rows[at_ms] + (found[-1].rows if found else 0)))
    return found


def pace(seen: list[Batch]) -> float:
    """B/T: rows a second from the first of these batches to the last."""
    first, last = seen[0], seen[-1]
    return (last.rows - first.rows) / ((last.at_ms - first.at_ms) / 1000)


def sold_a_second(table: Path, from_ms: int, to_ms: int) -> float:
    """At what rate the shop has published then, by its own clock and count: the order numbers in
    the messages of `table`."""
    import deltalake
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = deltalake.DeltaTable(str(table)).file_uris()
    bodies = pa.concat_tables(
        pq.ParquetFile(unquote(file)).read(columns=["body"], use_threads=False) for file in files
    )
    return rate_of(bodies["body"].to_pylist(), from_ms, to_ms)


def rate_of(bodies: Iterable[bytes], from_ms: int, to_ms: int) -> float:
    """Orders a second among those of `bodies` that were made in that time; bad ones, which may have
    neither time nor number, are counted by the numbers of the others."""
    seen: list[int] = []
    for body in bodies:
        try:
            order = msgspec.json.decode(body, type=Order)
        except msgspec.DecodeError:
            continue
        if from_ms <= order.at.timestamp() * 1000 <= to_ms:
            seen.append(int(order.order.rpartition("-")[2]))
    # By the whole time: the shop sells in bursts, one for each batch that Spark takes.
    return (max(seen) - min(seen)) / (to_ms - from_ms) * 1000 if seen else 0.0


def number_before(word: str, lines: Iterable[str]) -> int:
    """The number in front of `word` in the first of `lines` that has both, 0 without one."""
    found = (re.search(rf"(\d+) {word}", line) for line in lines)
    return next((int(one[1]) for one in found if one), 0)
