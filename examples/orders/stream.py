"""The shop's pipeline as six streaming queries; `python stream.py FOLDER`.

Each query takes one arrow of the plan in orders.py, has a checkpoint of its own, and does its work
exactly once: a lease gives the same messages again after a crash, a Delta table ignores a batch
that it has, and so does the broker. So it does not matter when what is killed.

    --once     work off what is there, one query after the other, and end (for cron)
    --every    the time between two batches; --rows: orders in a batch at most
    --replay   from the stream that keeps all orders, into tables of another folder; publish nothing
    --check    compare the tables, and the accountant's book if there is one; exit 1 if they differ

Ctrl-C takes what is there through all tables first; a second one ends it at once.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
import orders
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException

from penstock.spark import register
from penstock.spark.java import find_java
from penstock.spark.session.session import open_session

URL = os.environ.get("ORDERS_URL", "amqp://guest:guest@127.0.0.1:5672")
RESTART_S = 2.0


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--every", default="1 second")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if given.check:
        return check(given.folder)
    with open_session(find_java()) as spark:
        register(spark)
        queries = arrows(spark, given.folder, source(spark, given.replay, given.rows))
        if given.replay:
            del queries["invoices"], queries["dead-letters"]
        trigger = {"availableNow": True} if given.once else {"processingTime": given.every}
        starts = {name: starter(given.folder, name, queries[name], trigger) for name in queries}
        if given.once:
            for start in starts.values():
                start().awaitTermination()
        else:
            keep_running(starts)
    return 0


def source(spark: Any, is_replay: bool, rows: int) -> Any:
    """The orders' messages: from the queue, which is emptied, or from the stream."""
    given = {"url": URL, "maxOffsetsPerTrigger": str(rows), "columns": "body,offset,routing_key"}
    if is_replay:
        given |= {"queue": "orders.log", "mode": "stream", "startingOffsets": "earliest"}
    else:
        # One for each checkpoint, and the same after every start.
        given |= {"queue": "orders", "mode": "lease", "group": "orders-bronze"}
    return spark.readStream.format("amqp").options(**given).load()


def arrows(spark: Any, folder: Path, messages: Any) -> dict[str, Any]:
    """A writer for each arrow, in the order in which rows pass through them."""

    def table(name: str, columns: str) -> Any:
        """The rows of a table as they are added, from its first."""
        rows = spark.readStream.schema(columns).format("deltatable")
        return rows.option("path", str(folder / name)).load()

    def into_table(rows: Any, name: str) -> Any:
        return rows.writeStream.format("deltatable").option("path", str(folder / name))

    def into_exchange(rows: Any, exchange: str) -> Any:
        sink = {"url": URL, "exchange": exchange, "delivery": "exactly-once"}
        return rows.writeStream.format("amqp").options(**sink)

    bronze = table("bronze", orders.BRONZE)
    silver = table("silver", orders.SILVER)
    quarantine = table("quarantine", orders.QUARANTINE)
    # A minute may be added to for a day; what comes later than that is in silver only.
    gold = orders.revenue(silver.withWatermark("at", "1 day")).writeStream.outputMode("update")
    return {
        "bronze": into_table(orders.bronze(messages), "bronze"),
        "silver": into_table(orders.silver(bronze), "silver"),
        "quarantine": into_table(orders.quarantine(bronze), "quarantine"),
        "gold": gold.foreachBatch(upsert(folder / "gold")),
        "invoices": into_exchange(orders.invoices(silver), "invoices"),
        "dead-letters": into_exchange(orders.dead_letters(quarantine), "shop.dead"),
    }


def upsert(path: Path) -> Callable[[Any, int], None]:
    """Put the new totals of some minutes into the table. They are totals, not differences: a batch
    that is run again writes what is there."""

    def write(totals: Any, batch: int) -> None:
        rows = totals.toArrow()
        if rows.num_rows == 0:
            return
        table = deltalake.DeltaTable.create(str(path), schema=rows.schema, mode="ignore")
        (
            table.merge(
                rows,
                "old.minute = new.minute AND old.currency = new.currency",
                source_alias="new",
                target_alias="old",
            )
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )

    return write


def starter(folder: Path, name: str, query: Any, trigger: dict[str, Any]) -> Callable[[], Any]:
    """Starts the query, or starts it again where its checkpoint says."""
    state = str(folder / "state" / name)
    named = query.queryName(f"orders-{name}").option("checkpointLocation", state).trigger(**trigger)
    return lambda: named.start()


def keep_running(starts: dict[str, Callable[[], Any]]) -> None:
    """Until a kill, or until Ctrl-C, behind which what is there still goes through all tables. A
    query that fails is started again: nothing is lost by it."""
    is_asked_to_end = False

    def ask_to_end(*_: object) -> None:
        nonlocal is_asked_to_end
        is_asked_to_end = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    # PySpark's own handler cancels the batches that run.
    signal.signal(signal.SIGINT, ask_to_end)
    # The last arrow first: batches of the first ones would keep the others from their start.
    running = {name: begun(starts[name]()) for name in reversed(starts)}
    print("running", flush=True)
    while not is_asked_to_end:
        time.sleep(RESTART_S)
        for name, query in running.items():
            if not query.isActive:
                running[name] = begun_again(name, query, starts[name])
    print("working off what is there", flush=True)
    for name in starts:
        while not has_worked_off(running[name]):
            running[name] = begun_again(name, running[name], starts[name])


def has_worked_off(query: Any) -> bool:
    """Whether the query has lived until all that is there was through it."""
    with suppress(StreamingQueryException):
        query.processAllAvailable()
    return bool(query.isActive)


def begun_again(name: str, query: Any, start: Callable[[], Any]) -> Any:
    """The query `name`, after one that has failed."""
    print(f"{name} is started again: {str(query.exception()).splitlines()[0]}", flush=True)
    return begun(start())


def begun(query: Any) -> Any:
    """The query, once it has looked for rows or failed. Each has Python workers of its own, which
    are slow to start when all do at once."""
    while query.isActive and query.status["message"].startswith("Initializing"):
        time.sleep(0.1)
    return query


def check(folder: Path) -> int:
    """Whether every message is in the tables, and every good order in the book, exactly once."""
    bronze, silver, quarantine, gold = (
        rows_of(folder / name) for name in ("bronze", "silver", "quarantine", "gold")
    )
    numbers = sorted(bronze["offset"].to_pylist())
    sorted_out = sorted(silver["offset"].to_pylist() + quarantine["offset"].to_pylist())
    print(f"{len(numbers)} orders came, {len(silver)} are good, {len(quarantine)} in quarantine")
    for why in pc.value_counts(quarantine["reason"]).to_pylist():
        print(f"{why['counts']:6} {why['values']}")
    sums = {"silver": pc.sum(silver["amount"]), "gold": pc.sum(gold["revenue"])}
    print(f"revenue {sums['gold']} in {len(gold)} minutes and currencies")
    found = {
        "every message is in bronze once": numbers == list(range(len(numbers))),
        "and in silver or quarantine once": sorted_out == numbers,
        "gold is the sum of silver": sums["gold"] == sums["silver"],
    }
    book = folder / "book.txt"
    if book.exists():
        billed = sorted(line.split()[0] for line in book.read_text(encoding="utf-8").splitlines())
        good = silver.filter(pc.is_in(silver["currency"], pa.array(["EUR", "CHF"])))
        found["every good order is billed once"] = billed == sorted(good["order"].to_pylist())
    for what, is_so in found.items():
        print(f"{'✔' if is_so else '✘'} {what}")
    return 0 if all(found.values()) else 1


def rows_of(path: Path) -> Any:
    """The last version of a Delta table."""
    if not deltalake.DeltaTable.is_deltatable(str(path)):
        sys.exit(f"there is no table {path} yet: python stream.py {path.parent} --once")
    files = deltalake.DeltaTable(str(path)).file_uris()
    return pa.concat_tables(pq.ParquetFile(unquote(file)).read(use_threads=False) for file in files)


if __name__ == "__main__":
    sys.exit(main())
