"""Blocks of lines are read as the rules read them line by line, whatever is done to one of them."""

import json

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spark.input import parse
from penstock.spark.schema.formats import Header

FORMS = (
    ("seq", "t", "kind", "actor", "peer", "reason", "amount"),
    ("seq", "t", "kind", "actor", "idle_ns", "busy_ns"),
    ("seq", "kind"),
    ("kind", "seq", "actor"),
)
TEXTS = frozenset({"kind", "actor", "peer", "reason"})

texts = st.sampled_from(
    ("", "a", "queue:/q", "conn:10.0.0.1:5/1", 'q"', "\\", "é", "\u2028", "{,}")
)
numbers = st.one_of(
    st.integers(0, 99),
    st.sampled_from((10**7, 10**8 - 1, 10**8, 10**16 + 5, 10**18 - 1, 10**18, 2**63 - 1, -1)),
)


@st.composite
def line(draw: st.DrawFn) -> bytes:
    form = draw(st.sampled_from(FORMS))
    usual = draw(st.booleans())
    fields = {
        name: draw(st.just("usual") if usual else texts)
        if name in TEXTS
        else draw(st.integers(0, 10**12) if usual else numbers)
        for name in form
    }
    is_ascii = draw(st.booleans())
    separators = (",", ":") if usual or draw(st.booleans()) else (", ", ": ")
    text = json.dumps(fields, separators=separators, ensure_ascii=is_ascii)
    return text.encode() + b"\n"


@st.composite
def block(draw: st.DrawFn) -> bytes:
    data = b"".join(draw(st.lists(line(), min_size=1, max_size=25)))
    at = draw(st.integers(0, len(data)))
    removed = draw(st.integers(0, 2))
    return data[:at] + draw(st.sampled_from((b"", b"", *ODD))) + data[at + removed :]


ODD = (
    b'"',
    b"\\",
    b"0",
    b"-",
    b".",
    b" ",
    b"\n",
    b"\r\n",
    b"}",
    b"x",
    b"\x01",
    b"\xff",
    b",",
    b"7" * 9,
)


def rows(data: bytes) -> list[str]:
    parts = parse.event_tables(data, Header("b", "n"), 1)
    return sorted(repr(row) for part in parts for row in part.to_pylist())


@settings(max_examples=200, deadline=None)
@given(block())
def test_the_events_are_those_of_the_rules_line_by_line(data: bytes) -> None:
    found = rows(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parse, "_parsed", lambda *given: None)
        assert found == rows(data)


@pytest.mark.parametrize("odd", [b"", b'{"seq":7,"kind":"new","ready":4}\n', b'{"seq":8,\n'])
def test_samples_among_many_others_are_parsed_apart(odd: bytes) -> None:
    gate = b'{"seq":%d,"t":1,"kind":"gate_opened","actor":"chan:A","amount":%d}\n'
    sample = b'{"seq":1,"t":2,"kind":"queue_sample","actor":"queue:/q","ready":3}\n'
    lines = [gate % (at, at) for at in range(100)]
    data = b"".join([b'{"format":"penstock-events"}\n', *lines, sample, sample, odd, *lines])
    found = rows(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parse, "_parsed", lambda *given: None)
        assert found == rows(data)


def test_events_of_a_kind_lie_together() -> None:
    lines = [
        b'{"seq":%d,"t":1,"kind":"%s","actor":"chan:A","amount":%d}\n' % (at, kind, at)
        for at in range(20)
        for kind in (b"gate_opened", b"gate_closed")
    ]
    header = b'{"format":"penstock-events","boot_id":"b"}\n'
    parts = parse.event_tables(b"".join([header, *lines]), Header("b", "n"), 1)
    assert [set(part["kind"].to_pylist()) for part in parts] == [{"gate_opened"}, {"gate_closed"}]
    assert [part["seq"].to_pylist() for part in parts] == [list(range(20))] * 2
