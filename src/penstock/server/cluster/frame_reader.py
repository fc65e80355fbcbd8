"""Frames of the pipe to a broker and of links, cut out of what was received.

u32 bytes that follow | u8 kind | payload
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

HEAD: Final = Struct(">IB")
HEAD_BYTES: Final = HEAD.size


class FrameReader:
    """check(kind, size): raises for a frame that may not be, of so many bytes of payload; called
    before these are waited for, so that no more is kept than is allowed."""

    __slots__ = ("_check", "_held", "_need")

    def __init__(self, check: Callable[[int, int], None]) -> None:
        self._check = check
        self._held = bytearray()
        # Bytes from which on there is more to be said of what is held.
        self._need = HEAD_BYTES

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Frames that are whole by now: kind and payload. Raises: what `check` does."""
        held = self._held
        if held:
            held += data
            if len(held) < self._need:
                return []
            data = bytes(held)
            held.clear()
        found: list[tuple[int, bytes]] = []
        at = 0
        self._need = HEAD_BYTES
        while len(data) - at >= HEAD_BYTES:
            begin = at + HEAD_BYTES
            follows, kind = HEAD.unpack_from(data, at)
            self._check(kind, follows - 1)
            end = begin + follows - 1
            if end > len(data):
                self._need = end - at
                break
            found.append((kind, data[begin:end]))
            at = end
        if at < len(data):
            held += data[at:]
        return found
