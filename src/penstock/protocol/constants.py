"""Numbers and names of AMQP 0-9-1: frame types, reply codes, ids.

Source: AMQP 0-9-1 sections 2.3.5 and 4.2.3; names of reply codes and ids of extensions as RabbitMQ.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_END: Final = 0xCE
FRAME_ENVELOPE_BYTES: Final = 8
"""Type (1), channel (2) and size (4) before a payload, the end octet (1) behind it."""
FRAME_BYTES_LOWEST: Final = 4096
"""frame-min-size: every peer accepts frames this large; nothing smaller may be negotiated."""
HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

REPLY_SUCCESS: Final = 200
CONTENT_TOO_LARGE: Final = 311
NO_ROUTE: Final = 312
NO_CONSUMERS: Final = 313
CONNECTION_FORCED: Final = 320
INVALID_PATH: Final = 402
ACCESS_REFUSED: Final = 403
NOT_FOUND: Final = 404
RESOURCE_LOCKED: Final = 405
PRECONDITION_FAILED: Final = 406
FRAME_ERROR: Final = 501
SYNTAX_ERROR: Final = 502
COMMAND_INVALID: Final = 503
CHANNEL_ERROR: Final = 504
UNEXPECTED_FRAME: Final = 505
RESOURCE_ERROR: Final = 506
NOT_ALLOWED: Final = 530
NOT_IMPLEMENTED: Final = 540
INTERNAL_ERROR: Final = 541

REPLY_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        code: name
        for name, code in globals().items()
        if name != "FRAME_END" and isinstance(code, int) and code in range(REPLY_SUCCESS, 600)
    }
)
"""The names of the codes above."""

SHUTDOWN_TEXT: Final = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
"""What a broker says to clients that it leaves because it is stopped, with 320."""

CLASS_BASIC: Final = 60

CONTENT_METHODS: Final = frozenset({(60, 40), (60, 50), (60, 60), (60, 71)})
"""basic.publish, return, deliver and get-ok: a content header frame and body frames follow."""
