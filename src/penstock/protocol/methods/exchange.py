"""The methods of class exchange: declare, delete, and binding exchanges to exchanges.

Source: AMQP 0-9-1 section 1.6.2; bind and unbind as RabbitMQ.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.protocol.methods.base import Fields, Method
from penstock.protocol.values import Table


@dataclass(slots=True)
class ExchangeDeclare(Method):
    """Make an exchange, or check that it is there as described."""

    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 10
    NAME: ClassVar[str] = "exchange.declare"
    FIELDS: ClassVar[Fields] = (
        ("reserved_1", "short"),
        ("exchange", "shortstr"),
        ("type", "shortstr"),
        ("passive", "bit"),
        ("durable", "bit"),
        ("auto_delete", "bit"),
        ("internal", "bit"),
        ("no_wait", "bit"),
        ("arguments", "table"),
    )

    exchange: str = ""
    type: str = "direct"
    passive: bool = False
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)


@dataclass(slots=True)
class ExchangeDeclareOk(Method):
    """The exchange is there."""

    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 11
    NAME: ClassVar[str] = "exchange.declare-ok"


@dataclass(slots=True)
class ExchangeDelete(Method):
    """Delete an exchange."""

    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 20
    NAME: ClassVar[str] = "exchange.delete"
    FIELDS: ClassVar[Fields] = (
        ("reserved_1", "short"),
        ("exchange", "shortstr"),
        ("if_unused", "bit"),
        ("no_wait", "bit"),
    )

    exchange: str = ""
    if_unused: bool = False
    no_wait: bool = False


@dataclass(slots=True)
class ExchangeDeleteOk(Method):
    """The exchange is gone."""

    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 21
    NAME: ClassVar[str] = "exchange.delete-ok"


@dataclass(slots=True)
class ExchangeBind(Method):
    """Bind exchange `destination` to exchange `source`."""

    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 30
    NAME: ClassVar[str] = "exchange.bind"
    FIELDS: ClassVar[Fields] = (
        ("reserved_1", "short"),
        ("destination", "shortstr"),
        ("source", "shortstr"),
        ("routing_key", "shortstr"),
        ("no_wait", "bit"),
        ("arguments", "table"),
    )

    destination: str = ""
    source: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)


@dataclass(slots=True)
class ExchangeBindOk(Method):
    """The binding is there."""

    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 31
    NAME: ClassVar[str] = "exchange.bind-ok"


@dataclass(slots=True)
class ExchangeUnbind(Method):
    """Undo exchange.bind with the same arguments."""

    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 40
    NAME: ClassVar[str] = "exchange.unbind"
    FIELDS: ClassVar[Fields] = (
        ("reserved_1", "short"),
        ("destination", "shortstr"),
        ("source", "shortstr"),
        ("routing_key", "shortstr"),
        ("no_wait", "bit"),
        ("arguments", "table"),
    )

    destination: str = ""
    source: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)


@dataclass(slots=True)
class ExchangeUnbindOk(Method):
    """The binding is gone. Its id breaks the row, as RabbitMQ once gave it."""

    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 51
    NAME: ClassVar[str] = "exchange.unbind-ok"
