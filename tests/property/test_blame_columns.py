"""Blame by the column is blame by the sweep, for any graphs in any buckets."""

import pytest

pytest.importorskip("numpy")

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.blame.blame import CYCLE, BlameKey
from penstock.spark.blame.blame_columns import sweep_columns
from penstock.spark.blame.blame_graph import Cut, Places
from tests.spark.oracle_blame import Edge, sweep

MEMBERS = {
    "consumers:/q": ("consumer:a@A", "consumer:b@B"),
    "consumers:/r": ("consumer:b@B", "consumer:gone@C"),
}
OTHERS = {"consumers:/q": ("consumer:b@B",), "consumers:/r": ("consumer:a@A",)}
"""Of another boot, whose queues and consumers have the same names."""
BOOTS = (("n", "b1"), ("m", "b2"))
ACTORS = (
    "conn:A", "conn:B", "chan:A/1", "chan:A/2", "chan:B/1", "queue:/q", "queue:/r",
    "consumers:/q", "consumers:/r", "consumer:a@A", "consumer:b@B",
)  # fmt: skip
ENDS = ("client:A", "nobody", "socket:B", "account:A", "rate:A", "store:/", "alarm:memory")
REASONS = ("credit", "debt", "rate", "prefetch", "client_flow", "no consumer")
PLACES = (*ACTORS, *ENDS)
BUCKETS = (0, 1_000, 7_000)
PLACE_BOOTS = (0, 1, 0)

Times = st.tuples(st.integers(0, 200), st.integers(0, 60))
Found = dict[tuple[int, BlameKey], int]


def downward(pair: tuple[int, int]) -> tuple[int, int]:
    """As in a broker: nobody is held by somebody above."""
    low, high = sorted(pair)
    return low, high if high > low else len(PLACES) - 1


ways = st.tuples(st.integers(0, len(ACTORS) - 1), st.integers(0, len(PLACES) - 1))
buckets_of = st.sampled_from(BUCKETS)


def holds(pairs: st.SearchStrategy[tuple[int, int]]) -> st.SearchStrategy[list[tuple[int, Edge]]]:
    one = st.builds(
        lambda bucket, pair, reason, time: (
            bucket,
            Edge(
                PLACES[pair[0]],
                PLACES[pair[1]],
                reason,
                bucket + time[0],
                bucket + time[0] + time[1],
            ),
        ),
        buckets_of,
        pairs,
        st.sampled_from(REASONS),
        Times,
    )
    return st.lists(one, max_size=30)


def by_sweep(edges: list[tuple[int, Edge]]) -> Found:
    return {
        (bucket, key): blamed_ns
        for bucket, boot in zip(BUCKETS, PLACE_BOOTS, strict=True)
        for key, blamed_ns in sweep(
            [e for b, e in edges if b == bucket], (MEMBERS, OTHERS)[boot]
        ).items()
    }


def by_columns(edges: list[tuple[int, Edge]]) -> Found:
    edges = [(bucket, edge) for bucket, edge in edges if edge.end_ns > edge.start_ns]
    names = sorted({name for _, edge in edges for name in edge[:2]})
    reasons = sorted({edge.reason for _, edge in edges})
    rows = [
        (
            BUCKETS.index(bucket),
            names.index(edge.actor),
            names.index(edge.peer),
            reasons.index(edge.reason),
            *edge[3:],
        )
        for bucket, edge in edges
    ]
    columns = np.array(rows, np.int64).reshape(-1, 6).T
    places = Places(BOOTS, np.array(PLACE_BOOTS, np.int64), np.array(BUCKETS, np.int64))
    members = {
        (boot_id, group): ones
        for (_, boot_id), groups in ((BOOTS[0], MEMBERS), (BOOTS[1], OTHERS))
        for group, ones in groups.items()
    }
    found = sweep_columns(Cut(names, reasons, places, *columns), members)
    answer: Found = {}
    columns_found = (found.place.tolist(), found.key.tolist(), found.blamed_ns.tolist())
    for place, key, blamed_ns in zip(*columns_found, strict=True):
        bucket = BUCKETS[place]
        assert (bucket, found.keys[key]) not in answer
        answer[bucket, found.keys[key]] = blamed_ns
    return answer


@given(holds(ways.map(downward)))
def test_without_cycles(edges: list[tuple[int, Edge]]) -> None:
    assert by_columns(edges) == by_sweep(edges)


@given(holds(ways))
def test_with_cycles_the_books_balance(edges: list[tuple[int, Edge]]) -> None:
    """Whoever reaches no cycle is told the same, and of the others all time is charged."""
    found, expected = by_columns(edges), by_sweep(edges)
    assert of_victims(found) == of_victims(expected)
    assert all(blamed_ns > 0 for blamed_ns in found.values())
    reach = {(bucket, key.victim) for bucket, key in found if key.cause == CYCLE}
    assert reach >= {(bucket, key.victim) for bucket, key in expected if key.cause == CYCLE}
    assert without(found, reach) == without(expected, reach)


def of_victims(found: Found) -> dict[tuple[int, str], int]:
    sums: dict[tuple[int, str], int] = {}
    for (bucket, key), blamed_ns in found.items():
        sums[bucket, key.victim] = sums.get((bucket, key.victim), 0) + blamed_ns
    return sums


def without(found: Found, victims: set[tuple[int, str]]) -> Found:
    return {one: ns for one, ns in found.items() if (one[0], one[1].victim) not in victims}


def test_a_cycle_concerns_those_who_can_reach_it_only() -> None:
    edges = [
        (0, Edge("conn:A", "chan:A/1", "credit", 0, 10)),
        (0, Edge("chan:A/1", "conn:A", "credit", 5, 10)),
        (0, Edge("conn:B", "store:/", "credit", 0, 10)),
    ]
    found = by_columns(edges)
    assert found == {
        (0, BlameKey("conn:A", "chan:A/1", CYCLE, "conn:A → chan:A/1")): 10,
        (0, BlameKey("chan:A/1", "conn:A", CYCLE, "chan:A/1 → conn:A")): 5,
        (0, BlameKey("conn:B", "store:/", "disk", "conn:B → store:/")): 10,
    }


def test_a_way_that_is_no_part_of_the_cycle_is_followed_to_its_end() -> None:
    edges = [
        (0, Edge("conn:A", "chan:A/1", "credit", 0, 10)),
        (0, Edge("chan:A/1", "conn:A", "credit", 0, 10)),
        (0, Edge("chan:A/1", "store:/", "credit", 0, 10)),
        (0, Edge("conn:B", "chan:A/1", "credit", 0, 4)),
    ]
    found = {(key.victim, key.root, key.cause): ns for (_, key), ns in by_columns(edges).items()}
    assert found == {
        ("conn:A", "chan:A/1", CYCLE): 10,
        ("chan:A/1", "conn:A", CYCLE): 5,
        ("chan:A/1", "store:/", "disk"): 5,
        ("conn:B", "chan:A/1", CYCLE): 4,
    }
