"""Inputs for fuzzing the AMQP codec: well-formed ones, and the damage done to them.

Everything is drawn from one seeded source, so that a seed and a number give the same bytes again.
"""

import math
import random
from collections.abc import Callable
from decimal import Decimal

from penstock.protocol.constants import CONTENT_METHODS, HEARTBEAT_FRAME
from penstock.protocol.integers import Timestamp
from penstock.protocol.methods import Method
from penstock.protocol.methods.base import WireType
from penstock.protocol.methods.codec import METHODS, encode_method, method_frame
from penstock.protocol.properties import Properties, encode_header_payload
from penstock.protocol.values import Table, Value, encode_table

FRAME_BYTES_MAX = 4096
EXTREMES = (0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
KINDS = b"tbBsuIilLfdDSATFVx"
NAMES = ("", "a", "CC", "BCC", "x-death", "LOGIN", "PASSWORD", "é", "n" * 255)


def make_value(chance: random.Random, depth: int) -> Value:
    pick = chance.randrange(12 if depth < 5 else 10)
    if pick == 0:
        return chance.choice((True, False, None))
    if pick == 1:
        return chance.choice((0, 1, -1, 2**31 - 1, 2**31, -(2**63), 2**63 - 1))
    if pick == 2:
        return chance.getrandbits(chance.randrange(1, 63))
    if pick == 3:
        return chance.choice((0.0, -1.5, math.inf, chance.random()))
    if pick == 4:
        return Decimal(f"{chance.getrandbits(32)}E-{chance.randrange(256)}")
    if pick == 5:
        return Timestamp(chance.getrandbits(64))
    if pick == 6:
        return bytearray(chance.randbytes(chance.randrange(20)))
    if pick == 7:
        return b"\xff" + chance.randbytes(chance.randrange(20))
    if pick < 10:
        return "é" * chance.randrange(10)
    if pick == 10:
        return [make_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return make_table(chance, depth + 1)


def make_table(chance: random.Random, depth: int = 0) -> Table:
    return {chance.choice(NAMES): make_value(chance, depth) for _ in range(chance.randrange(5))}


def make_text(chance: random.Random) -> str:
    return chance.choice(("", "q", "amq.topic", "a.b.#", "ü" * 127, "x" * 255))


def make_argument(chance: random.Random, wire: WireType) -> object:
    if wire == "bit":
        return chance.random() < 0.5
    if wire == "shortstr":
        return make_text(chance)
    if wire == "longstr":
        return chance.randbytes(chance.randrange(40))
    if wire == "table":
        return make_table(chance)
    size = {"octet": 8, "short": 16, "long": 32, "longlong": 64}[wire]
    return chance.choice((0, 1, (1 << size) - 1, chance.getrandbits(size)))


def make_method(chance: random.Random) -> Method:
    found = METHODS[chance.choice(tuple(METHODS))]
    make: Callable[..., Method] = found
    return make(
        *(
            make_argument(chance, wire)
            for name, wire in found.FIELDS
            if not name.startswith("reserved_")
        )
    )


def make_properties(chance: random.Random) -> Properties:
    def maybe(value: str) -> str | None:
        return value if chance.random() < 0.4 else None

    return Properties(
        content_type=maybe("text/plain"),
        headers=make_table(chance) if chance.random() < 0.6 else None,
        delivery_mode=chance.choice((None, 0, 1, 2, 255)),
        priority=chance.choice((None, 0, 9, 255)),
        correlation_id=maybe(make_text(chance)),
        reply_to=maybe("amq.rabbitmq.reply-to"),
        expiration=maybe("60000"),
        timestamp=chance.choice((None, 0, 2**64 - 1)),
        user_id=maybe("guest"),
        cluster_id=maybe(make_text(chance)),
    )


def make_header(chance: random.Random) -> bytes:
    return encode_header_payload(chance.choice((0, 5, 2**63, 2**64 - 1)), make_properties(chance))


def make_response(chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        return b"\0guest\0" + make_text(chance).encode()
    login: Table = {"LOGIN": make_value(chance, 5), "PASSWORD": make_value(chance, 5)}
    return encode_table(login)[4:]


def make_frame(kind: int, channel: int, payload: bytes) -> bytes:
    size = len(payload).to_bytes(4, "big")
    return bytes([kind]) + channel.to_bytes(2, "big") + size + payload + b"\xce"


def make_stream(chance: random.Random) -> bytes:
    parts: list[bytes] = []
    for _ in range(chance.randrange(1, 6)):
        channel = chance.choice((0, 1, 2, 65_535))
        method = make_method(chance)
        parts.append(method_frame(channel, method))
        if (method.CLASS_ID, method.METHOD_ID) in CONTENT_METHODS:
            body = chance.randbytes(chance.choice((0, 1, 50, 5000, 21_000)))
            header = encode_header_payload(len(body), make_properties(chance))
            parts.append(make_frame(2, channel, header))
            step = chance.choice((20, FRAME_BYTES_MAX - 8))
            if len(body) > 100:
                step = FRAME_BYTES_MAX - 8
            for at in range(0, len(body), step):
                parts.append(make_frame(3, channel, body[at : at + step]))
        if chance.random() < 0.2:
            parts.append(HEARTBEAT_FRAME)
    if chance.random() < 0.3:
        chance.shuffle(parts)
    return b"".join(parts)


def nested(levels: int, opening: bytes) -> bytes:
    """`levels` openings (name and type octet, or type octet) with the lengths that belong there."""
    step = len(opening) + 4
    parts = [opening + (step * (levels - level - 1)).to_bytes(4, "big") for level in range(levels)]
    return b"".join(parts)


def table_input(chance: random.Random) -> bytes:
    if chance.random() < 0.95:
        return encode_table(make_table(chance))
    fields = nested(chance.choice((1, 30, 31, 32, 33, 1000)), b"\x01aF")
    return len(fields).to_bytes(4, "big") + fields


def method_input(chance: random.Random) -> bytes:
    return encode_method(make_method(chance))


def nest(chance: random.Random, data: bytearray) -> None:
    """Put many openings of nested tables or arrays somewhere."""
    at = chance.randrange(len(data) + 1)
    data[at:at] = nested(
        chance.choice((2, 31, 32, 33, 200)), chance.choice((b"\x01aF", b"A", b"\x00F"))
    )


def mend(chance: random.Random, data: bytearray) -> None:
    """Set a 4-byte length so that it fits what follows, or just does not."""
    if len(data) >= 4:
        at = chance.choice((0, chance.randrange(len(data) - 3)))
        size = max(0, len(data) - at - 4 + chance.choice((-1, 0, 0, 0, 1)))
        data[at : at + 4] = size.to_bytes(4, "big")


def damage(chance: random.Random, good: bytes, other: bytes) -> bytes:
    data = bytearray(good)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(data) + 1)
        length = chance.choice((1, 1, 2, 4, 8, 30))
        pick = chance.randrange(10)
        if pick == 0 and data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        elif pick == 1 and data:
            data[at % len(data)] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
        elif pick == 2 and data:
            data[at % len(data)] = chance.choice(KINDS)
        elif pick == 3:
            size = chance.choice((1, 2, 4, 8))
            extreme = chance.choice(EXTREMES) & ((1 << 8 * size) - 1)
            data[at : at + size] = extreme.to_bytes(size, "big")
        elif pick == 4:
            del data[at : at + length]
        elif pick == 5:
            data[at:at] = data[at : at + length]
        elif pick == 6:
            data[at:at] = chance.randbytes(length)
        elif pick == 7:
            start = chance.randrange(len(other) + 1)
            data[at:at] = other[start : start + chance.choice((4, 30, 300))]
        elif pick == 8:
            nest(chance, data)
        else:
            mend(chance, data)
    if chance.random() < 0.1:
        del data[chance.randrange(len(data) + 1) :]
    return bytes(data)
