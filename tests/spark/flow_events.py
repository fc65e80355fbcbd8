"""Flow events as the oracle of the tables and the tests have them: one object a line."""

from typing import NamedTuple

from penstock.spark.schema.formats import (
    SAMPLE_FIELDS,
    STATE_FIELDS,
    Header,
    Json,
    number_in,
    text_in,
    time_in,
)


class FlowEvent(NamedTuple):
    """One line of an event file. `numbers`: the cumulative or sampled fields, 0 when absent."""

    boot_id: str
    seq: int
    t_ns: int
    kind: str
    actor: str
    peer: str
    reason: str
    amount: int
    numbers: dict[str, int]
    node: str = ""


def event_from_fields(header: Header, fields: dict[str, Json]) -> FlowEvent:
    """One line of an event file; what is missing or of another type is empty or 0."""
    numbers: dict[str, int] = {
        name: number_in(fields, name) for name in (*STATE_FIELDS, *SAMPLE_FIELDS) if name in fields
    }
    return FlowEvent(
        header.boot_id,
        number_in(fields, "seq"),
        time_in(fields, header.offset_ns),
        text_in(fields, "kind"),
        text_in(fields, "actor"),
        text_in(fields, "peer"),
        text_in(fields, "reason"),
        number_in(fields, "amount"),
        numbers,
        header.node,
    )
