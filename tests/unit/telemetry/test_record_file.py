"""Flight records: what is written is read back, and what is damaged is refused with words."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.explain.asking import Question, ask_why
from penstock.explain.summary import summary
from penstock.telemetry.events import Event
from penstock.telemetry.record_file import (
    Encoder,
    RecordError,
    decode_record,
    snapshot_of,
    snapshot_plain,
)
from penstock.telemetry.snapshots import ActorSnapshot, BlockedTotals, BlockTotals, Times
from tests.unit.explain.scene import S
from tests.unit.telemetry.records import EVENTS, flight, header, lines, record

FIXTURES = Path(__file__).parents[2] / "fixtures"


def test_a_record_comes_back_as_it_was() -> None:
    history = flight(90)
    read = record(90)
    assert read.header == header(90)
    assert [event.plain() for event in read.events] == [event.plain() for event in EVENTS]
    assert (read.left_out_actors, read.left_out_events) == (0, 0)
    for window_s in (1, 10, 60, 80, 600):
        for until_ns in (None, 70 * S, 24 * S, 5 * S):
            assert dict(read.history.over(window_s, until_ns)) == dict(
                history.over(window_s, until_ns)
            )
    assert read.wall_at(80 * S) == header(90).wall_ns - 10 * S


def test_it_reaches_back_as_far_as_was_asked() -> None:
    read = record(90, last_s=30.0)
    assert read.history.fine.rounds() == [second * S for second in range(60, 91)]
    assert read.history.oldest_ns() == 60 * S
    assert read.events == [], "all of them were before"
    assert dict(read.history.over(10)) == dict(flight(90).over(10))
    assert "conn:short" not in dict(read.history.fine.trails())


MANY = [Event(n, 80 * S + n, 0, "conn:a", "queue:/q", "credit", 0) for n in range(1234)]


def test_events_come_in_order_however_many_pieces_they_were_written_in() -> None:
    encoder = Encoder(header(90), flight(90), MANY)
    read = decode_record(b"".join(encoder.pieces()).splitlines())
    assert [event.seq for event in read.events] == list(range(1234))


def test_what_does_not_fit_is_left_out_and_counted() -> None:
    encoder = Encoder(header(90), flight(90), MANY)
    written = []
    for piece in encoder.pieces():
        written.append(piece)
        encoder.is_full = piece.startswith(b'{"seq"')
    read = decode_record(b"".join(written).splitlines())
    assert read.left_out_events == 734
    assert [event.seq for event in read.events] == list(range(734, 1234)), "the newest are kept"
    encoder = Encoder(header(90), flight(90), MANY)
    encoder.is_full = True
    read = decode_record(b"".join(encoder.pieces()).splitlines())
    assert read.left_out_actors > 0 and read.left_out_events == 1234
    assert read.history.over(10) == {}


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda rows: [], "empty"),
        (lambda rows: rows[:-1], "ends before its last line"),
        (lambda rows: [b"{}", *rows[1:]], "not a flight record"),
        (lambda rows: [b"\xff", *rows[1:]], "line 1 is not JSON"),
        (lambda rows: [b"[]", *rows[1:]], "not a JSON object"),
        (lambda rows: [rows[0].replace(b'"version":1', b'"version":2'), *rows[1:]], "version 2"),
        (lambda rows: [rows[0].replace(b'"node"', b'"mode"'), *rows[1:]], "header is damaged"),
        (lambda rows: [*rows[:2], rows[2][:40], *rows[3:]], "line 3 is not JSON"),
        (lambda rows: [*rows[:2], b'{"actor":"conn:a"}', *rows[3:]], "line 3 is damaged"),
        (lambda rows: [*rows[:2], b'{"actor":"a","gone":null,"changes":[]}'], "line 3 is damaged"),
        (
            lambda rows: [
                *rows[:2],
                b'{"actor":"a","gone":null,"changes":[[2,{"times":"x"}]]}',
            ],
            "line 3 is damaged",
        ),
        (
            lambda rows: [*rows[:2], b'{"actor":"a","gone":null,"changes":[[1e999,{}]]}'],
            "line 3 is damaged",
        ),
        (lambda rows: [*rows[:2], b"[" * 100_000, *rows[3:]], "line 3 is not JSON"),
        (lambda rows: [*rows[:2], b'{"end":true,"left_out_actors":"some"}'], "line 3 is damaged"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused(spoil, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RecordError, match=words):
        decode_record(spoil(lines(30)))


def test_the_file_of_version_1_is_still_read() -> None:
    """Written once by version 1 and never again: what it answers must not change."""
    rows = (FIXTURES / "record-version-1.jsonl").read_bytes().splitlines()
    read = decode_record(rows)
    assert read.header == header(90)
    answer = ask_why(read.history, Question("connection", "web-7"))
    assert answer.exit_status == 3
    assert "web-7 (10.0.0.1:5000, user shop) was blocked 50 % of the last 10 s" in answer.text
    assert "shop" in json.dumps(answer.explanation)
    assert "alarm" in summary(read, 100)


def test_unknown_fields_are_passed_over() -> None:
    rows = lines(30)
    rows[0] = rows[0].replace(b'"format"', b'"later":[1],"format"')
    rows.insert(1, b'{"something":"else"}')
    assert decode_record(rows).header == header(30)


WHOLE = st.integers(-1, 2**62)
NUMBERS = st.dictionaries(st.text(max_size=9), st.floats(allow_nan=False, allow_infinity=False))
BLOCKS = st.builds(
    BlockTotals, st.text(), st.text(), WHOLE, WHOLE, WHOLE, WHOLE, st.none() | WHOLE, WHOLE
)
SNAPSHOTS = st.builds(
    ActorSnapshot,
    st.sampled_from(["conn:a", "queue:/q", "node"]),
    st.sampled_from(["conn", "queue", "alarm"]),
    st.text(max_size=5),
    WHOLE,
    st.builds(Times, WHOLE, WHOLE, WHOLE, WHOLE),
    st.builds(
        BlockedTotals,
        WHOLE,
        WHOLE,
        WHOLE,
        st.none() | WHOLE,
        st.lists(BLOCKS, max_size=3).map(tuple),
    ),
    NUMBERS,
    st.dictionaries(st.text(max_size=9), st.text(max_size=9)),
    WHOLE,
)


@given(SNAPSHOTS)
def test_there_and_back(snapshot: ActorSnapshot) -> None:
    plain = json.loads(json.dumps(snapshot_plain(snapshot)))
    assert snapshot_of(snapshot.actor, plain) == snapshot


def test_what_is_empty_takes_no_room() -> None:
    assert snapshot_plain(ActorSnapshot("conn:a", "conn")) == {}
    assert snapshot_of("conn:a", {}) == ActorSnapshot("conn:a", "conn")


@pytest.mark.parametrize(
    "plain",
    [{"times": [1, 2]}, {"times": 1}, {"times": [1, 2, 3, "4"]}, {"numbers": []},
     {"numbers": {"a": "b"}}, {"blocked": [1]}, {"blocked": [1, 2, 3, None, [[1]]]},
     {"started_ns": "x"}],
)  # fmt: skip
def test_what_is_no_snapshot_is_refused(plain: dict[str, object]) -> None:
    if plain == {"times": [1, 2]}:
        assert snapshot_of("conn:a", plain).times == Times(1, 2)
        return
    with pytest.raises((TypeError, ValueError, msgspec.ValidationError)):
        snapshot_of("conn:a", plain)
