"""Lines of event files and traces to Arrow tables: what a task does with a range of bytes.

Arrow parses a block of good lines as a whole. A block with a bad line is parsed line by line by the
rules of `formats.py`, and a line that cannot be read is kept as text. Texts become dictionaries,
because most of them repeat.
"""

import io
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from penstock.spark.schema.arrow_columns import TEXT, coded_schema, columns_of, repeated
from penstock.spark.schema.formats import (
    EVENT_FORMAT,
    SAMPLE_FIELDS,
    STATE_FIELDS,
    Header,
    Json,
    fields_of,
    number_in,
    text_in,
    time_in,
    trace_from_fields,
)

UNREADABLE: Final = "unreadable"
UNREADABLE_CHARACTERS: Final = 500

_TEXTS: Final = ("kind", "actor", "peer", "reason")
_NUMBERS: Final = ("amount", *STATE_FIELDS, *SAMPLE_FIELDS)
_TRACE_TEXTS: Final = ("stage", "client", "queue", "phase")


EVENTS: Final = pa.schema(
    columns_of(("boot_id", "node"), ("seq", "t_ns"))
    + columns_of(_TEXTS, _NUMBERS)
    + columns_of((UNREADABLE,), ("batch",))
)
MESSAGES: Final = pa.schema(
    columns_of(("message_id", "node"), ("t_ns",))
    + columns_of(_TRACE_TEXTS, ())
    + columns_of((UNREADABLE,), ("batch",))
)

_EVENT_NUMBERS: Final = ("seq", "t", *_NUMBERS)
_EVENT_LINE: Final = pa.schema(columns_of(_TEXTS, _EVENT_NUMBERS))
_GATE_LINE: Final = pa.schema(columns_of(_TEXTS, ("seq", "t", "amount")))
"""What all lines have but those of samples: every column that is missing costs time of its own."""

_TRACE_LINE: Final = pa.schema(columns_of(("id", *_TRACE_TEXTS), ("t",)))
_SAMPLE: Final = b'_sample"'
_HEAD: Final = b'{"format"'
_SAMPLE_BYTES: Final = 1_024
"""There is at most one sample for so many bytes, where samples are parsed apart."""


def event_tables(data: bytes, header: Header, batch: int) -> list[pa.Table]:
    """The events of whole lines of an event file, one table a kind. Columns: EVENTS."""
    found = _parsed_apart(data) or [_parsed(data, _EVENT_LINE)]
    if found[0] is None:
        slow = _slowly(data, EVENTS, lambda fields: _event_row(fields, header), batch)
        return [slow.cast(coded_schema(EVENTS))]
    return [_events(part, header, batch) for one in found for part in _by_kind(one)]


def _parsed_apart(data: bytes) -> list[pa.Table] | None:
    """Samples, which are few, apart from the others; None where they are many, or a line is
    damaged, or has more fields than its kind."""
    at = data.find(b"\n") + 1 if data.startswith(_HEAD) else 0
    others: list[bytes] = []
    sampled = [data[:at]]
    while (found := data.find(_SAMPLE, at)) >= 0:
        begin = max(at, data.rfind(b"\n", at, found) + 1)
        others.append(data[at:begin])
        at = data.find(b"\n", found) + 1 or len(data)
        sampled.append(data[begin:at])
        if len(sampled) * _SAMPLE_BYTES > len(data):
            return None
    others.append(data[at:])
    parts = [
        _parsed(block, schema, unexpected)
        for lines, schema, unexpected in (
            (others, _GATE_LINE, "error"),
            (sampled, _EVENT_LINE, "ignore"),
        )
        if (block := b"".join(lines))
    ]
    found_all = [part for part in parts if part is not None]
    return found_all if len(found_all) == len(parts) else None


def _by_kind(found: pa.Table) -> list[pa.Table]:
    """Events of one kind lie together, so that whole columns of a row group are 0 and take no room,
    and kinds that nobody asks for are not read. Texts become dictionaries before, as numbers are
    divided sooner than texts."""
    columns = [
        found[name].combine_chunks().dictionary_encode() if name in _TEXTS else found[name]
        for name in found.column_names
    ]
    coded = pa.table(columns, names=found.column_names)
    kinds = columns[found.column_names.index("kind")]
    return [coded.filter(pc.equal(kinds.indices, at)) for at in range(len(kinds.dictionary))]


def _events(found: pa.Table, header: Header, batch: int) -> pa.Table:
    count = len(found)
    nothing, no_text = pa.repeat(0, count), repeated("", count)
    known = {
        name: pc.fill_null(found[name], 0) if name in _EVENT_NUMBERS else _coded(found[name])
        for name in found.column_names
        if found[name].null_count < count
    }
    return pa.table(
        {
            "boot_id": repeated(header.boot_id, count),
            "node": repeated(header.node, count),
            "seq": known.get("seq", nothing),
            "t_ns": pc.add(known.get("t", nothing), header.offset_ns),
            **{name: known.get(name, no_text) for name in _TEXTS},
            **{name: known.get(name, nothing) for name in _NUMBERS},
            UNREADABLE: pa.nulls(count, TEXT),
            "batch": pa.repeat(batch, count),
        },
        schema=coded_schema(EVENTS),
    )


def _coded(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without nulls, and with those names alone that are there."""
    if texts.null_count:
        texts = pc.fill_null(texts.cast(pa.string()), "").dictionary_encode()
    return texts


def message_tables(data: bytes, header: Header, batch: int) -> list[pa.Table]:
    """The stages of whole lines of a trace file. Columns: MESSAGES."""
    found = _parsed(data, _TRACE_LINE)
    if found is None:
        slow = _slowly(
            data, MESSAGES, lambda fields: trace_from_fields(fields, header)._asdict(), batch
        )
        return [slow]
    columns = {
        "message_id": pc.fill_null(found["id"], ""),
        "node": pa.repeat(header.node, len(found)),
        "t_ns": pc.add(pc.fill_null(found["t"], 0), header.offset_ns),
        **{name: pc.fill_null(found[name], "") for name in _TRACE_TEXTS},
        UNREADABLE: pa.nulls(len(found), pa.string()),
        "batch": pa.repeat(batch, len(found)),
    }
    return [pa.table(columns, schema=MESSAGES)]


def _parsed(data: bytes, schema: pa.Schema, unexpected: str = "ignore") -> pa.Table | None:
    """A row a line; None for a damaged or an empty one, and, where `unexpected` is "error", for a
    field that `schema` lacks."""
    options = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
    blocks = arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
    try:
        # Arrow takes any bytes for text, and reading the text fails.
        if not data.isascii():
            data.decode()
        found = arrow_json.read_json(io.BytesIO(data), read_options=blocks, parse_options=options)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    # An object over several lines is one for Arrow, and so are several on one line.
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    return found if len(found) == lines else None


def _slowly(
    data: bytes,
    schema: pa.Schema,
    row_of: Callable[[dict[str, Json]], dict[str, object] | None],
    batch: int,
) -> pa.Table:
    rows: list[dict[str, object]] = []
    # Not `splitlines`, for which lines end at characters that texts may have in them.
    for line in io.TextIOWrapper(io.BytesIO(data), "utf-8", "replace", newline="\n"):
        if not line.strip():
            continue
        fields = fields_of(line)
        if fields is None:
            rows.append({UNREADABLE: line.rstrip("\n")[:UNREADABLE_CHARACTERS], "batch": batch})
            continue
        row = row_of(fields)
        if row is not None:
            rows.append({**row, "batch": batch})
    return pa.Table.from_pylist(rows, schema=schema)


def _event_row(fields: dict[str, Json], header: Header) -> dict[str, object] | None:
    if fields.get("format") == EVENT_FORMAT or "kind" not in fields:
        return None
    return {
        "boot_id": header.boot_id,
        "node": header.node,
        "seq": number_in(fields, "seq"),
        "t_ns": time_in(fields, header.offset_ns),
        **{name: text_in(fields, name) for name in _TEXTS},
        **{name: number_in(fields, name) for name in _NUMBERS},
    }
