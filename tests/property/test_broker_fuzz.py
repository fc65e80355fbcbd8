"""Spoilt methods, publishes and bytes go through the whole broker, and it never says 541.

`PENSTOCK_FUZZ_SESSIONS` sets how many sessions a seed has; each is some 30 connections.
"""

import os
import random

import pytest

from penstock.broker.connection.phases import PHASE_CLOSING
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import encode_method
from tests.unit.broker.peer import Bed, Peer, frame, publish

SESSIONS = int(os.environ.get("PENSTOCK_FUZZ_SESSIONS", "60"))
PIECES = 20
CONNECTIONS = 30
HEADER = b"AMQP\0\0\x09\x01"
NUMBERS = (
    *(bytes.fromhex(one) for one in ("8000", "ffff", "7fff", "0000", "80000000", "ffffffff")),
    *(bytes.fromhex(one) for one in ("8000000000000000", "ffffffffffffffff", "00" * 8)),
)
"""What goes wrong where a sign, a length or an end is not looked at."""
PROPERTIES = (
    (0, b""),
    (0x1000, b"\x02"),
    (0x2000, b"\0\0\0\x05\x01aI\xff\xff"),
    (0x8000, b"\x03abc"),
    (0xFFFF, b"\x07" * 20),
)


def encoded() -> list[bytes]:
    """Every method there is, as far as it has defaults, and some that do something."""
    found = [
        encode_method(m.QueueDeclare("q", durable=True, arguments={"x-max-length": 3, "a": [1]})),
        encode_method(m.QueueBind("q", "amq.topic", "a.#", arguments={"x-match": "all"})),
        encode_method(m.ExchangeDeclare("e", "headers")),
        encode_method(m.BasicConsume("q", "t", arguments={"x-priority": 1})),
        encode_method(m.BasicGet("q")),
        encode_method(m.BasicAck(1, True)),
    ]
    for kind in vars(m).values():
        if isinstance(kind, type) and issubclass(kind, m.Method) and kind is not m.Method:
            try:
                found.append(encode_method(kind()))
            except TypeError:
                continue
    return found


METHODS = encoded()


def spoilt(dice: random.Random, data: bytes) -> bytes:
    """`data` with up to three changes."""
    changed = bytearray(data)
    for _ in range(dice.choice((0, 1, 1, 2, 3))):
        at = dice.randrange(len(changed) + 1)
        number = dice.choice(NUMBERS)
        match dice.randrange(4):
            case 0 if changed:
                changed[at % len(changed)] ^= 1 << dice.randrange(8)
            case 1:
                changed[at : at + len(number)] = number
            case 2:
                del changed[at : at + dice.randrange(1, 5)]
            case _:
                changed[at:at] = dice.randbytes(dice.randrange(1, 9))
    return bytes(changed)


def piece(dice: random.Random) -> bytes:
    channel = dice.choice((0, 1, 1, 1, 2, 3, 32768, 65535))
    kind = dice.randrange(10)
    if kind < 6:
        return frame(
            dice.choice((1,) * 7 + (2, 3, 4, 8)), channel, spoilt(dice, dice.choice(METHODS))
        )
    if kind < 9:
        exchange = dice.choice(("", "amq.topic", "amq.headers", "e"))
        body = dice.randbytes(dice.choice((0, 1, 50)))
        return spoilt(dice, publish(channel, exchange, "q", body, dice.choice(PROPERTIES)))
    return dice.randbytes(dice.randrange(1, 40))


def session(seed: int) -> int:
    """One broker; how many pieces it was sent by connections that were still open."""
    dice = random.Random(seed)
    bed = Bed()
    count = 0
    for _ in range(CONNECTIONS):
        if dice.random() < 0.25:
            peer = Peer(bed, "stranger")
            peer.send(spoilt(dice, HEADER) if dice.random() < 0.3 else HEADER)
        else:
            peer = bed.connect("peer", channels=2)
        for _ in range(PIECES):
            if peer.shell.is_closed or peer.connection.phase >= PHASE_CLOSING:
                break
            peer.send(piece(dice))
            bed.run()
            count += 1
            assert bed.log.errors == [], f"seed {seed}"
    return count


@pytest.mark.parametrize("seed", range(4))
def test_nothing_spoilt_is_an_internal_error(seed: int) -> None:
    count = sum(session(seed * SESSIONS + number) for number in range(SESSIONS))
    assert count > 20 * SESSIONS, "most were taken by connections that were open"


@pytest.mark.parametrize("channel", [0, 1, 2, 65535])
@pytest.mark.parametrize("identity", [0x8000000A, 0xFFFFFFFF, 0x80000000, 0x000A8000])
def test_a_class_or_method_above_0x8000_is_a_protocol_error(channel: int, identity: int) -> None:
    bed = Bed()
    peer = bed.connect("peer", channels=1)
    peer.send(frame(1, channel, identity.to_bytes(4, "big") + bytes(8)))
    bed.run()
    assert bed.log.errors == [] and peer.connection.phase >= PHASE_CLOSING
    closes = [one.method for one in peer.heard() if isinstance(one.method, m.ConnectionClose)]
    assert [one.reply_code for one in closes] in ([503], [504])
