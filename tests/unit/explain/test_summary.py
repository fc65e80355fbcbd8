"""The first page of a record."""

from penstock.explain.summary import summary
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.record_file import FlightRecord
from tests.unit.telemetry.records import header, record

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
