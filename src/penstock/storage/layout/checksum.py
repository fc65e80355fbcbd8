"""The checksum of everything the store writes: CRC-32C, or CRC-32 where its wheel is missing.

Which of the two a file has is its format version, so that a store moves between such machines.
"""

import zlib
from collections.abc import Callable
from typing import Final

from penstock.base.errors import OperatorError

try:
    import google_crc32c

    # Without its C extension it is hundreds of times slower than the standard library's CRC-32.
    HAS_CRC32C = google_crc32c.implementation == "c"
except ImportError:
    HAS_CRC32C = False

Extend = Callable[[int, bytes], int]
"""extend(checksum of what came before, more bytes) -> checksum of both, 0..2**32-1."""

VERSION_CRC32C: Final = 1
VERSION_CRC32: Final = 2
VERSION: Final = VERSION_CRC32C if HAS_CRC32C else VERSION_CRC32
"""The format version that streams are written in."""

LOG_VERSION_CRC32C: Final = 3
LOG_VERSION_CRC32: Final = 4
LOG_VERSION: Final = LOG_VERSION_CRC32C if HAS_CRC32C else LOG_VERSION_CRC32
"""The format version that message logs are written in. Up to version 2 no file had an earlier
life: who does not know of them would believe its footer."""
LOG_VERSIONS: Final = (VERSION_CRC32C, VERSION_CRC32, LOG_VERSION_CRC32C, LOG_VERSION_CRC32)


def crc32(seed: int, data: bytes) -> int:
    """CRC-32 as zlib has it."""
    return zlib.crc32(data, seed)


def extend_of(version: int) -> Extend:
    """The checksum of format `version`.

    Raises: OperatorError for a version that this installation cannot read.
    """
    if version == VERSION_CRC32:
        return crc32
    if version == VERSION_CRC32C:
        if HAS_CRC32C:
            extend: Extend = google_crc32c.extend
            return extend
        raise OperatorError(
            "the message store was written with CRC-32C, and google-crc32c is not installed here: "
            "pip install google-crc32c"
        )
    raise OperatorError(
        f"the message store has format version {version}, and this Penstock reads 1 and 2: "
        "start the version that wrote it"
    )


def log_extend_of(version: int) -> Extend:
    """The checksum of a message log of format `version`.

    Raises: OperatorError for a version that this installation cannot read.
    """
    if version == LOG_VERSION_CRC32C:
        return extend_of(VERSION_CRC32C)
    if version == LOG_VERSION_CRC32:
        return extend_of(VERSION_CRC32)
    if version in LOG_VERSIONS:
        return extend_of(version)
    raise OperatorError(
        f"the message store has format version {version}, and this Penstock reads 1 to "
        f"{LOG_VERSION_CRC32}: start the version that wrote it"
    )
