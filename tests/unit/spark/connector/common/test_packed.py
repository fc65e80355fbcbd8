"""Ranges of many small queues are read by as many tasks as there are cores."""

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.datasource import InputPartition

from penstock.spark.connector.common.reader import RangePartition, SeveralRanges, packed


def ranges(*rows: int) -> list[RangePartition]:
    return [RangePartition(f"q{number}", 10, 10 + count) for number, count in enumerate(rows)]


def test_every_range_is_in_one_task_and_tasks_have_as_much() -> None:
    parts = ranges(*range(1, 101))
    tasks = packed(parts, 4)
    assert len(tasks) == 4
    found = []
    for task in tasks:
        assert isinstance(task, SeveralRanges)
        assert 1200 <= sum(one.stop - one.first for one in task.ranges) <= 1320
        found += [one.queue for one in task.ranges]
    assert sorted(found) == sorted(one.queue for one in parts)


def test_a_long_queue_has_a_task_of_its_own() -> None:
    long, short = packed(ranges(5, 1000, 7), 2)
    assert isinstance(long, RangePartition) and long.queue == "q1"
    assert isinstance(short, SeveralRanges) and len(short.ranges) == 2


def test_what_fits_or_is_no_range_stays_as_it_is() -> None:
    parts: list[InputPartition] = [*ranges(1, 2)]
    assert packed(parts, 2) is parts
    mixed = [*parts, InputPartition(0)]
    assert packed(mixed, 1) is mixed
