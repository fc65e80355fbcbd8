"""Blocks of lines to columns: the same as line by line, whatever the lines are."""

import io
import json
from pathlib import Path

import pytest

from penstock.spark.schema.formats import (
    SAMPLE_FIELDS,
    STATE_FIELDS,
    Header,
    TraceLine,
    event_header,
    header_of_traces,
)
from tests.spark.synthetic import World, write_world

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from penstock.spark.input import parse
from tests.spark.oracle_input import read_events, read_traces

ODD = (
    b'{"seq":1,"t":2,"kind":"gate_opened","actor":"a","peer":null,"amount":2.5}\n'
    b"\n"
    b'{"seq":2,"kind":"x","more":{"deep":[1]}}\n'
    b'{"seq":"three","t":true,"kind":"y","ready":4}\n'
    b"[1]\n"
    b'{"torn":\n'
    b'{"no":"kind"}\n'
)


def expected(directory: Path) -> list[tuple[object, ...]]:
    return sorted(
        (*one[:8], *(one.numbers.get(name, 0) for name in (*STATE_FIELDS, *SAMPLE_FIELDS)))
        for one in read_events(directory).events
    )


def found(data: bytes) -> tuple[list[tuple[object, ...]], int]:
    header = event_header(io.BytesIO(data))
    rows = [row for part in parse.event_tables(data, header, 7) for row in part.to_pylist()]
    names = ("boot_id", "seq", "t_ns", "kind", "actor", "peer", "reason", "amount")
    good = [row for row in rows if row["unreadable"] is None]
    assert all(row["batch"] == 7 for row in rows)
    values = sorted(
        tuple(row[name] for name in (*names, *STATE_FIELDS, *SAMPLE_FIELDS)) for row in good
    )
    return values, len(rows) - len(good)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_events_are_those_of_the_slow_reader(tmp_path: Path, is_damaged: bool) -> None:
    write_world(tmp_path, World(seed=3, damaged=is_damaged))
    data = next(tmp_path.glob("events-*.jsonl")).read_bytes()
    values, unreadable = found(data)
    assert sorted(set(values), key=str) == sorted(expected(tmp_path), key=str)
    assert unreadable == (1 if is_damaged else 0)


def test_odd_lines_are_what_the_slow_reader_makes_of_them(tmp_path: Path) -> None:
    header = json.dumps({"format": "penstock-events", "boot_id": "b"}).encode() + b"\n"
    (tmp_path / "events-b.jsonl").write_bytes(header + ODD)
    values, unreadable = found(header + ODD)
    assert values == expected(tmp_path)
    assert unreadable == read_events(tmp_path).unreadable_count == 2


@pytest.mark.parametrize(
    ("line", "is_readable"),
    [
        (b'{"seq":1,"t":2,"kind":"x","amount":9223372036854775807}', True),
        (b'{"seq":1,"t":2,"kind":"x","amount":9223372036854775808}', False),
        (b'{"seq":1,"t":2,"kind":"x","ready":-9223372036854775809}', False),
        (b'{"seq":1,"t":2,"kind":"x","more":9223372036854775808}', True),
        (b'{"seq":1,"t":2,"kind":"x","actor":"\\ud800"}', False),
        (b'{"seq":1,"t":2,"kind":"x","actor":"\\ud83d\\ude00"}', True),
        ('{"seq":1,"t":2,"kind":"x","actor":"a\u2028b"}'.encode(), True),
        (b'{"seq":1,\r"t":2,"kind":"x"}\r', True),
        (b'{"torn":' + b"[" * 100_000, False),
    ],
)
def test_a_value_that_no_table_can_hold_makes_a_line_unreadable_and_ends_nothing(
    tmp_path: Path, line: bytes, is_readable: bool
) -> None:
    """Beside a torn line, so that no block is read as a whole, and lines that are good."""
    header = json.dumps({"format": "penstock-events", "boot_id": "b"}).encode() + b"\n"
    data = header + b'{"seq":7,"t":8,"kind":"y"}\n' + line + b'\n{"torn":\n'
    (tmp_path / "events-b.jsonl").write_bytes(data)
    values, unreadable = found(data)
    plain = read_events(tmp_path)
    assert values == expected(tmp_path)
    assert len(values) == 1 + is_readable
    assert unreadable == plain.unreadable_count == 2 - is_readable


def test_a_time_that_no_table_can_hold_makes_a_line_of_a_trace_unreadable(tmp_path: Path) -> None:
    data = b'{"id":"a","t":9223372036854775808}\n{"id":"\\ud800"}\n{"id":"b","t":3}\n'
    (tmp_path / "trace-a.jsonl").write_bytes(data)
    rows = [row for part in parse.message_tables(data, Header(), 0) for row in part.to_pylist()]
    assert [row["message_id"] for row in rows if row["unreadable"] is None] == ["b"]
    plain = read_traces(tmp_path)
    assert ([line.message_id for line in plain.lines], plain.unreadable_count) == (["b"], 2)


def test_traces_are_those_of_the_slow_reader(tmp_path: Path) -> None:
    write_world(tmp_path, World(seed=4))
    rows = [
        tuple(row[name] for name in TraceLine._fields)
        for path in sorted(tmp_path.glob("trace-*.jsonl"))
        for part in parse.message_tables(path.read_bytes(), header_of_traces(tmp_path), 0)
        for row in part.to_pylist()
    ]
    assert rows == [tuple(line) for line in read_traces(tmp_path).lines]
