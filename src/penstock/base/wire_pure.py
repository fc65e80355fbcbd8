"""Pure stand-in for the wire primitives of `librt.strings`, for machines without its wheel.

Same names, same results, same refusals: an index outside the bytes raises IndexError, a number
outside its width raises OverflowError.
"""

import struct
from typing import Final

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_I64_LE: Final = struct.Struct("<q")
_F32: Final = struct.Struct(">f")
_F64: Final = struct.Struct(">d")


class BytesWriter:
    """A growing byte buffer. Owner: its maker; not safe to share between threads."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def append(self, x: int, /) -> None:
        self._data.append(x)

    def write(self, b: bytes | bytearray, /) -> None:
        self._data += b

    def getvalue(self) -> bytes:
        return bytes(self._data)

    def truncate(self, size: int, /) -> None:
        del self._data[size:]

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, i: int, /) -> int:
        return self._data[i]

    def __setitem__(self, i: int, x: int, /) -> None:
        self._data[i] = x


def _unpack(form: struct.Struct, data: bytes, index: int) -> tuple[int | float, ...]:
    if index < 0:
        raise ValueError("index must be non-negative")
    if index + form.size > len(data):
        raise IndexError("index out of range")
    return form.unpack_from(data, index)


def _pack(form: struct.Struct, writer: BytesWriter, value: int | float) -> None:
    try:
        writer.write(form.pack(value))
    except struct.error as error:
        raise OverflowError(str(error)) from error


def read_i16_be(b: bytes, index: int, /) -> int:
    return int(_unpack(_I16, b, index)[0])


def read_i32_be(b: bytes, index: int, /) -> int:
    return int(_unpack(_I32, b, index)[0])


def read_i64_be(b: bytes, index: int, /) -> int:
    return int(_unpack(_I64, b, index)[0])


def read_f32_be(b: bytes, index: int, /) -> float:
    return float(_unpack(_F32, b, index)[0])


def read_f64_be(b: bytes, index: int, /) -> float:
    return float(_unpack(_F64, b, index)[0])


def write_i16_be(b: BytesWriter, n: int, /) -> None:
    _pack(_I16, b, n)


def write_i32_be(b: BytesWriter, n: int, /) -> None:
    _pack(_I32, b, n)


def write_i64_be(b: BytesWriter, n: int, /) -> None:
    _pack(_I64, b, n)


def write_i64_le(b: BytesWriter, n: int, /) -> None:
    _pack(_I64_LE, b, n)


def write_f32_be(b: BytesWriter, n: float, /) -> None:
    _pack(_F32, b, n)


def write_f64_be(b: BytesWriter, n: float, /) -> None:
    _pack(_F64, b, n)


NAMES: Final = tuple(name for name in globals() if name.startswith(("Bytes", "read_", "write_")))
"""What `penstock.base.wire` hands on."""
