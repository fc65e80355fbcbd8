"""Lines of event files and traces to Arrow tables: what a task does with a range of bytes.

A block of good lines is parsed by Arrow as a whole, one with a bad line is parsed line by line by
the rules of `formats.py`, and what cannot be read is kept as text.
"""

import io
import json
from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from penstock.spark.formats import (
    EVENT_FORMAT,
    SAMPLE_FIELDS,
    STATE_FIELDS,
    Json,
    event_from_fields,
    trace_from_fields,
)

UNREADABLE: Final = "unreadable"
UNREADABLE_CHARACTERS: Final = 500

_TEXTS: Final = ("kind", "actor", "peer", "reason")
_NUMBERS: Final = ("amount", *STATE_FIELDS, *SAMPLE_FIELDS)
_TRACE_TEXTS: Final = ("stage", "client", "queue", "phase")


def _fields(texts: tuple[str, ...], numbers: tuple[str, ...]) -> list[pa.Field]:
    return [pa.field(name, pa.string()) for name in texts] + [
        pa.field(name, pa.int64()) for name in numbers
    ]


EVENTS: Final = pa.schema(
    _fields(("boot_id", "node"), ("seq", "t_ns"))
    + _fields(_TEXTS, _NUMBERS)
    + _fields((UNREADABLE,), ("batch",))
)
MESSAGES: Final = pa.schema(
    _fields(("message_id",), ("t_ns",))
    + _fields(_TRACE_TEXTS, ())
    + _fields((UNREADABLE,), ("batch",))
)

_EVENT_LINE: Final = pa.schema(_fields(("format", *_TEXTS), ("seq", "t", *_NUMBERS)))
_TRACE_LINE: Final = pa.schema(_fields(("id", *_TRACE_TEXTS), ("t",)))


def event_table(data: bytes, boot_id: str, node: str, batch: int) -> pa.Table:
    """The events of whole lines of an event file. Columns: EVENTS."""
    found = _parsed(data, _EVENT_LINE)
    if found is None:
        return _slowly(data, EVENTS, lambda fields: _event_row(fields, boot_id, node), batch)
    if found["kind"].null_count:
        found = found.filter(pc.is_valid(found["kind"]))
    columns = {
        "boot_id": pa.repeat(boot_id, len(found)),
        "node": pa.repeat(node, len(found)),
        "seq": _whole(found, "seq", 0),
        "t_ns": _whole(found, "t", 0),
        "kind": found["kind"],
        **{name: _whole(found, name, "") for name in _TEXTS[1:]},
        **{name: _whole(found, name, 0) for name in _NUMBERS},
    }
    return _table(EVENTS, columns, len(found), batch)


def message_table(data: bytes, boot_id: str, node: str, batch: int) -> pa.Table:
    """The stages of whole lines of a trace file. Columns: MESSAGES."""
    found = _parsed(data, _TRACE_LINE)
    if found is None:
        return _slowly(data, MESSAGES, _trace_row, batch)
    columns = {
        "message_id": _whole(found, "id", ""),
        "t_ns": _whole(found, "t", 0),
        **{name: _whole(found, name, "") for name in _TRACE_TEXTS},
    }
    return _table(MESSAGES, columns, len(found), batch)


def _parsed(data: bytes, schema: pa.Schema) -> pa.Table | None:
    options = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    blocks = arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
    try:
        return arrow_json.read_json(io.BytesIO(data), read_options=blocks, parse_options=options)
    except pa.ArrowInvalid:
        return None


def _whole(found: pa.Table, name: str, instead: str | int) -> pa.ChunkedArray:
    return pc.fill_null(found[name], instead)


def _table(schema: pa.Schema, columns: Mapping[str, object], count: int, batch: int) -> pa.Table:
    nothing = pa.nulls(count, pa.string())
    numbers = pa.repeat(batch, count)
    return pa.table({**columns, UNREADABLE: nothing, "batch": numbers}, schema=schema)


def _slowly(
    data: bytes,
    schema: pa.Schema,
    row_of: Callable[[dict[str, Json]], dict[str, object] | None],
    batch: int,
) -> pa.Table:
    rows: list[dict[str, object]] = []
    for line in data.decode("utf-8", "replace").splitlines():
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            rows.append({UNREADABLE: line[:UNREADABLE_CHARACTERS], "batch": batch})
            continue
        row = row_of(fields)
        if row is not None:
            rows.append({**row, "batch": batch})
    return pa.Table.from_pylist(rows, schema=schema)


def _event_row(fields: dict[str, Json], boot_id: str, node: str) -> dict[str, object] | None:
    if fields.get("format") == EVENT_FORMAT or "kind" not in fields:
        return None
    event = event_from_fields(boot_id, fields)
    numbers = {name: event.numbers.get(name, 0) for name in (*STATE_FIELDS, *SAMPLE_FIELDS)}
    named = event._asdict()
    del named["numbers"]
    return {**named, "node": node, **numbers}


def _trace_row(fields: dict[str, Json]) -> dict[str, object]:
    return trace_from_fields(fields)._asdict()
