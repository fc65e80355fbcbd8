"""Spark and the broker's own stream: read while it is written to, it gives the rows of files."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from penstock.protocol.values import Table
from penstock.spark.input.intake import Intake, read_range
from penstock.spark.input.stream_input import FETCHED, StreamInput
from penstock.spark.schema.formats import EVENT_FILES, read_events
from tests.conformance.live import penstock_process
from tests.patience import PATIENCE_S
from tests.spark.marks import IN_SPARK
from tests.spark.through_amqp import patiently

pytestmark = IN_SPARK

SECRET = "guest:guest"


def until_fresh(stream: StreamInput, taken: Callable[[str], int]) -> Intake:
    """What is new, once a publisher was held in it and let go: the broker writes once a second."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = stream.fresh(EVENT_FILES, taken)
        lines = b"".join(read_range(one) for one in found.ranges)
        if b"gate_closed" in lines and b"gate_opened" in lines:
            return found
        time.sleep(0.1)
    raise AssertionError(f"the broker has not written of it for {PATIENCE_S} s")


def held(url: str) -> None:
    """A publisher that is held for a while: nobody takes what it sends, until it is purged."""
    with patiently(url) as connection, patiently(url) as other:
        channel, broom = connection.channel(), other.channel()
        bounds: Table = {"x-max-length": 5, "x-overflow": "backpressure"}
        channel.declare_queue("full", arguments=bounds)
        channel.confirm_select()
        for _ in range(600):
            channel.publish("", "full", b"x")
        for _ in range(2):
            time.sleep(0.3)
            broom.purge_queue("full")
        broom.delete_queue("full")
        channel.wait_for_confirms(60_000)


def test_lines_and_offsets_are_in_one_commit_of_bronze(spark: Any, tmp_path: Path) -> None:
    from penstock.spark.input import bronze
    from penstock.spark.tables.store import EVENTS, open_store

    (source,) = [one for one in bronze.SOURCES if one.table == EVENTS]
    tables, events = tmp_path / "tables", tmp_path / "events"
    store = open_store(tables)
    with penstock_process(tmp_path, "--event-stream", "--events", str(events)) as broker:
        for is_killed in (False, True, False):
            # Another process each time, which knows what stands in the tables.
            stream = StreamInput(broker.url, tables / FETCHED)
            held(broker.url)
            found = until_fresh(stream, partial(store.mark, source.table))
            assert SECRET not in f"{stream} {found}"
            if not is_killed:
                bronze.take_in(spark, store, source, found)
    rows = store.read(source.table)
    assert rows is not None
    columns = ("boot_id", "seq", "t_ns", "kind", "actor", "peer", "reason", "amount")
    read = sorted(zip(*(rows[name].to_pylist() for name in columns), strict=True))
    files = read_events(events).events
    assert read == [one[: len(columns)] for one in files[: len(read)]] and len(read) > 30
    assert any(one.kind == "gate_closed" for one in files[: len(read)])
    assert rows["unreadable"].null_count == len(rows)
