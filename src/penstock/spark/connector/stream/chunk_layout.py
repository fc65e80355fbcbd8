"""The chunks of a stream as a stranger reads them: heads, checksums, and columns without a copy.

The layout is public (docs/stream-chunks.md) and read here by its description, not by the broker's
own code. Columns are views of the bytes that came from the socket.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from penstock.base.errors import OperatorError

try:
    import google_crc32c

    # Without its C extension it is hundreds of times slower, and versions of it differ in this.
    _HAS_CRC32C = google_crc32c.implementation == "c"
except ImportError:
    _HAS_CRC32C = False

Bytes = Any
"""A numpy array of bytes (uint8)."""

_MARK: Final = b"\xd7SCH"
_HEAD: Final = struct.Struct("<4sIIIQQQI10I")
_HEAD_BYTES: Final = 88
_CHECKED_AT: Final = 8
VERSIONS: Final = (1, 2)
"""CRC-32C, CRC-32."""


class ChunkView:
    """One chunk. first, count: its messages; all columns are views. The row of bytes called x
    begins for message n at `x_at[n]` and ends at `x_at[n + 1]`; times count us from `first_us`."""

    def __init__(self, body: Bytes, at: int) -> None:
        fields = _HEAD.unpack_from(body, at)
        self.size: int = fields[2]
        count: int = fields[3]
        self.count = count
        self.first: int = fields[4]
        self.first_us: int = fields[5]
        addresses: int = fields[7]
        starts = fields[8:]

        def numbers(column: int, kind: str, many: int) -> Any:
            return np.frombuffer(body, kind, many, at + starts[column])

        def row(column: int, offsets: Any) -> Bytes:
            start = at + starts[column]
            return body[start : start + int(offsets[-1])]

        self.times = numbers(0, "<u4", count)
        self.bodies_at = numbers(1, "<i4", count + 1)
        self.headers_at = numbers(2, "<i4", count + 1)
        self.address_of = numbers(3, "<u2", count)
        self.exchanges_at = numbers(4, "<i4", addresses + 1)
        self.keys_at = numbers(5, "<i4", addresses + 1)
        self.exchanges = row(6, self.exchanges_at)
        self.keys = row(7, self.keys_at)
        self.headers = row(8, self.headers_at)
        self.bodies = row(9, self.bodies_at)


def chunks_of(body: Bytes, version: int, seed: int, stream: str) -> Iterator[ChunkView]:
    """The chunks that lie back to back in `body`, each when its checksum was found right.

    version, seed: what the delivery says. Raises: OperatorError for what is damaged, and for a
    version that cannot be read here.
    """
    check_version(version, stream)
    at, total = 0, len(body)
    while at < total:
        if total - at < _HEAD_BYTES or body[at : at + 4].tobytes() != _MARK:
            raise _damaged(stream, f"no chunk stands at byte {at} of a delivery")
        _, checksum, size = struct.unpack_from("<4sII", body, at)
        if size < _HEAD_BYTES or at + size > total:
            raise _damaged(stream, f"a chunk says it has {size} bytes, and {total - at} are there")
        found = checksum_of(version, seed, body[at + _CHECKED_AT : at + size])
        if found != checksum:
            raise _damaged(stream, f"a chunk has checksum {found:08x} and says {checksum:08x}")
        yield ChunkView(body, at)
        at += size


def check_version(version: int, stream: str) -> None:
    """Raises: OperatorError for a version of chunks that cannot be read here."""
    if version not in VERSIONS:
        raise OperatorError(
            f"stream {stream!r} has chunks of version {version}, and this connector reads "
            f"{' and '.join(str(number) for number in VERSIONS)}: install the Penstock of the "
            "broker, or set option readMode=amqp"
        )
    if version == 1 and not _HAS_CRC32C:
        raise OperatorError(
            "the chunks of streams are checked with CRC-32C, and google-crc32c is not installed "
            "here: pip install google-crc32c on all executors, or set option readMode=amqp"
        )


def checksum_of(version: int, seed: int, part: Bytes) -> int:
    """The checksum of `part`, begun with `seed`, 0..2**32-1."""
    if version == 1:
        found: int = google_crc32c.extend(seed, part)
        return found
    return zlib.crc32(part, seed)


def _damaged(stream: str, what: str) -> OperatorError:
    return OperatorError(
        f"stream {stream!r}: {what}: it was damaged on its way, or is no chunk at all. Run the "
        "query again; if it stays, set option readMode=amqp and report it"
    )
