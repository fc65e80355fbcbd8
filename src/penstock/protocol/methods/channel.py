"""The methods of class channel: opening, flow, closing.

Source: AMQP 0-9-1 section 1.5.2.
"""

from dataclasses import dataclass
from typing import ClassVar

from penstock.protocol.methods.base import Fields, Method


@dataclass(slots=True)
class ChannelOpen(Method):
    """The client opens this channel."""

    CLASS_ID: ClassVar[int] = 20
    METHOD_ID: ClassVar[int] = 10
    NAME: ClassVar[str] = "channel.open"
    FIELDS: ClassVar[Fields] = (("reserved_1", "shortstr"),)


@dataclass(slots=True)
class ChannelOpenOk(Method):
    """The channel is open."""

    CLASS_ID: ClassVar[int] = 20
    METHOD_ID: ClassVar[int] = 11
    NAME: ClassVar[str] = "channel.open-ok"
    FIELDS: ClassVar[Fields] = (("reserved_1", "longstr"),)


@dataclass(slots=True)
class ChannelFlow(Method):
    """Stop (false) or resume (true) publishing or delivering content."""

    CLASS_ID: ClassVar[int] = 20
    METHOD_ID: ClassVar[int] = 20
    NAME: ClassVar[str] = "channel.flow"
    FIELDS: ClassVar[Fields] = (("active", "bit"),)

    active: bool = True


@dataclass(slots=True)
class ChannelFlowOk(Method):
    """The state of flow after obeying."""

    CLASS_ID: ClassVar[int] = 20
    METHOD_ID: ClassVar[int] = 21
    NAME: ClassVar[str] = "channel.flow-ok"
    FIELDS: ClassVar[Fields] = (("active", "bit"),)

    active: bool = True


@dataclass(slots=True)
class ChannelClose(Method):
    """Either side closes. class_id, method_id: the method at fault, 0 when none."""

    CLASS_ID: ClassVar[int] = 20
    METHOD_ID: ClassVar[int] = 40
    NAME: ClassVar[str] = "channel.close"
    FIELDS: ClassVar[Fields] = (
        ("reply_code", "short"),
        ("reply_text", "shortstr"),
        ("class_id", "short"),
        ("method_id", "short"),
    )

    reply_code: int = 0
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0


@dataclass(slots=True)
class ChannelCloseOk(Method):
    """The channel is closed."""

    CLASS_ID: ClassVar[int] = 20
    METHOD_ID: ClassVar[int] = 41
    NAME: ClassVar[str] = "channel.close-ok"
