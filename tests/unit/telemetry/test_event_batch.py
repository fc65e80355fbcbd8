"""Batches of events by the column: what is written is read back, and damage is told."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry.event_batch import HEAD, MAGIC, decode_batch, encode_batch, layout_of
from penstock.telemetry.events import (
    CONNECTION_SAMPLE,
    KIND_NAMES,
    QUEUE_SAMPLE,
    TIME_SAMPLE,
    CountSample,
    Event,
    TimeSample,
)
from penstock.telemetry.trace import TraceError, TraceHeader, encode_events, encode_header

HEADER = TraceHeader("node", "boot", 1_700_000_000 * 10**9, 5, "1.0")
NUMBERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SAMPLES = (TIME_SAMPLE, QUEUE_SAMPLE, CONNECTION_SAMPLE)
KINDS = st.sampled_from([kind for kind in range(len(KIND_NAMES)) if kind not in SAMPLES])
PLAIN = st.builds(Event, NUMBERS, NUMBERS, KINDS, TEXTS, TEXTS, TEXTS, NUMBERS)
TIMES = st.builds(TimeSample, NUMBERS, NUMBERS, TEXTS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
COUNTS = st.builds(
    CountSample, NUMBERS, NUMBERS, st.sampled_from(SAMPLES[1:]), TEXTS, *[NUMBERS] * 8
)
EVENTS = st.lists(st.one_of(PLAIN, TIMES, COUNTS), max_size=8)


@given(EVENTS)
def test_what_is_written_is_read_back(events: list[Event]) -> None:
    header, found = decode_batch(encode_batch(HEADER, events))
    assert [one.plain() for one in found] == [one.plain() for one in events]
    assert encode_header(header) == encode_header(HEADER)


def test_what_no_column_can_hold_comes_near() -> None:
    """Names come from clients, and half of a character is possible there."""
    odd = Event(2**70, -(2**70), 0, "conn:\ud800", "", "", 1)
    _, (found,) = decode_batch(encode_batch(HEADER, [odd]))
    assert (found.seq, found.t_ns, found.actor) == (2**63 - 1, -(2**63), "conn:?")


def test_it_takes_a_third_of_the_lines() -> None:
    events: list[Event] = []
    for number in range(500):
        names = (f"chan:127.0.0.1:{40_000 + number % 7}/1", "queue:/orders", "credit")
        events.append(Event(2 * number, 10**15 + number, number % 2, *names, 7))
        times = [10**12 + number] * 4
        events.append(TimeSample(2 * number + 1, 10**15 + number, names[0], *times))
    assert 3 * len(encode_batch(HEADER, events)) < len(encode_events(events))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no batch"),
        (b'{"format":"penstock-events","version":1}\n' * 3, "no batch"),
        (b"PSTKEV02" + bytes(HEAD.size), "version b'02'"),
        (encode_batch(HEADER, [Event(0, 0, 0, "a", "b", "c", 0)])[:-30], "too early"),
        (encode_batch(HEADER, [Event(0, 0, 0, "a", "b", "c", 0)])[:-1], "damaged"),
        (HEAD.pack(MAGIC, 0, 0, 0, 2, 0, 0) + bytes(12), "too early"),
    ],
)
def test_what_is_damaged_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        decode_batch(data)


def test_a_place_outside_the_names_is_damage() -> None:
    data = bytearray(encode_batch(HEADER, [Event(0, 0, 0, "a", "b", "c", 0)]))
    (actor,) = [one for one in layout_of(bytes(data)).sections if one.name == "actor"]
    struct.pack_into("<I", data, actor.at, 99)
    with pytest.raises(TraceError, match="damaged"):
        decode_batch(bytes(data))
