"""Sketches of the lengths of holds, in the form that Spark's `kll_*_bigint` functions read.

A sketch is a KLL sketch of DataSketches in its compact form: levels of sorted items, of which one
of level n stands for 2**n of the lengths. All lengths of a bucket are there at once, so they are
sorted and every 2**n-th is kept, where Spark's own aggregate throws dice as they come: this is
more exact, always the same, and costs less than a tenth. Spark merges them and reads percentiles.
"""

import struct
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.blame.blame import actor_kind
from penstock.spark.schema.arrow_columns import (
    BOOT,
    HOLD_SKETCH,
    I64,
    coded,
    distinct,
    text,
    together,
)
from penstock.spark.schema.rows import HELD_BY, SKETCH_SIZE

_LEAST: Final = 8
"""Items for which the lowest of many levels has room: `m` of the format."""

_HEAD: Final = struct.Struct("<BBBBHBBqHBB")
_INTS_OF_HEAD: Final = 5
_VERSION: Final = 1
_FAMILY: Final = 15
_IS_SORTED: Final = 2


def sketch(lengths: I64) -> bytes:
    """What stands for `lengths`, of which there is at least one: all of them up to SKETCH_SIZE,
    else at least half as many as that, each the middle of a group of neighbours."""
    lengths = np.sort(lengths)
    count = len(lengths)
    top = max(0, (count - 1) // SKETCH_SIZE).bit_length()
    items: list[I64] = []
    sizes: list[int] = []
    # What is left over by the groups of the highest level is at the end, in ever smaller groups.
    at = 0
    for level in range(top, -1, -1):
        groups = (count - at) >> level
        items.insert(0, lengths[at + (1 << level >> 1) : at + (groups << level) : 1 << level])
        sizes.insert(0, groups)
        at += groups << level
    free = _room(top + 1) - sum(sizes)
    firsts = free + np.cumsum([0, *sizes[:-1]])
    head = _HEAD.pack(
        _INTS_OF_HEAD, _VERSION, _FAMILY, _IS_SORTED, SKETCH_SIZE, _LEAST, 0,
        count, SKETCH_SIZE, top + 1, 0,
    )  # fmt: skip
    numbers = np.concatenate([lengths[[0, -1]], *items])
    return head + firsts.astype("<i4").tobytes() + numbers.astype("<i8").tobytes()


def _room(levels: int) -> int:
    """For how many items a sketch of so many levels has room: two thirds of a level in the one
    below it."""
    depths = range(levels)
    return sum(max(_LEAST, ((SKETCH_SIZE << depth + 1) // 3**depth + 1) >> 1) for depth in depths)


def hold_sketch(holds: pa.Table, from_ns: int, to_ns: int, width_ns: int) -> pa.Table:
    """Lengths of the holds that have ended, by their boot, the bucket of [from_ns, to_ns) in which
    and the kinds of both ends. holds: as `coded.read` gives them, none of them empty."""
    is_here = (
        pc.greater_equal(holds["end_ns"], from_ns).to_numpy()
        & pc.less(holds["end_ns"], to_ns).to_numpy()
    )
    found = coded(holds)
    rows = np.flatnonzero(is_here & (found.codes["closed_by"] != found.place("end_of_data")))
    kinds = sorted({actor_kind(name) for name in found.names})
    places = {kind: at for at, kind in enumerate(kinds)}
    kind = np.array([places[actor_kind(name)] for name in found.names], np.int64)
    actor, peer = (kind[found.codes[name][rows]] for name in ("actor", "peer"))
    start_ns, end_ns = found.numbers["start_ns"][rows], found.numbers["end_ns"][rows]
    bucket = end_ns // width_ns
    boot = found.codes["boot_id"][rows]
    pick, row = distinct(together(bucket, boot, actor, peer))
    order = np.argsort(row, kind="stable")
    parts = np.split((end_ns - start_ns)[order], np.cumsum(np.bincount(row))[:-1])
    stages = zip(actor[pick].tolist(), peer[pick].tolist(), strict=True)
    return pa.table(
        [
            pa.array([kinds[one] + HELD_BY + kinds[other] for one, other in stages], pa.string()),
            bucket[pick] * width_ns,
            pa.array([len(part) for part in parts[: len(pick)]], pa.int64()),
            pa.array([int(part.max()) for part in parts[: len(pick)]], pa.int64()),
            pa.array([sketch(part) for part in parts[: len(pick)]], pa.binary()),
            *(text(found.names, found.codes[name][rows[pick]]) for name in BOOT),
        ],
        schema=HOLD_SKETCH,
    )
