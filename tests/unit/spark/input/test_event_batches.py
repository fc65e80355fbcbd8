"""Batches of events to columns: as the same events read from lines, and damage is a row."""

import struct

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.input.event_batches import batches_to_tables
from penstock.spark.input.parse import EVENTS, UNREADABLE, event_tables
from penstock.spark.schema.formats import Header
from penstock.telemetry.event_batch import encode_batch, layout_of
from penstock.telemetry.events import (
    ACTOR_UP,
    GATE_CLOSED,
    QUEUE_SAMPLE,
    CountSample,
    Event,
    TimeSample,
)
from penstock.telemetry.trace import TraceHeader, encode_events, encode_header

HEADER = TraceHeader("node", "boot", 10**18, 5, "1.0")
WHOSE = Header("boot", "node", 10**18 - 5)
NUMBERS = st.integers(0, 2**62)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
EVENT_LISTS = st.lists(
    st.one_of(
        st.builds(
            Event, NUMBERS, NUMBERS, st.sampled_from([GATE_CLOSED, ACTOR_UP]), NAMES, NAMES, NAMES,
            NUMBERS,
        ),
        st.builds(TimeSample, NUMBERS, NUMBERS, NAMES, *[NUMBERS] * 4),
        st.builds(CountSample, NUMBERS, NUMBERS, st.just(QUEUE_SAMPLE), NAMES, *[NUMBERS] * 8),
    ),
    max_size=6,
)  # fmt: skip


def rows(tables: list[pa.Table]) -> list[tuple[object, ...]]:
    found = [tuple(row.values()) for table in tables for row in table.to_pylist()]
    return sorted(found, key=repr)


@given(st.lists(EVENT_LISTS, max_size=3))
def test_they_have_the_rows_of_lines(lists: list[list[Event]]) -> None:
    found = batches_to_tables([encode_batch(HEADER, events) for events in lists], 7)
    lines = encode_header(HEADER) + b"".join(encode_events(events) for events in lists)
    # The header is a line that parsing gives no row of its own only line by line.
    expected = event_tables(lines.partition(b"\n")[2], WHOSE, 7) if any(lists) else []
    assert rows(found) == rows(expected)
    assert all(table.schema.names == EVENTS.names for table in found)
    assert all(len(set(table["kind"].to_pylist())) == 1 for table in found)


def test_what_is_damaged_is_a_row_and_the_rest_is_there() -> None:
    good = encode_batch(HEADER, [Event(3, 4, GATE_CLOSED, "a", "b", "c", 0)])
    wild = bytearray(good)
    (reason,) = [one for one in layout_of(good).sections if one.name == "reason"]
    struct.pack_into("<I", wild, reason.at, 77)
    odd = bytearray(good)
    odd[-1] = 0xFF
    early = TraceHeader("n", "b", (1 << 63) - 1, -1, "1")
    when = encode_batch(early, [Event(3, 4, GATE_CLOSED, "a", "b", "c", 0)])
    found = batches_to_tables([b"{}", good, good[:-1], bytes(wild), bytes(odd), when], 1)
    events = [row for row in rows(found) if "gate_closed" in row]
    damage = [text for table in found for text in table[UNREADABLE].to_pylist() if text]
    assert len(events) == 1 and len(damage) == 5
    assert any("no batch of flow events" in text for text in damage)
