"""The methods of class tx: local transactions on a channel.

Source: AMQP 0-9-1 section 1.9.2.
"""

from dataclasses import dataclass
from typing import ClassVar

from penstock.protocol.methods.base import Method


@dataclass(slots=True)
class TxSelect(Method):
    """Collect the publishes and answers of this channel until commit."""

    CLASS_ID: ClassVar[int] = 90
    METHOD_ID: ClassVar[int] = 10
    NAME: ClassVar[str] = "tx.select"


@dataclass(slots=True)
class TxSelectOk(Method):
    """The channel is transactional."""

    CLASS_ID: ClassVar[int] = 90
    METHOD_ID: ClassVar[int] = 11
    NAME: ClassVar[str] = "tx.select-ok"


@dataclass(slots=True)
class TxCommit(Method):
    """Do what was collected."""

    CLASS_ID: ClassVar[int] = 90
    METHOD_ID: ClassVar[int] = 20
    NAME: ClassVar[str] = "tx.commit"


@dataclass(slots=True)
class TxCommitOk(Method):
    """It is done."""

    CLASS_ID: ClassVar[int] = 90
    METHOD_ID: ClassVar[int] = 21
    NAME: ClassVar[str] = "tx.commit-ok"


@dataclass(slots=True)
class TxRollback(Method):
    """Forget what was collected."""

    CLASS_ID: ClassVar[int] = 90
    METHOD_ID: ClassVar[int] = 30
    NAME: ClassVar[str] = "tx.rollback"


@dataclass(slots=True)
class TxRollbackOk(Method):
    """It is forgotten."""

    CLASS_ID: ClassVar[int] = 90
    METHOD_ID: ClassVar[int] = 31
    NAME: ClassVar[str] = "tx.rollback-ok"
