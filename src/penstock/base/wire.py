"""The one import point for wire primitives: big-endian reads and writes, and a growing byte buffer.

Compiled code gets the native versions of `librt.strings` (mypyc recognises the names through this
module). Where librt has no wheel, `penstock.base.wire_pure` stands in with the same behaviour.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from librt.strings import (
        BytesWriter,
        read_f32_be,
        read_f64_be,
        read_i16_be,
        read_i32_be,
        read_i64_be,
        write_f32_be,
        write_f64_be,
        write_i16_be,
        write_i32_be,
        write_i64_be,
        write_i64_le,
    )
else:
    try:
        from librt.strings import (
            BytesWriter,
            read_f32_be,
            read_f64_be,
            read_i16_be,
            read_i32_be,
            read_i64_be,
            write_f32_be,
            write_f64_be,
            write_i16_be,
            write_i32_be,
            write_i64_be,
            write_i64_le,
        )
    except ImportError:
        from penstock.base.wire_pure import (
            BytesWriter,
            read_f32_be,
            read_f64_be,
            read_i16_be,
            read_i32_be,
            read_i64_be,
            write_f32_be,
            write_f64_be,
            write_i16_be,
            write_i32_be,
            write_i64_be,
            write_i64_le,
        )

__all__ = [
    "BytesWriter",
    "read_f32_be",
    "read_f64_be",
    "read_i16_be",
    "read_i32_be",
    "read_i64_be",
    "write_f32_be",
    "write_f64_be",
    "write_i16_be",
    "write_i32_be",
    "write_i64_be",
    "write_i64_le",
]
