"""How far back new events reach: nothing that they can change began before.

It is read where the job runs, not in tasks: the new rows and what is open are little, and a task
takes longer to begin than this to end.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.input import parse
from penstock.spark.input.bronze import EVENTS
from penstock.spark.input.event_slice import SAMPLES
from penstock.spark.schema.coded import read
from penstock.spark.schema.schemas import FACTS
from penstock.spark.tables.store import TableStore

_SAMPLED: Final = ("boot_id", "actor", "kind")
_NEW: Final = pa.schema([parse.EVENTS.field(name) for name in (*_SAMPLED, "t_ns", "amount")])


def event_horizon(store: TableStore, known: int) -> int:
    """The earliest moment about which the events after batch `known` of bronze say something new,
    0 when nothing is known yet. Raises: OSError."""
    if known < 0:
        return 0
    is_new = pc.field("kind").is_valid() & (pc.field("batch") > known)
    new = _plain(read(store.files(EVENTS), _NEW, is_new), _NEW)
    held_ns = pc.max_element_wise(new["amount"], 0)
    is_end = pc.equal(new["kind"], "gate_opened")
    began = pc.if_else(is_end, pc.subtract(new["t_ns"], held_ns), new["t_ns"])
    sampled = new.filter(pc.is_in(new["kind"], pa.array(SAMPLES)))
    moments = [
        pc.min(began),
        _open_since(store, "silver/block_interval", pc.field("closed_by") == "end_of_data", new),
        _open_since(store, "silver/alarm_interval", pc.field("is_open"), new),
        _open_since(store, "silver/sample_step", pc.field("end_ns").is_null(), sampled, _SAMPLED),
    ]
    found = [one.as_py() for one in moments]
    return min((one for one in found if one is not None), default=0)


def _open_since(
    store: TableStore,
    name: str,
    is_open: pc.Expression,
    new: pa.Table,
    keys: Sequence[str] = ("boot_id",),
) -> pa.Scalar:
    """When the first of the rows that are open and have the keys of a new event began."""
    columns = pa.schema([FACTS[name].field(one) for one in (*keys, "start_ns")])
    rows = _plain(read(store.files(name), columns, is_open), columns)
    wanted = new.select(list(keys)).group_by(list(keys)).aggregate([])
    return pc.min(rows.join(wanted, list(keys), join_type="left semi")["start_ns"])


def _plain(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.cast(schema).combine_chunks()
