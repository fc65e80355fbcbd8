"""The methods of class queue: declare, bind, purge, delete.

Source: AMQP 0-9-1 section 1.7.2.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.protocol.methods.base import Fields, Method
from penstock.protocol.values import Table


@dataclass(slots=True)
class QueueDeclare(Method):
    """Make a queue, or check that it is there; an empty name asks for a fresh one."""

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 10
    NAME: ClassVar[str] = "queue.declare"
    FIELDS: ClassVar[Fields] = (
        ("reserved_1", "short"),
        ("queue", "shortstr"),
        ("passive", "bit"),
        ("durable", "bit"),
        ("exclusive", "bit"),
        ("auto_delete", "bit"),
        ("no_wait", "bit"),
        ("arguments", "table"),
    )

    queue: str = ""
    passive: bool = False
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)


@dataclass(slots=True)
class QueueDeclareOk(Method):
    """The queue is there. message_count: messages ready, not those unacknowledged."""

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 11
    NAME: ClassVar[str] = "queue.declare-ok"
    FIELDS: ClassVar[Fields] = (
        ("queue", "shortstr"),
        ("message_count", "long"),
        ("consumer_count", "long"),
    )

    queue: str = ""
    message_count: int = 0
    consumer_count: int = 0


@dataclass(slots=True)
class QueueBind(Method):
    """Bind a queue to an exchange."""

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 20
    NAME: ClassVar[str] = "queue.bind"
    FIELDS: ClassVar[Fields] = (
        ("reserved_1", "short"),
        ("queue", "shortstr"),
        ("exchange", "shortstr"),
        ("routing_key", "shortstr"),
        ("no_wait", "bit"),
        ("arguments", "table"),
    )

    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)


@dataclass(slots=True)
class QueueBindOk(Method):
    """The binding is there."""

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 21
    NAME: ClassVar[str] = "queue.bind-ok"


@dataclass(slots=True)
class QueuePurge(Method):
    """Drop every ready message of a queue."""

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 30
    NAME: ClassVar[str] = "queue.purge"
    FIELDS: ClassVar[Fields] = (("reserved_1", "short"), ("queue", "shortstr"), ("no_wait", "bit"))

    queue: str = ""
    no_wait: bool = False


@dataclass(slots=True)
class QueuePurgeOk(Method):
    """message_count: messages dropped."""

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 31
    NAME: ClassVar[str] = "queue.purge-ok"
    FIELDS: ClassVar[Fields] = (("message_count", "long"),)

    message_count: int = 0


@dataclass(slots=True)
class QueueDelete(Method):
    """Delete a queue."""

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 40
    NAME: ClassVar[str] = "queue.delete"
    FIELDS: ClassVar[Fields] = (
        ("reserved_1", "short"),
        ("queue", "shortstr"),
        ("if_unused", "bit"),
        ("if_empty", "bit"),
        ("no_wait", "bit"),
    )

    queue: str = ""
    if_unused: bool = False
    if_empty: bool = False
    no_wait: bool = False


@dataclass(slots=True)
class QueueDeleteOk(Method):
    """message_count: messages that went with the queue."""

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 41
    NAME: ClassVar[str] = "queue.delete-ok"
    FIELDS: ClassVar[Fields] = (("message_count", "long"),)

    message_count: int = 0


@dataclass(slots=True)
class QueueUnbind(Method):
    """Undo queue.bind with the same arguments; it has no no-wait."""

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 50
    NAME: ClassVar[str] = "queue.unbind"
    FIELDS: ClassVar[Fields] = (
        ("reserved_1", "short"),
        ("queue", "shortstr"),
        ("exchange", "shortstr"),
        ("routing_key", "shortstr"),
        ("arguments", "table"),
    )

    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    arguments: Table = field(default_factory=dict)


@dataclass(slots=True)
class QueueUnbindOk(Method):
    """The binding is gone."""

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 51
    NAME: ClassVar[str] = "queue.unbind-ok"
