"""Writes flight records: compressed, bounded, on a thread of its own, without ever hurrying.

The broker goes on meanwhile: what is written is frozen, and the thread pauses between pieces of a
few milliseconds, because Python runs one thread at a time.
"""

import time
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from penstock.base.limits import RECORD_BYTES
from penstock.telemetry.record_file import Encoder

GZIP: Final = 31
"""zlib's window bits for a gzip file, which every tool opens."""

PAUSE_S: Final = 0.002
RESERVE_BYTES: Final = 262_144
"""Room that is kept for the piece under way and for what must come after what was left out."""

BUSY_BYTES: Final = 4096
"""A piece above it is work enough for a pause."""


def compressed(encoder: Encoder, bytes_max: int = RECORD_BYTES.default) -> bytes:
    """The record as a gzip file of at most `bytes_max`; what does not fit is left out by the
    encoder and counted in the file."""
    squeeze = zlib.compressobj(6, zlib.DEFLATED, GZIP)
    parts: list[bytes] = []
    size = pending = 0
    for piece in encoder.pieces():
        part = squeeze.compress(piece)
        pending += len(piece)
        # What the compressor still keeps to itself must be known to keep the bound.
        if size + pending > bytes_max - RESERVE_BYTES:
            part += squeeze.flush(zlib.Z_SYNC_FLUSH)
            pending = 0
        if part:
            parts.append(part)
            size += len(part)
        if size >= bytes_max - RESERVE_BYTES:
            encoder.is_full = True
        if len(piece) > BUSY_BYTES:
            time.sleep(PAUSE_S)
    parts.append(squeeze.flush())
    return b"".join(parts)


class RecordWriter:
    """One thread, one record at a time, in the order asked for."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "penstock-record")

    def write(self, encoder: Encoder) -> "Future[bytes]":
        """The compressed record, later."""
        return self._thread.submit(compressed, encoder)

    def close(self) -> None:
        """Begin no more; what is being written is dropped."""
        self._thread.shutdown(wait=False, cancel_futures=True)
