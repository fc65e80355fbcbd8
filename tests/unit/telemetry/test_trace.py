"""Event files: what is written is read back, and a broken line is named."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry.events import (
    CONNECTION_SAMPLE,
    KIND_NAMES,
    QUEUE_SAMPLE,
    CountSample,
    Event,
    TimeSample,
)
from penstock.telemetry.trace import (
    TraceError,
    TraceHeader,
    decode_event,
    encode_events,
    encode_header,
)

FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "events-version-1.jsonl"
KINDS_OF_THE_FIXTURE = 15

NUMBERS = st.integers(-(2**70), 2**70)
# Names come from clients: quotes, line ends, controls and lone surrogates are all possible.
NAMES = st.text(st.characters(), max_size=12)
PLAIN = st.builds(
    Event, NUMBERS, NUMBERS, st.integers(0, len(KIND_NAMES) - 1), NAMES, NAMES, NAMES, NUMBERS
)
TIMES = st.builds(TimeSample, NUMBERS, NUMBERS, NAMES, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
COUNTS = st.builds(
    CountSample,
    NUMBERS,
    NUMBERS,
    st.sampled_from([QUEUE_SAMPLE, CONNECTION_SAMPLE]),
    NAMES,
    *[NUMBERS] * 8,
)
EVENTS = st.lists(st.one_of(PLAIN, TIMES, COUNTS), max_size=8)
HEADER_FIELDS = ("node", "boot_id", "wall_ns", "mono_ns", "penstock")


def plain(events: list[Event]) -> list[dict[str, int | str]]:
    return [event.plain() for event in events]


@given(EVENTS)
def test_what_is_written_is_read_back(events: list[Event]) -> None:
    lines = encode_events(events).splitlines()
    assert plain([decode_event(line) for line in lines]) == plain(events)


@given(EVENTS)
def test_a_line_is_the_plain_event_as_json(events: list[Event]) -> None:
    lines = encode_events(events).split(b"\n")
    assert lines.pop() == b""
    assert [json.loads(line) for line in lines] == plain(events)


@given(NAMES, NAMES, NUMBERS, NUMBERS, NAMES)
def test_a_header_is_read_back(
    node: str, boot_id: str, wall_ns: int, mono_ns: int, version: str
) -> None:
    line = encode_header(TraceHeader(node, boot_id, wall_ns, mono_ns, version))
    assert line.count(b"\n") == 1
    fields = json.loads(line)
    assert [fields.pop(name) for name in ("format", "version")] == ["penstock-events", 1]
    assert fields == {
        "node": node, "boot_id": boot_id, "wall_ns": wall_ns, "mono_ns": mono_ns,
        "penstock": version,
    }  # fmt: skip


@given(st.binary(max_size=60))
def test_garbage_is_refused_by_name(line: bytes) -> None:
    with pytest.raises(TraceError, match="line 7 "):
        decode_event(line, 7)


def test_the_file_of_version_1_is_still_read() -> None:
    data = FIXTURE.read_bytes()
    first, *lines = data.splitlines(keepends=True)
    fields = json.loads(first)
    header = TraceHeader(*(fields[name] for name in HEADER_FIELDS))
    assert (header.node, header.boot_id, header.penstock) == ("a@host", "5f0c2a", "0.1.0")
    events = [decode_event(line) for line in lines]
    # The kinds there were when it was written: later ones are appended.
    assert {event.kind for event in events} == set(range(KINDS_OF_THE_FIXTURE))
    assert encode_header(header) + encode_events(events) == data
    assert [event.seq for event in events] == [*range(12), 20, 21, 22]
    assert header.wall_at(events[0].t_ns) == header.wall_ns + 1_000


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "it is not JSON"),
        (b'{"seq":1', "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b"[1]", "it is not a JSON object"),
        (b'{"kind":"gone"}', "no event is called 'gone' in version 1"),
        (b'{"kind":7}', '"kind" is missing or not a string'),
        (b'{"kind":"parked","seq":true}', '"seq" is missing or not a whole number'),
        (b'{"kind":"parked","seq":1.5}', '"seq" is missing or not a whole number'),
        (b'{"kind":"parked","seq":1,"t":2}', '"actor" is missing or not a string'),
        (
            b'{"kind":"time_sample","seq":1,"t":2,"actor":"a","idle_ns":1}',
            '"busy_ns" is missing or not a whole number',
        ),
    ],
)
def test_a_broken_line_is_named_with_its_number_and_fault(line: bytes, why: str) -> None:
    with pytest.raises(TraceError) as refused:
        decode_event(line, 3)
    assert str(refused.value) == f"line 3 of the event file cannot be read: {why}"


def test_unknown_fields_are_passed_over() -> None:
    line = b'{"seq":1,"t":2,"kind":"parked","actor":"a","peer":"b","reason":"c","amount":3,"x":[]}'
    assert decode_event(line).plain() == Event(1, 2, 13, "a", "b", "c", 3).plain()


def test_a_line_without_a_number_is_still_refused_in_words() -> None:
    with pytest.raises(TraceError, match=r"^a line of events cannot be read: it is not JSON$"):
        decode_event(b"nonsense")
