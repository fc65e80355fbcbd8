"""The methods of class request: what AMQP has no method for, asked on a channel and answered.

Our extension, class 240; a broker that has it announces the capability `penstock.requests`.
Arguments and answer are tables, so that another verb needs no other method. Answers come in the
order of the channel's methods. Verbs: docs/requests.md.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.protocol.methods.base import Fields, Method
from penstock.protocol.values import Table


@dataclass(slots=True)
class RequestAsk(Method):
    """Do `verb`, such as `stream.offsets`."""

    CLASS_ID: ClassVar[int] = 240
    METHOD_ID: ClassVar[int] = 10
    NAME: ClassVar[str] = "request.ask"
    FIELDS: ClassVar[Fields] = (("verb", "shortstr"), ("arguments", "table"))

    verb: str = ""
    arguments: Table = field(default_factory=dict)


@dataclass(slots=True)
class RequestAskOk(Method):
    """It is done, and safe where it says so."""

    CLASS_ID: ClassVar[int] = 240
    METHOD_ID: ClassVar[int] = 11
    NAME: ClassVar[str] = "request.ask-ok"
    FIELDS: ClassVar[Fields] = (("answer", "table"),)

    answer: Table = field(default_factory=dict)
