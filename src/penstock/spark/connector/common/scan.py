"""Cuts a connection's bytes into whole deliveries of one channel and everything else.

A planner has to know where messages end, not what they say: deliveries stay the bytes the broker
sent, laid back to back, and are decoded where their rows are needed. So a message costs three
looks at its sizes and no objects.

    basic.deliver frame | header frame | body frames …   basic.deliver frame | …
    ^ 0                                                  ^ ends[0]            ^ ends[1] …

All other frames come out whole, for the session that speaks the rest of the protocol. Frames of
other channels may stand between those of a message (heartbeats do); they are taken out.
"""

import struct
from typing import Final, NamedTuple

from penstock.base.errors import ConnectionFault
from penstock.protocol.constants import FRAME_ERROR, UNEXPECTED_FRAME

_FRAME: Final = struct.Struct(">BHI")
_HEADER: Final = struct.Struct(">BHIHHQ")
_DELIVER: Final = b"\x00\x3c\x00\x3c"
_END: Final = 0xCE
FRAME_BYTES_HIGHEST: Final = 16_777_216 + 8
"""No broker agrees on larger frames with this client; a larger size means the place is lost."""


class Scanned(NamedTuple):
    """What one piece of input held. raw: deliveries back to back; ends: offset behind each of
    them in `raw`; frames: whole frames of anything else, in their order."""

    raw: bytes
    ends: list[int]
    frames: list[bytes]


class DeliveryScanner:
    """Input of one connection in any pieces. `channel`: the only one with deliveries, 1..65535.

    At most one unfinished message is held, plus what came behind it in the same piece.
    """

    def __init__(self, channel: int) -> None:
        self.channel = channel
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._needed = 0

    def feed(self, data: bytes) -> Scanned:
        """Take `data`; what became whole by it.

        Raises: ConnectionFault 501 or 505 where the bytes are no frames in their order.
        """
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes < self._needed:
            # Joining at every piece would copy a large body once per piece.
            return Scanned(b"", [], [])
        buffer = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        scanned, at = self._scan(buffer)
        rest = buffer[at:]
        self._held = [rest] if rest else []
        self._held_bytes = len(rest)
        self._needed -= at
        return scanned

    def _scan(self, buffer: bytes) -> tuple[Scanned, int]:
        """Everything whole in `buffer`, and the offset behind it; sets `_needed`."""
        channel, total, at = self.channel, len(buffer), 0
        pieces: list[bytes] = []
        ends: list[int] = []
        frames: list[bytes] = []
        start, base = 0, 0
        frame, header = _FRAME.unpack_from, _HEADER.unpack_from
        while total - at >= 7:
            kind, number, size = frame(buffer, at)
            behind = at + size + 8
            if size > FRAME_BYTES_HIGHEST:
                raise _lost("a frame larger than agreed on")
            if kind == 1 and number == channel and buffer[at + 7 : at + 11] == _DELIVER:
                stop = 0
                if total - behind >= 22:
                    kind, number, size, _, _, body_bytes = header(buffer, behind)
                    body = behind + size + 8
                    if kind == 2 and number == channel:
                        stop = body
                        if body_bytes > 0 and total - body >= 7:
                            kind, number, size = frame(buffer, body)
                            whole = kind == 3 and number == channel and size == body_bytes
                            stop = body + size + 8 if whole else 0
                        elif body_bytes > 0:
                            stop = total + body_bytes
                if stop > 0:
                    if stop > total:
                        behind = stop
                        break
                    if buffer[stop - 1] != _END:
                        raise _lost("bad frame end")
                    at = stop
                    ends.append(base + at - start)
                    continue
                pieces.append(buffer[start:at])
                base += at - start
                behind, message = self._walk(buffer, at, frames)
                start = at
                if not message:
                    break
                pieces.append(message)
                base += len(message)
                ends.append(base)
                start = at = behind
                continue
            if behind > total:
                break
            if buffer[behind - 1] != _END:
                raise _lost("bad frame end")
            pieces.append(buffer[start:at])
            base += at - start
            frames.append(buffer[at:behind])
            start = at = behind
        else:
            behind = at + 7
        self._needed = behind
        pieces.append(buffer[start:at])
        raw = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return Scanned(raw, ends, frames), at

    def _walk(self, buffer: bytes, at: int, frames: list[bytes]) -> tuple[int, bytes]:
        """The message at `at`, frame by frame: the offset behind it and its bytes.

        While it is unfinished: the offset up to which bytes are needed, and b"".
        """
        total = len(buffer)
        own: list[bytes] = []
        others: list[bytes] = []
        missing = -1
        while missing != 0:
            if total - at < 7:
                return max(at + 7, at + missing + 8), b""
            kind, number, size = _FRAME.unpack_from(buffer, at)
            stop = at + size + 8
            if size > FRAME_BYTES_HIGHEST:
                raise _lost("a frame larger than agreed on")
            if stop > total:
                return max(stop, at + missing + 8), b""
            if buffer[stop - 1] != _END:
                raise _lost("bad frame end")
            piece = buffer[at:stop]
            at = stop
            if number != self.channel:
                others.append(piece)
                continue
            if kind == 3 and own and 0 < size <= missing:
                missing -= size
            elif kind == 2 and len(own) == 1 and size >= 14:
                missing = int.from_bytes(piece[11:19], "big")
            elif not (kind == 1 and not own):
                raise ConnectionFault(UNEXPECTED_FRAME, "frames of a delivery are out of order")
            own.append(piece)
        frames += others
        return at, b"".join(own)


def _lost(why: str) -> ConnectionFault:
    return ConnectionFault(FRAME_ERROR, f"{why}: these bytes are no AMQP 0-9-1 frames")
