"""The first page of a record."""

from itertools import pairwise

from penstock.explain.summary import TimeSlice, columns, draw, summary
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.record_file import FlightRecord
from tests.unit.explain.scene import S, actor, held, scene
from tests.unit.telemetry.records import WALL_NS, flight, header, record

PAGE = """\
node vm   penstock 0.1.0   profile penstock   taken 2023-11-14 22:13:20 UTC (memory alarm)
covers 22:12:21 to 22:13:20 (59.0 s)   1 connections, 1 queues   3 events, 7 older ones had been \
dropped

 top causes   1) the consumers of queue /q: 100 % of all blocked time (20.0 s; hits 1 connection)
                 prefetch window full 100 %: an ack comes 1.4 s after its delivery; \
20 in flight ÷ 1.4 s = 14/s
 alarms       22:12:50 to 22:12:55 (5.0 s)  the memory alarm: 2.0 of 1.9 GB

UTC                          22:12:21    22:12:33    22:12:45    22:12:57    22:13:09
web-7                        ───────────────────▒▒▒"""


def test_the_page() -> None:
    text = summary(record(60), 100)
    assert text.splitlines()[:6] == PAGE.splitlines()[:6]
    lanes = text.splitlines()[7:]
    assert lanes[0].startswith("UTC") and "22:12:21" in lanes[0]
    found = {lane.split("  ")[0]: lane for lane in lanes}
    assert found["web-7"].split()[1] == "─" * 19 + "▒" * 40
    assert "▓▓▓▓▓" in found["the memory alarm"] and "▓" * 6 not in found["the memory alarm"]
    assert "▒ consumer" in text and "▓ alarm" in text and "(a column is 1 s)" in text


def test_it_fits_the_terminal() -> None:
    for width in (60, 80, 200):
        lanes = summary(record(60), width).splitlines()[7:]
        assert max(len(lane) for lane in lanes) <= width


def test_an_empty_record_says_so() -> None:
    text = summary(FlightRecord(header(5), FlightHistory(), [], 3, 4), 80)
    assert "covers nothing" in text and "no connection was blocked" in text
    assert "no two rounds" in text and "left out for size: 4 events, 3 actors" in text


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


def column(second: int, *actors: object) -> TimeSlice:
    return TimeSlice(second * S, (second + 1) * S, scene(*actors))  # type: ignore[arg-type]


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
    said = "no connection or queue was throttled in all this time"
    assert draw([column(0, actor("conn:a"))], 0, 80) == [said]
