"""The one import point for wire primitives: big-endian reads and writes, and a growing byte buffer.

Compiled code gets the native versions of `librt.strings` (mypyc recognises the names through this
module). Where librt has no wheel, `penstock.base.wire_pure` stands in with the same behaviour.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from librt.strings import BytesWriter as BytesWriter
    from librt.strings import read_f32_be as read_f32_be
    from librt.strings import read_f64_be as read_f64_be
    from librt.strings import read_i16_be as read_i16_be
    from librt.strings import read_i32_be as read_i32_be
    from librt.strings import read_i64_be as read_i64_be
    from librt.strings import write_f32_be as write_f32_be
    from librt.strings import write_f64_be as write_f64_be
    from librt.strings import write_i16_be as write_i16_be
    from librt.strings import write_i32_be as write_i32_be
    from librt.strings import write_i64_be as write_i64_be
    from librt.strings import write_i64_le as write_i64_le
else:
    from penstock.base import wire_pure

    try:
        from librt import strings as primitives
    except ImportError:
        primitives = wire_pure
    for _name in wire_pure.NAMES:
        globals()[_name] = getattr(primitives, _name)
