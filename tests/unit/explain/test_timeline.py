"""Lanes of who was blocked when."""

from itertools import pairwise

from penstock.explain.summary import Column, columns, draw
from tests.unit.explain.scene import S, actor, held, scene
from tests.unit.telemetry.records import WALL_NS, flight


def test_columns_cover_the_history_and_are_no_more_than_asked_for() -> None:
    history = flight(50)
    found = columns(history, 100)
    assert [(one.start_ns, one.end_ns) for one in found] == [
        (second * S, (second + 1) * S) for second in range(1, 50)
    ]
    fewer = columns(history, 10)
    assert len(fewer) <= 10 and fewer[-1].end_ns == 50 * S
    assert all(a.end_ns == b.start_ns for a, b in pairwise(fewer))


def test_a_long_history_is_drawn_by_tens_of_seconds() -> None:
    found = columns(flight(400), 100)
    assert found[0].start_ns == 1 * S and found[-1].end_ns == 391 * S


def column(second: int, *actors: object) -> Column:
    return Column(second * S, (second + 1) * S, scene(*actors))  # type: ignore[arg-type]


def test_a_mark_for_every_cause() -> None:
    lanes = draw(
        [
            column(0, actor("conn:a")),
            column(1, actor("conn:a", (0, 0, 9, 1), held("alarm:memory", 9, "alarm"))),
            column(2, actor("conn:a", (0, 0, 9, 1), held("rate:x", 9, "rate"))),
            column(3, actor("conn:a", (0, 0, 9, 1), held("node", 9, "debt")), actor("node")),
            column(4, actor("conn:a", (0, 0, 9, 1), held("what", 9, "else"))),
            column(5),
            column(6, actor("conn:a", (99, 0, 1, 0), held("rate:x", 1, "rate"))),
        ],
        WALL_NS,
        80,
    )
    assert lanes[0] == "UTC  22:13:20"
    assert lanes[1].startswith("a  ─▓rdo ─")
    assert "r rate" in lanes[2] and "o other" in lanes[2]


def test_nothing_to_draw_is_said() -> None:
    assert draw([], 0, 80) == ["no two rounds were recorded, so there is no timeline"]
    assert draw([column(0, actor("conn:a"))], 0, 80) == ["nobody was throttled in all this time"]
