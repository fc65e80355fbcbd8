"""Lines that are alike are read as a parser of JSON reads them, whatever is done to one of them."""

import json
from itertools import count

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spark.input import like_lines, parse

NEVER = 10**9
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


def rows(data: bytes, few: int) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(like_lines, "FEW", few)
        parts = parse.event_tables(data, "b", "n", 1)
    return sorted(repr(row) for part in parts for row in part.to_pylist())


@settings(max_examples=50, deadline=None)
@given(block())
def test_the_events_are_those_that_a_parser_finds(data: bytes) -> None:
    assert rows(data, 2) == rows(data, NEVER)


def test_lines_of_a_broker_are_not_left_for_a_parser() -> None:
    lines = [
        b'{"seq":%d,"t":%d,"kind":"gate_opened","actor":"chan:A/%d","amount":%d}\n'
        % (at, 10**15 + at, at % 7, at * 1000)
        for at in range(200)
    ]
    header = b'{"format":"penstock-events","boot_id":"b"}\n'
    (found,), rest = like_lines.split(b"".join([header, *lines]), parse._EVENT_TYPES)
    assert found["seq"].to_pylist() == list(range(199)), "the last one has nothing behind it"
    assert rest == header + lines[-1]
    assert found["actor"].to_pylist()[:8] == [f"chan:A/{at % 7}" for at in range(8)]
    assert found["t"].to_pylist()[-1] == 10**15 + 198


def test_texts_that_hardly_repeat_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(like_lines, "SEVERAL", 10)
    numbers = count()
    lines = b"".join(b'{"kind":"%d","seq":1}\n' % next(numbers) for _ in range(100))
    assert like_lines.split(lines, parse._EVENT_TYPES) == ([], lines)
