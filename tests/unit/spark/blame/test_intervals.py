"""Intervals from gate events: every way an interval can begin and end."""

from hypothesis import given
from hypothesis import strategies as st

from tests.spark.flow_events import FlowEvent
from tests.spark.oracle_blame import Edge
from tests.spark.oracle_input import missing_count
from tests.spark.oracle_intervals import (
    GateTracker,
    block_intervals,
    clip,
    members_of_groups,
    unattended_edges,
)


def event(
    seq: int,
    t_ns: int,
    kind: str,
    actor: str = "a",
    peer: str = "b",
    amount: int = 0,
    **numbers: int,
) -> FlowEvent:
    return FlowEvent("boot", seq, t_ns, kind, actor, peer, "r", amount, numbers)


def spans(*events: FlowEvent) -> list[tuple[int, int, str]]:
    return [(one.start_ns, one.end_ns, one.closed_by) for one in block_intervals(events)]


def test_a_close_and_an_open_make_an_interval() -> None:
    assert spans(event(1, 10, "gate_closed"), event(2, 30, "gate_opened", amount=20)) == [
        (10, 30, "gate_opened")
    ]


def test_the_end_of_an_actor_or_of_its_peer_ends_what_it_was_in() -> None:
    for gone in ("a", "b"):
        found = spans(
            event(1, 10, "gate_closed"),
            event(2, 25, "actor_down", gone, ""),
            event(3, 90, "actor_up", "x", ""),
        )
        assert found == [(10, 25, "actor_down")]


def test_what_is_still_closed_ends_with_the_data() -> None:
    assert spans(event(1, 10, "gate_closed"), event(2, 50, "actor_up", "x", "")) == [
        (10, 50, "end_of_data")
    ]


def test_a_repeated_close_does_not_start_again() -> None:
    assert spans(
        event(1, 10, "gate_closed"),
        event(2, 20, "gate_closed"),
        event(3, 30, "gate_opened", amount=20),
    ) == [(10, 30, "gate_opened")]


def test_an_open_whose_close_was_lost_tells_by_its_amount() -> None:
    assert spans(event(2, 30, "gate_opened", amount=20)) == [(10, 30, "gate_opened")]


def test_a_recovered_interval_does_not_reach_into_the_one_before() -> None:
    assert spans(
        event(1, 10, "gate_closed"),
        event(2, 20, "gate_opened", amount=10),
        event(4, 30, "gate_opened", amount=25),
    ) == [(10, 20, "gate_opened"), (20, 30, "gate_opened")]


def test_gates_that_are_closed_can_be_read_without_opening_them() -> None:
    tracker = GateTracker("boot")
    tracker.feed(event(1, 10, "gate_closed"))
    assert [one.end_ns for one in tracker.cut(15)] == [15]
    assert [one.start_ns for one in tracker.feed(event(2, 30, "gate_opened"))] == [10]


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 300)), max_size=10), st.integers(1, 90)
)
def test_clipping_keeps_every_nanosecond_and_crosses_no_border(
    found: list[tuple[int, int]],
    bucket_ns: int,
) -> None:
    edges = [Edge("a", "b", "r", start, start + length) for start, length in found]
    cut = clip(edges, bucket_ns)
    total = sum(edge.end_ns - edge.start_ns for part in cut.values() for edge in part)
    assert total == sum(length for _, length in found)
    for bucket, part in cut.items():
        assert all(bucket <= edge.start_ns < edge.end_ns <= bucket + bucket_ns for edge in part)


def test_a_queue_without_consumers_waits_for_nobody() -> None:
    samples = [
        event(seq, seq * 10, "queue_sample", "queue:/q", "", consumers=count)
        for seq, count in enumerate((1, 0, 0, 2), 1)
    ]
    assert [
        (one.actor, one.peer, one.start_ns, one.end_ns) for one in unattended_edges(samples)
    ] == [("consumers:/q", "nobody", 20, 30), ("consumers:/q", "nobody", 30, 40)]


def test_nobody_knows_who_consumed_between_a_queue_and_the_next_of_its_name() -> None:
    def sample(seq: int, t_ns: int) -> FlowEvent:
        return event(seq, t_ns, "queue_sample", "queue:/q", "", consumers=0)

    found = unattended_edges(
        [sample(1, 10), sample(2, 20), event(3, 900, "actor_up", "queue:/q", ""), sample(4, 910)]
    )
    assert [(one.start_ns, one.end_ns) for one in found] == [(10, 20)]


def test_consumers_are_known_from_events_that_name_them_with_their_queue() -> None:
    found = members_of_groups(
        [
            event(1, 1, "actor_up", "consumer:t@conn:W", "queue:/q"),
            event(2, 2, "gate_closed", "queue:/q", "consumer:s@conn:V"),
            event(3, 3, "gate_closed", "conn:A", "chan:A/1"),
        ]
    )
    assert found == {"consumers:/q": ("consumer:s@conn:V", "consumer:t@conn:W")}


def test_gaps_in_the_sequence_are_counted() -> None:
    assert missing_count((event(3, 1, "x"), event(4, 2, "x"), event(9, 3, "x"))) == 4
