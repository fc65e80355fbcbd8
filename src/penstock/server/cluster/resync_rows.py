"""What is asked and answered while a data directory is copied, as bytes.

The follower asks, one question after the other:

    ManifestAsk   from a place on       ManifestPage  files with checksums of their ranges
    RangesAsk     ranges of files       RangesPage    their bytes
    RowsAsk       the n-th page         RowsPage      an entry with rows of the catalogue

Files change while they are copied. That is sound because every operation since the beginning is
applied afterwards: a byte that one of them has written is right after it, and one that none has
written was the same all the time.
"""

from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from penstock.base.limits import RESYNC_RANGE_BYTES

RANGE: Final = RESYNC_RANGE_BYTES.default
HASH_BYTES: Final = 16


class ResyncFault(ValueError):
    """What came is no question, or no answer to what was asked."""


class FileRow(Struct, array_like=True):
    """Part of a file. size: of all of it; first: offset of the first range; hashes: of ranges one
    behind the other. is_folder: it is a folder, and the rest is empty."""

    path: str
    size: int = 0
    first: int = 0
    hashes: list[bytes] = []
    is_folder: bool = False


class ManifestAsk(Struct, tag="manifest"):
    """From offset `at` of the file `path` on; "" for the beginning."""

    path: str = ""
    at: int = 0


class ManifestPage(Struct, tag="manifest"):
    """next_path, next_at: where the next page begins, "" after the last."""

    rows: list[FileRow]
    next_path: str
    next_at: int


class Range(Struct, array_like=True):
    path: str
    at: int
    size: int


class RangesAsk(Struct, tag="ranges"):
    ranges: list[Range]


class RangesPage(Struct, tag="ranges"):
    """Of each range what there is by now; fewer bytes where its file has become shorter, none where
    it is gone."""

    parts: list[bytes]


class RowsAsk(Struct, tag="rows"):
    page: int


class RowsPage(Struct, tag="rows"):
    entry: bytes
    is_last: bool


Ask: TypeAlias = ManifestAsk | RangesAsk | RowsAsk
Page: TypeAlias = ManifestPage | RangesPage | RowsPage

_encoder: Final = msgspec.msgpack.Encoder()
_asks: Final[msgspec.msgpack.Decoder[Ask]] = msgspec.msgpack.Decoder(Ask)
_pages: Final[msgspec.msgpack.Decoder[Page]] = msgspec.msgpack.Decoder(Page)


def encode(one: Ask | Page) -> bytes:
    return _encoder.encode(one)


def decode_ask(data: bytes) -> Ask:
    """Raises: ResyncFault."""
    try:
        return _asks.decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        raise ResyncFault(f"a question of a resync cannot be read: {error}") from error


def decode_page(data: bytes) -> Page:
    """Raises: ResyncFault."""
    try:
        return _pages.decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        raise ResyncFault(f"an answer of a resync cannot be read: {error}") from error


def hash_of(data: bytes) -> bytes:
    return blake2b(data, digest_size=HASH_BYTES).digest()
