"""Files that a disk or a hand has damaged: what they are read as, before any line of them is."""

from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.spark.schema.formats import (
    LIVES_MAX,
    BrokerLife,
    Header,
    event_header,
    header_of_traces,
    read_brokers,
    read_run,
)

FIRST = b'{"format":"penstock-events","node":"n","boot_id":"b","wall_ns":%d,"mono_ns":%d}\n'
DEEP = b'{"a":' * 60_000 + b"\n"


@pytest.mark.parametrize("line", [b'{"node":"\xff","boot_id":""}\n', DEEP, b"\xff\n", b"[]\n", b""])
def test_a_first_line_that_is_no_header_ends_nothing(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "events-a.jsonl").write_bytes(line)
    (tmp_path / "events-b.jsonl").write_bytes(FIRST % (30, 10))
    assert read_brokers(tmp_path) == (BrokerLife("n", "b", 30, 10),)
    assert header_of_traces(tmp_path) == Header("", "n", 20)


def test_readings_of_clocks_that_cannot_be_leave_times_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "events-a.jsonl"
    path.write_bytes(FIRST % ((1 << 63) - 1, -5))
    with path.open("rb") as file:
        assert event_header(file) == Header("b", "n", 0)


@pytest.mark.parametrize("text", [b'{"messages":["\xff"]}', DEEP, b"\xff\xfe", b"{", b""])
def test_a_damaged_description_of_a_run_is_named(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "run.json").write_bytes(text)
    with pytest.raises(OperatorError, match=r"is not a run description .*delete it"):
        read_run(tmp_path)


def test_traces_keep_their_clock_when_a_later_broker_has_another(tmp_path: Path) -> None:
    """Lines of one message may be read before and after it has started."""
    (tmp_path / "events-b.jsonl").write_bytes(FIRST % (1_000, 100))
    first = header_of_traces(tmp_path)
    # Set back by 50 ns in between.
    (tmp_path / "events-a.jsonl").write_bytes(FIRST % (2_000, 1_150))
    assert header_of_traces(tmp_path) == first == Header("", "n", 900)


def test_the_brokers_that_are_told_are_the_last_ones(tmp_path: Path) -> None:
    """Of a directory with more than may be told; their boots, which name files, are random."""
    for number in range(LIVES_MAX + 5):
        path = tmp_path / f"events-{(number * 7 + 3) % (LIVES_MAX + 5):02}.jsonl"
        path.write_bytes(FIRST % (1_000 + number, 5))
    walls = [one.wall_ns for one in read_brokers(tmp_path)]
    assert walls == [1_005 + number for number in range(LIVES_MAX)]
