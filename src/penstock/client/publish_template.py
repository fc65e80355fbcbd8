"""The frames of one kind of publish, built once; only the body differs from message to message."""

from penstock.protocol.constants import FRAME_BODY, FRAME_ENVELOPE_BYTES, FRAME_HEADER
from penstock.protocol.methods import BasicPublish
from penstock.protocol.methods.codec import method_frame
from penstock.protocol.properties import Properties, encode_properties

FRAME_END = b"\xce"
_CLASS_AND_WEIGHT = b"\x00\x3c\x00\x00"


class PublishTemplate:
    """Publishes to one address with the same properties.

    channel: 1..65535; start: the frames up to the size of the body, 8 bytes; header_end: what
    follows it; body_start: a body frame up to its own size, 4 bytes.
    Raises: ValueError for names or properties the wire cannot hold.
    """

    __slots__ = ("_size", "_whole", "body_start", "channel", "header_end", "start")

    def __init__(
        self,
        channel: int,
        exchange: str,
        routing_key: str,
        properties: Properties,
        mandatory: bool = False,
    ) -> None:
        self.channel = channel
        number = channel.to_bytes(2, "big")
        values = encode_properties(properties)
        method = method_frame(channel, BasicPublish(exchange, routing_key, mandatory))
        header_bytes = 12 + len(values)
        self.start = b"".join(
            (
                method,
                FRAME_HEADER.to_bytes(1, "big"),
                number,
                header_bytes.to_bytes(4, "big"),
                _CLASS_AND_WEIGHT,
            )
        )
        self.header_end = values + FRAME_END
        self.body_start = FRAME_BODY.to_bytes(1, "big") + number
        self._size = -1
        self._whole = b""

    def header_frame_bytes(self) -> int:
        """How large the frame with the properties is, which cannot be divided."""
        values = len(self.header_end) - len(FRAME_END)
        return values + len(_CLASS_AND_WEIGHT) + 8 + FRAME_ENVELOPE_BYTES

    def frames(self, body: bytes, frame_bytes_max: int) -> bytes:
        """Method, header and body frames for `body`; body frames of at most `frame_bytes_max`."""
        size = len(body)
        if not 0 < size <= frame_bytes_max - FRAME_ENVELOPE_BYTES:
            return self._split(body, frame_bytes_max)
        if size != self._size:
            self._size = size
            self._whole = b"".join(
                (
                    self.start,
                    size.to_bytes(8, "big"),
                    self.header_end,
                    self.body_start,
                    size.to_bytes(4, "big"),
                )
            )
        return self._whole + body + FRAME_END

    def _split(self, body: bytes, frame_bytes_max: int) -> bytes:
        parts = [self.start, len(body).to_bytes(8, "big"), self.header_end]
        step = frame_bytes_max - FRAME_ENVELOPE_BYTES
        for at in range(0, len(body), step):
            piece = body[at : at + step]
            parts += (self.body_start, len(piece).to_bytes(4, "big"), piece, FRAME_END)
        return b"".join(parts)
