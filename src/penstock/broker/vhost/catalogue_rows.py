"""What is kept of the topology, as plain rows: no objects of the broker, nothing of a database.

Arguments are the bytes of an AMQP table, so that no value loses its type on the way to a disk and
back. A change says that a row has come or gone; of a row that goes only its key counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from penstock.protocol.values import Table, decode_table, encode_table
from penstock.routing.canonical import canonical


@dataclass(frozen=True, slots=True)
class VhostRow:
    """A virtual host made while the broker ran. Key: name."""

    name: str


@dataclass(frozen=True, slots=True)
class UserRow:
    """A user made while the broker ran. Key: name. hashing: see broker/session/access; tags: by
    commas."""

    name: str
    password_hash: str = field(default="", repr=False)
    hashing: str = ""
    tags: str = ""


@dataclass(frozen=True, slots=True)
class ExchangeRow:
    """A durable exchange. Key: vhost, name; all bindings from and to it go with it."""

    vhost: str
    name: str
    kind: str = ""
    is_auto_delete: bool = False
    is_internal: bool = False
    arguments: bytes = b""


@dataclass(frozen=True, slots=True)
class StoredQueue:
    """A durable queue that is not exclusive. Key: queue_id, 1.. , never given twice; all bindings
    to it go with it."""

    queue_id: int
    vhost: str
    name: str
    is_auto_delete: bool = False
    arguments: bytes = b""


@dataclass(frozen=True, slots=True)
class BindingRow:
    """A binding between things that are kept. Key: all but `arguments`, of which `identity` is
    what makes two the same, see routing/canonical."""

    vhost: str
    source: str
    is_to_exchange: bool
    destination: str
    routing_key: str
    identity: bytes
    arguments: bytes = b""


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """A policy, an operator policy, limits: `value` as JSON. Key: vhost ("" for all), component,
    name."""

    vhost: str
    component: str
    name: str
    value: str = ""


Row: TypeAlias = VhostRow | UserRow | ExchangeRow | StoredQueue | BindingRow | ParameterRow


@dataclass(frozen=True, slots=True)
class CatalogueChange:
    """`row` is kept from now on, in place of one with its key, or no longer."""

    is_kept: bool
    row: Row


@dataclass(slots=True)
class StoredCatalogue:
    """Everything that is kept, each kind in the order in which it came. queue_id_max: the highest
    ever given, 0 for none."""

    vhosts: list[VhostRow] = field(default_factory=list)
    users: list[UserRow] = field(default_factory=list)
    exchanges: list[ExchangeRow] = field(default_factory=list)
    queues: list[StoredQueue] = field(default_factory=list)
    bindings: list[BindingRow] = field(default_factory=list)
    parameters: list[ParameterRow] = field(default_factory=list)
    queue_id_max: int = 0


def arguments_bytes(arguments: Mapping[str, object]) -> bytes:
    """An argument table as it is kept: the names of its top level in order, b"" for an empty one.

    Raises: ValueError for what no AMQP type can hold, which nothing from the wire is."""
    if not arguments:
        return b""
    return encode_table(cast(Table, dict(sorted(arguments.items()))))


def arguments_table(data: bytes) -> Table:
    """What `arguments_bytes` was given. Raises: ConnectionFault for other bytes."""
    return decode_table(data, 0, len(data))[0] if data else {}


def identity_bytes(arguments: Mapping[str, object]) -> bytes:
    """The same bytes for arguments that AMQP takes for equal."""
    return canonical(arguments).encode("utf-8", "surrogateescape")
