"""Which columns rows have, and their types.

Without Arrow and numpy until their types are asked for: a fresh process that only has to say what
is wrong with an option is there in half of the time.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

PROPERTY_FIELDS: Final = (
    ("content_type", "STRING"),
    ("content_encoding", "STRING"),
    ("delivery_mode", "INT"),
    ("priority", "INT"),
    ("correlation_id", "STRING"),
    ("reply_to", "STRING"),
    ("expiration", "STRING"),
    ("message_id", "STRING"),
    ("timestamp", "TIMESTAMP"),
    ("type", "STRING"),
    ("user_id", "STRING"),
    ("app_id", "STRING"),
)
_PROPERTIES_DDL: Final = ", ".join(f"{name}: {kind}" for name, kind in PROPERTY_FIELDS)
COLUMNS: Final[dict[str, str]] = {
    "body": "BINARY",
    "queue": "STRING",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "exchange": "STRING",
    "routing_key": "STRING",
    "redelivered": "BOOLEAN",
    "properties": f"STRUCT<{_PROPERTIES_DDL}>",
    "headers": "MAP<STRING, STRING>",
    "enqueue_ts": "TIMESTAMP",
}
"""All of them in order, with their types as Spark reads them."""


@cache
def arrow_types() -> dict[str, Any]:
    """The types of COLUMNS as Arrow has them."""
    import pyarrow as pa

    simple: dict[str, Any] = {
        "BINARY": pa.binary(),
        "STRING": pa.string(),
        "BIGINT": pa.int64(),
        "INT": pa.int32(),
        "BOOLEAN": pa.bool_(),
        "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    }
    nested: dict[str, Any] = {
        "properties": pa.struct([pa.field(name, simple[kind]) for name, kind in PROPERTY_FIELDS]),
        "headers": pa.map_(pa.string(), pa.string()),
    }
    return {name: nested.get(name) or simple[kind] for name, kind in COLUMNS.items()}


@dataclass(frozen=True, slots=True)
class Shape:
    """Which columns rows have. queue: the value of that column, the name of queue or stream;
    chosen: which of them are kept, by the names they have here; none for all."""

    queue: str
    body_column: str = "body"
    has_properties: bool = False
    has_headers: bool = False
    has_flow: bool = False
    chosen: tuple[str, ...] = ()

    def kept(self) -> tuple[str, ...]:
        """The columns in order, by their names here, where the body is `body`."""
        asked = {
            "properties": self.has_properties,
            "headers": self.has_headers,
            "enqueue_ts": self.has_flow,
        }
        return tuple(
            name
            for name in COLUMNS
            if asked.get(name, True) and (not self.chosen or name in self.chosen)
        )

    def types(self) -> dict[str, str]:
        """The columns in order, by their names in rows, with their types as Spark reads them."""
        return {self.body_column if name == "body" else name: COLUMNS[name] for name in self.kept()}

    def ddl(self) -> str:
        """The schema as Spark reads it."""
        return ", ".join(
            f"`{name.replace('`', '``')}` {kind}" for name, kind in self.types().items()
        )

    def arrow(self) -> Any:
        """The same schema as Arrow has it; Spark compares it to the letter."""
        import pyarrow as pa

        kinds = [arrow_types()[name] for name in self.kept()]
        return pa.schema(list(zip(self.types(), kinds, strict=True)))
