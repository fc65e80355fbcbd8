"""The methods of class confirm: the broker answers every publish of a channel.

Source: RabbitMQ extension, class 85.
"""

from dataclasses import dataclass
from typing import ClassVar

from penstock.protocol.methods.base import Fields, Method


@dataclass(slots=True)
class ConfirmSelect(Method):
    """Number the publishes of this channel and answer each."""

    CLASS_ID: ClassVar[int] = 85
    METHOD_ID: ClassVar[int] = 10
    NAME: ClassVar[str] = "confirm.select"
    FIELDS: ClassVar[Fields] = (("no_wait", "bit"),)

    no_wait: bool = False


@dataclass(slots=True)
class ConfirmSelectOk(Method):
    """Publishes are numbered from 1 on."""

    CLASS_ID: ClassVar[int] = 85
    METHOD_ID: ClassVar[int] = 11
    NAME: ClassVar[str] = "confirm.select-ok"
