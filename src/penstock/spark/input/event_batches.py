"""Batches of events, as they lie in the broker's own stream, to Arrow tables.

The columns are there already: arrays are looked at where they are, and the names of a batch are the
dictionary of its texts. Which they are stands in `telemetry/event_batch.py`.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.input.parse import EVENTS, UNREADABLE, UNREADABLE_CHARACTERS
from penstock.spark.schema.arrow_columns import TEXT, coded_schema
from penstock.spark.schema.formats import SAMPLE_FIELDS, STATE_FIELDS
from penstock.telemetry.event_batch import Layout, layout_of
from penstock.telemetry.trace import TraceError

_SCHEMA: Final = coded_schema(EVENTS)
_TEXTS: Final = ("kind", "actor", "peer", "reason")
_SPARSE: Final = {"time rows": STATE_FIELDS, "count rows": SAMPLE_FIELDS}


def batches_to_tables(bodies: Iterable[bytes], batch: int) -> list[pa.Table]:
    """The events of `bodies`, a table a kind. Columns: EVENTS; a body that is no batch is a row
    that says so."""
    found = pa.concat_tables([_SCHEMA.empty_table(), *(_table(body, batch) for body in bodies)])
    found = found.unify_dictionaries().combine_chunks()
    kinds = pc.unique(found["kind"]).to_pylist()
    # As of files: whole columns of a kind are 0 then.
    return [
        found.filter(pc.is_null(found["kind"]) if kind is None else pc.equal(found["kind"], kind))
        for kind in kinds
    ]


def _table(body: bytes, batch: int) -> pa.Table:
    try:
        layout = layout_of(body)
        return _columns(body, layout, batch)
    except (TraceError, ValueError, IndexError, OverflowError, pa.ArrowInvalid) as fault:
        text = f"{len(body)} bytes: {fault}"[:UNREADABLE_CHARACTERS]
        return pa.Table.from_pylist([{UNREADABLE: text, "batch": batch}], EVENTS).cast(_SCHEMA)


def _columns(body: bytes, layout: Layout, batch: int) -> pa.Table:
    count = layout.events
    arrays = {
        one.name: np.frombuffer(body, "<i8" if one.is_wide else "<u4", one.count, one.at)
        for one in layout.sections
    }
    names = _names(body, layout.text_at, arrays["names"])
    columns: dict[str, pa.Array] = {
        "boot_id": _coded(np.ones(count, np.uint32), names),
        "node": _coded(np.zeros(count, np.uint32), names),
        **{name: pa.array(arrays[name]) for name in ("seq", "amount")},
        # Of the wall clock, as in tables of files.
        "t_ns": pa.array(arrays["t_ns"] + (layout.wall_ns - layout.mono_ns)),
        **{name: _coded(arrays[name], names) for name in _TEXTS},
        UNREADABLE: pa.nulls(count, TEXT),
        "batch": pa.repeat(batch, count),
    }
    for rows, fields in _SPARSE.items():
        for name in fields:
            column = np.zeros(count, np.int64)
            column[arrays[rows]] = arrays[name]
            columns[name] = pa.array(column)
    return pa.table({name: columns[name] for name in _SCHEMA.names}, schema=_SCHEMA)


def _names(body: bytes, text_at: int, offsets: np.ndarray) -> pa.Array:
    """Raises: ValueError, pa.ArrowInvalid for names that lie outside or are no text."""
    if np.any(offsets[1:] < offsets[:-1]) or text_at + int(offsets[-1]) > len(body):
        raise ValueError("a name lies outside of the batch")
    if int(offsets[-1]) >> 31:
        raise ValueError("more text than a batch has")
    text = pa.py_buffer(memoryview(body)[text_at:])
    places = pa.py_buffer(offsets.astype("<i4").tobytes())
    names = pa.StringArray.from_buffers(len(offsets) - 1, places, text)
    names.validate(full=True)
    return names


def _coded(codes: np.ndarray, names: pa.Array) -> pa.Array:
    if len(codes) and int(codes.max()) >= len(names):
        raise IndexError("a place outside of the names")
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), names)
