"""The pipeline as it runs along with a broker: what is new, again and again, a line for each time.

What a line says is of the newest buckets only: how many events came, how long publishers were held,
and because of whom.
"""

import time
from collections.abc import Callable
from typing import Final

from penstock.spark.blame.blame import actor_kind
from penstock.spark.blame.victims import QUEUES, held_kinds
from penstock.spark.input.stream_input import InputAway
from penstock.spark.job.about import About
from penstock.spark.job.pipeline import Updater, stored_tables
from penstock.spark.schema.rows import Tables

BUCKETS_SHOWN: Final = 10


def follow(updater: Updater, period_s: float, say: Callable[[str], None]) -> None:
    """Update every `period_s` until a KeyboardInterrupt, which is passed on.

    A round that takes longer than the period is followed by the next at once. A broker that is away
    is waited for, once it has been there. Raises: OperatorError.
    """
    before = read_count = 0
    is_away = False
    while True:
        begun_s = time.monotonic()
        try:
            about = updater.update()
        except InputAway as fault:
            if read_count == 0:
                raise
            if not is_away:
                say(f"{fault}; it is tried again every {period_s:g} s")
            is_away = True
        else:
            is_away = False
            count = about.source.event_count + about.source.trace_count
            if count != before or read_count == 0:
                tables = stored_tables(updater.tables_dir, about)
                say(line_of(tables, about, count - before, time.monotonic() - begun_s))
            before = count
            read_count += 1
        time.sleep(max(0.0, period_s - (time.monotonic() - begun_s)))


def line_of(tables: Tables, about: About, new_count: int, seconds: float) -> str:
    """One round: what came, and what the last ten buckets of blame say."""
    newest_ns = max((row.bucket_ns for row in tables.event_kinds), default=0)
    since_ns = newest_ns - (BUCKETS_SHOWN - 1) * about.bucket_ns
    sums: dict[tuple[str, str], int] = {}
    recent = [row for row in tables.root_cause if row.bucket_ns >= since_ns]
    kinds = held_kinds(recent)
    for row in recent:
        if actor_kind(row.victim) in kinds:
            sums[row.cause, row.root] = sums.get((row.cause, row.root), 0) + row.blamed_ns
    parts = [f"+{new_count:,} lines in {seconds:.1f} s"]
    window = f"last {BUCKETS_SHOWN * about.bucket_ns / 1e9:g} s"
    if sums:
        (cause, root), held_ns = max(sums.items(), key=lambda item: (item[1], item[0]))
        whole_ns = sum(sums.values())
        who = "queues" if kinds == QUEUES else "publishers"
        parts.append(
            f"{window}: {who} held {whole_ns / 1e9:.1f} s, {held_ns / whole_ns:.0%} {cause} "
            f"({root})"
        )
    else:
        parts.append(f"{window}: nobody held")
    if about.source.events_missing:
        parts.append(f"{about.source.events_missing:,} events are missing")
    return " · ".join(parts)
