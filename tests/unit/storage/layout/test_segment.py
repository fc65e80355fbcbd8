"""Runs: one bit for each position."""

from itertools import pairwise

from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.segment import Run, Segment, Table


def run_of(*positions: int) -> Run:
    segment = Segment(1, bytes(8))
    table = Table(segment, 1)
    run = Run(table, positions[0], positions[0], bytearray())
    for position in positions:
        table.add(position, 0, 10)
        run.add(position)
    segment.runs[run] = None
    return run


def live(run: Run) -> list[int]:
    found = []
    at = run.next_live(0)
    while at >= 0:
        found.append(int(at))
        at = run.next_live(at + 1)
    return found


def test_positions_are_found_again() -> None:
    wanted = [100, 101, 107, 108, 109, 115, 116, 400, 401]
    run = run_of(*wanted)
    assert live(run) == wanted
    assert [position for position in range(90, 420) if run.has(position)] == wanted


def test_settled_positions_count_no_more() -> None:
    run = run_of(*range(1, 1000))
    for position in range(1, 999):
        assert run.clear(position)
        assert not run.clear(position)
    assert live(run) == [999]
    assert run.live == 1
    assert run.live_bytes() == 10


def test_what_comes_and_goes_in_its_order_takes_nothing() -> None:
    run = run_of(*range(1, 100_001))
    for position in range(1, 50_001):
        assert run.clear(position)
    assert len(run.bits) == 0
    assert run.next_live(1) == 50_001 and run.live == 50_000


def test_everything_else_takes_a_bit_for_each_position() -> None:
    run = run_of(*range(1, 100_001))
    assert run.clear(100_000)
    assert len(run.bits) == 12_500
    assert run.live == 99_999
    for position in range(1, 99_999):
        assert run.clear(position)
    assert live(run) == [99_999]
    run.add(100_001)
    run.add(100_003)
    assert live(run) == [99_999, 100_001, 100_003]


def test_a_split_run_has_the_same_positions() -> None:
    run = run_of(1, 5, 9, 13, 17)
    part = run.split(9)
    assert live(run) == [1, 5] and run.last == 8
    assert live(part) == [9, 13, 17] and part.last == 17
    assert set(run.table.segment.runs) == {run, part}


def test_runs_that_lie_between_each_other_are_split() -> None:
    index = QueueIndex(1)
    index.insert(run_of(1, 5, 9, 13))
    index.insert(run_of(3, 7, 11, 20))
    index.insert(run_of(6))
    stretches = [(int(run.first), int(run.last)) for run in index.runs]
    assert all(one[1] < two[0] for one, two in pairwise(stretches))
    assert [position for run in index.runs for position in live(run)] == [
        1,
        3,
        5,
        6,
        7,
        9,
        11,
        13,
        20,
    ]
    for position in (1, 6, 13, 20):
        run = index.find(position)
        assert run is not None and run.has(position)
    absent = index.find(12)
    assert absent is None or not absent.has(12)
