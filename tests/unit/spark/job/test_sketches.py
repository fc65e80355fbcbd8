"""Sketches of holds: what of the lengths is kept, and for how many each stands."""

import struct
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("pyspark", reason="pyspark is not installed")

from penstock.spark.job.sketches import sketch
from penstock.spark.schema.rows import SKETCH_SIZE


def unpacked(data: bytes) -> tuple[int, list[tuple[int, int]], tuple[int, int]]:
    """How many lengths there were; the items, each with its weight; lowest and highest."""
    count, _, levels = struct.unpack_from("<qHB", data, 8)
    firsts = struct.unpack_from(f"<{levels}i", data, 20)
    lowest, highest, *items = np.frombuffer(data, "<i8", offset=20 + 4 * levels).tolist()
    borders = [one - firsts[0] for one in firsts] + [len(items)]
    found = []
    for level, (low, high) in enumerate(pairwise(borders)):
        assert items[low:high] == sorted(items[low:high])
        found += [(item, 1 << level) for item in items[low:high]]
    return count, found, (lowest, highest)


@pytest.mark.parametrize("count", [1, 2, 3999, 4000, 4001, 8000, 8001, 100_003])
def test_a_sketch_stands_for_all_lengths_in_their_order(count: int) -> None:
    lengths = np.random.default_rng(count).integers(0, 10**9, count)
    total, items, borders = unpacked(sketch(lengths))
    assert total == count == sum(weight for _, weight in items)
    assert borders == (lengths.min(), lengths.max())
    assert min(count, SKETCH_SIZE // 2) <= len(items) <= SKETCH_SIZE + 20
    ordered, rank = np.sort(lengths).tolist(), 0
    for item, weight in sorted(items):
        assert item in ordered[rank : rank + weight], "an item is of the group it stands for"
        rank += weight


def test_up_to_its_size_it_has_every_length() -> None:
    lengths = np.arange(SKETCH_SIZE)[::-1]
    _, items, _ = unpacked(sketch(lengths))
    assert items == [(length, 1) for length in range(SKETCH_SIZE)]
