"""Silver tables: intervals and samples, made of bronze by tasks with arrays.

The rules are those of the oracle in `tests/spark`, which the tests compare this file with.
The input is a slice (`facts.py`), sorted by sequence number: the events of some actors from a
moment on. What ends in it comes out.
"""

from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.blame.blame import group_of
from penstock.spark.input.event_slice import LIVES, SAMPLES, UP, Slice, by_group
from penstock.spark.schema.arrow_columns import (
    ALARM_INTERVAL,
    BOOT,
    CONSUMER,
    COVERAGE,
    DEPTHS,
    EVENT_KINDS,
    I64,
    QUEUE_DEPTH,
    SAMPLE_STEP,
    compact,
    distinct,
    sums,
    text,
    together,
)
from penstock.spark.schema.formats import DROPPED, STATE_FIELDS


def alarm_interval(found: Slice) -> pa.Table:
    """When each alarm was set: alarm, start_ns, end_ns, is_open at the end of the data."""
    carried = found.of(found.carried, "alarm_set")
    rows = np.concatenate([carried, found.of(found.mine, "alarm_set", "alarm_cleared")])
    group = together(found.codes["boot_id"][rows], found.codes["actor"][rows])
    order, _, is_last = by_group(group, np.arange(len(rows), dtype=np.int64))
    rows = rows[order]
    t_ns = found.numbers["t_ns"][rows]
    end_ns = np.where(is_last, found.last_ns[found.codes["boot_id"][rows]], np.roll(t_ns, -1))
    is_set = found.codes["kind"][rows] == found.kind("alarm_set")
    rows = rows[is_set]
    return pa.table(
        [
            found.texts("boot_id", rows),
            found.texts("actor", rows),
            t_ns[is_set],
            end_ns[is_set],
            is_last[is_set],
            found.texts("node", rows),
        ],
        schema=ALARM_INTERVAL,
    )


def sample_step(found: Slice) -> pa.Table:
    """From each sample of an actor to its next, with what was added. No step leads from one actor
    to another of its name, whose counts begin anew."""
    mine = np.concatenate([found.before, found.mine])
    rows = found.of(mine, *SAMPLES)
    life = _lives(found, mine)
    group = together(*(found.codes[name][rows] for name in ("boot_id", "actor", "kind")))
    order, _, is_last = by_group(compact(group), np.arange(len(rows), dtype=np.int64))
    is_step = ~is_last & (life[order] == np.roll(life[order], -1))
    first, then = rows[order][is_step], rows[np.roll(order, -1)][is_step]
    t_ns = found.numbers["t_ns"]
    return pa.table(
        [
            *(found.texts(name, first) for name in (*BOOT, "actor", "kind")),
            t_ns[first],
            t_ns[then],
            found.numbers["consumers"][first],
            *(found.numbers[name][then] - found.numbers[name][first] for name in STATE_FIELDS),
        ],
        schema=SAMPLE_STEP,
    )


def _lives(found: Slice, mine: I64) -> I64:
    """For each sample among `mine` a number that is another one when an actor of that name came
    into being or went since the one before."""
    ups = found.of(mine, *LIVES)
    rows = found.of(mine, *SAMPLES, *LIVES)
    actor = together(found.codes["boot_id"][rows], found.codes["actor"][rows])
    order, _, _ = by_group(compact(actor), np.arange(len(rows), dtype=np.int64))
    is_up = np.isin(rows, ups, assume_unique=True)
    life = np.zeros(len(rows), np.int64)
    life[order] = np.cumsum(is_up[order])
    return life[~is_up]


def consumer(found: Slice) -> pa.Table:
    """The consumers of each queue of a boot, from every event that names a consumer and a queue."""
    is_consumer = np.array([name.startswith("consumer:") for name in found.names], np.bool_)
    groups = [group_of(name) for name in found.names]
    is_group = np.array([bool(group) for group in groups], np.bool_)
    actor, peer = found.codes["actor"][found.mine], found.codes["peer"][found.mine]
    named = []
    for one, other in ((actor, peer), (peer, actor)):
        rows = np.flatnonzero(is_consumer[one] & is_group[other])
        named.append(
            pa.table(
                [
                    *(found.texts(name, found.mine[rows]) for name in BOOT),
                    text(found.names, one[rows]),
                    text(groups, other[rows]),
                    found.numbers["t_ns"][found.mine][rows],
                ],
                schema=CONSUMER,
            )
        )
    return _together(pa.concat_tables(named), since_ns="min")


def queue_depth(found: Slice) -> pa.Table:
    """The samples of all queues; one that comes into being has counted nothing yet."""
    is_queue = np.array([name.startswith("queue:") for name in found.names], np.bool_)
    rows = found.of(found.mine, "queue_sample", UP)
    rows = rows[is_queue[found.codes["actor"][rows]]]
    numbers = [found.numbers[name][rows] for name in DEPTHS]
    queues = pc.utf8_slice_codeunits(found.texts("actor", rows), len("queue:"))
    boot = [found.texts(name, rows) for name in BOOT]
    return pa.table([found.numbers["t_ns"][rows], queues, *numbers, *boot], schema=QUEUE_DEPTH)


def event_kinds(found: Slice, width_ns: int) -> pa.Table:
    """How often each kind of event happened."""
    rows = found.mine
    t_ns = found.numbers["t_ns"][rows]
    # A boot is one of one node: the node adds no rows.
    keys, totals = sums(
        (t_ns // width_ns, *(found.codes[name][rows] for name in ("kind", *BOOT))),
        np.ones(len(rows), np.int64),
        found.numbers["amount"][rows],
    )
    kind, *boot = (text(found.names, key) for key in keys[1:])
    return pa.table([keys[0] * width_ns, kind, *totals, *boot], schema=EVENT_KINDS)


def coverage(found: Slice, width_ns: int) -> pa.Table:
    """Which sequences are there: over all buckets of a boot, what lies between the lowest and the
    highest and is not counted is missing. A `dropped` event stands for all that was lost."""
    rows = found.mine
    seq, boot = found.numbers["seq"][rows], found.codes["boot_id"][rows]
    is_lost = found.codes["kind"][rows] == found.kind(DROPPED)
    lowest = np.where(is_lost, seq - found.numbers["amount"][rows] + 1, seq)
    bucket = found.numbers["t_ns"][rows] // width_ns
    pick, row = distinct(together(boot, bucket))
    low, high, there = lowest[pick], seq[pick], np.zeros(len(pick), np.int64)
    np.minimum.at(low, row, lowest)
    np.maximum.at(high, row, seq)
    np.add.at(there, row, ~is_lost)
    last_ns = found.numbers["t_ns"][rows][pick]
    np.maximum.at(last_ns, row, found.numbers["t_ns"][rows])
    whose = [found.texts(name, rows[pick]) for name in BOOT]
    return pa.table(
        [bucket[pick] * width_ns, *whose, low, high, there, last_ns],
        schema=COVERAGE,
    )


# -- what shares have found in common --------------------------------------------------------------


def _together(parts: pa.Table, **how: str) -> pa.Table:
    """One row for those that are the same but in the columns that are added up as `how` says."""
    keys = [name for name in parts.column_names if name not in how]
    found = parts.group_by(keys, use_threads=False).aggregate(list(how.items()))
    found = found.rename_columns([*keys, *how])
    return found.select(parts.column_names)


SHARED: Final = {
    "silver/consumer": partial(_together, since_ns="min"),
    "gold/event_kinds": partial(_together, events="sum", amount="sum"),
    "gold/coverage": partial(_together, low="min", high="max", there="sum", last_ns="max"),
}
"""How the parts of shares become one table, where they are more than put one behind the other: each
consumer of each queue of a boot once, each kind and each boot once a bucket."""
