"""Cuts a stream of bytes into whole AMQP frames, and looks at nothing else."""

import struct
from typing import Final

from penstock.base.errors import PenstockError
from penstock.protocol.constants import FRAME_END

_HEAD: Final = struct.Struct(">BHI")
_ENVELOPE_BYTES: Final = 8
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8


class FrameUnread(PenstockError):
    """What comes is no frame, or one that is too long to be held. It is in `FrameCutter.rest`."""


Frame = tuple[int, int, int, bytes]
"""Kind (1, 2, 3 or 8); channel; ids of a method, class in the upper 16 bits, else 0; the whole
frame, its end octet included."""


class FrameCutter:
    """One direction of one connection. payload_max: bytes of a frame that is held until it is
    whole; rest: what is not a whole frame yet."""

    __slots__ = ("_wanted", "payload_max", "rest")

    def __init__(self, payload_max: int) -> None:
        self.payload_max = payload_max
        self.rest = bytearray()
        self._wanted = _ENVELOPE_BYTES

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole now. Linear in their bytes, however they are cut.
        Raises: FrameUnread; frames before it are in `rest`, too."""
        rest = self.rest
        rest += data
        if len(rest) < self._wanted:
            return []
        whole = bytes(rest)
        frames: list[Frame] = []
        at, end = 0, len(whole)
        self._wanted = _ENVELOPE_BYTES
        while end - at >= _ENVELOPE_BYTES:
            kind, channel, size = _HEAD.unpack_from(whole, at)
            if size > self.payload_max:
                raise FrameUnread(f"a frame of {size} bytes")
            stop = at + size + _ENVELOPE_BYTES
            if stop > end:
                self._wanted = stop - at
                break
            if whole[stop - 1] != FRAME_END or kind not in (METHOD, HEADER, BODY, HEARTBEAT):
                raise FrameUnread(f"a frame of type {kind} that does not end as one")
            ids = int.from_bytes(whole[at + 7 : at + 11], "big") if kind == METHOD else 0
            if kind == METHOD and size < 4:
                raise FrameUnread("a method without its ids")
            if kind == HEADER and size < 14:
                raise FrameUnread("a content header without its size")
            frames.append((kind, channel, ids, whole[at:stop]))
            at = stop
        del rest[:at]
        return frames

    def forget(self) -> None:
        """Drop a piece of a frame: the rest of it does not come."""
        self.rest.clear()
        self._wanted = _ENVELOPE_BYTES
