"""One question, and how it is asked over either way; names that both ways share."""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.base.errors import OperatorError

if TYPE_CHECKING:
    from penstock.cli.http_way import HttpWay
    from penstock.client.io_blocking import Channel

Row = dict[str, Any]
DEFAULT: Final = "amq.default"
"""The default exchange's name in addresses, which cannot be empty there."""
RIGHTS: Final = ("configure", "write", "read")


class MissingError(OperatorError):
    """404: what was asked for is not there."""


@dataclass(frozen=True, slots=True)
class Way:
    """One question. http: asks it over HTTP, and has the answer that the control socket gives;
    amqp: does it on a channel of its virtual host, None where the control socket itself answers."""

    http: "Callable[[HttpWay, Row], Row]"
    amqp: "Callable[[Channel, Row], Row] | None" = None


def payload(body: bytes) -> str:
    """A body as questions hold it."""
    return b64encode(body).decode()
