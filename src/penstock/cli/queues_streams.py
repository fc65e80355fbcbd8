"""The streams in `penstock queues`: a table of their own, since they have other things to show."""

from typing import Final

from penstock.cli.tables import Cell, Column
from penstock.telemetry.words import amount, size

RED: Final = "bold red"
YELLOW: Final = "yellow"
STYLES: Final = {"full": RED, "deep": RED, "damaged": RED, "paused": YELLOW}
STREAM_COLUMNS: Final = (
    Column("STREAM", is_name=True),
    Column("STATE"),
    Column("OFFSETS", is_number=True),
    Column("SEGMENTS", is_number=True),
    Column("SIZE", is_number=True),
    Column("CONSUMERS", is_number=True),
    Column("LAG", is_number=True),
    Column("IN/S", is_number=True),
    Column("OUT/S", is_number=True),
    Column("RULES", is_prose=True),
    Column("GROUPS", is_prose=True),
    Column("POLICIES", is_prose=True),
)
_COLUMNS_OF_THEIR_OWN: Final = frozenset({"queue-type", "offsets", "segments", "lag", "groups"})


def is_stream(row: dict[str, object]) -> bool:
    """Whether a row of the broker's answer is a stream that has its log."""
    return "offsets" in _rules(row)


def stream_cells(row: dict[str, object]) -> list[Cell | str]:
    """The row of a stream, for STREAM_COLUMNS."""
    rules = _rules(row)
    segments, _, with_bytes = rules["segments"].partition(" with ")
    return [
        str(row["name"]),
        state_cell(row),
        rules["offsets"],
        segments,
        size(int(with_bytes.partition(" ")[0])),
        str(row["consumers"]),
        rules.get("lag", ""),
        amount(float(str(row["in_rate"]))),
        amount(float(str(row["out_rate"]))),
        ", ".join(
            f"{name} {size(int(text)) if name == 'max-length-bytes' else text}"
            for name, text in rules.items()
            if name not in _COLUMNS_OF_THEIR_OWN
        ),
        rules.get("groups", ""),
        policies(row),
    ]


def state_cell(row: dict[str, object]) -> Cell:
    """The state of any queue, red where it takes nothing."""
    state = str(row["state"])
    return Cell(state, STYLES.get(state, ""))


def policies(row: dict[str, object]) -> str:
    """The policies any queue goes by."""
    return ", ".join(str(row[key]) for key in ("policy", "operator_policy") if row[key])


def _rules(row: dict[str, object]) -> dict[str, str]:
    rules = row["rules"]
    assert isinstance(rules, dict), "the broker answers so"
    return rules
