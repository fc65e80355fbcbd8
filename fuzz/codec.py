"""Fuzz the AMQP codec: seeded, aware of the structure, for as long as asked.

    python fuzz/codec.py --seconds 60 --seed 1          run
    python fuzz/codec.py --replay tables 0000000301...  run one input again

Every input is a well-formed table, method, content header, SASL response or stream of frames that
was then damaged: octets flipped, lengths set to extremes, pieces cut out, doubled, moved or taken
from another input, nesting added. Readers may raise ConnectionFault and ChannelFault, nothing else;
what they accept must be written and read again unchanged; frames fed whole and in pieces must give
the same events. One input in 64 is measured: its peak memory may not exceed a bound that is linear
in its size. At the end the process may not have grown. Any failure prints the seed, the number of
the input and its bytes, and exits with 1; so does an input that takes more than ten seconds.
"""

import argparse
import random
import signal
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

import psutil

# Run as a script, Python looks for `fuzz` beside this file and not in the directory above.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz.inputs import (
    FRAME_BYTES_MAX,
    NAMES,
    damage,
    make_header,
    make_response,
    make_stream,
    method_input,
    table_input,
)
from penstock.base.errors import ChannelFault, ConnectionFault
from penstock.base.limits import TABLE_DEPTH_MAX
from penstock.protocol import property_lookup, sasl
from penstock.protocol.content import Event, Message
from penstock.protocol.frames import FrameParser, Received
from penstock.protocol.handshake import judge_header
from penstock.protocol.methods.codec import decode_method, encode_method
from penstock.protocol.properties import decode_properties, encode_properties
from penstock.protocol.values import (
    Table,
    Value,
    decode_fields,
    decode_table,
    encode_table,
    find_field,
    read_field,
    remove_field,
)

BODY_BYTES_MAX = 20_000
GROWTH_BYTES_MAX = 32 * 1024 * 1024
# A field of two octets may become an entry of a dict: about a hundred bytes for one of the input.
PEAK_BYTES_PER_BYTE = 200
PEAK_BYTES_FREE = 256 * 1024
MEASURE_EVERY = 64
INPUT_SECONDS_MAX = 10


class Broken(Exception):
    """A law that does not hold for an input."""


def law(holds: bool, text: str) -> None:
    """Raise Broken unless the law `text` holds."""
    if not holds:
        raise Broken(text)


def refuses(read: Callable[[bytes], object], data: bytes) -> bool:
    """True when `read` answers `data` with a ConnectionFault."""
    try:
        read(data)
    except ConnectionFault:
        return True
    return False


def depth_of(table: Table) -> int:
    """How deep the containers of a table are nested, itself counted."""
    level: list[Table | list[Value]] = [table]
    depth = 0
    while level:
        depth += 1
        held = [list(each.values()) if isinstance(each, dict) else each for each in level]
        level = [value for each in held for value in each if isinstance(value, dict | list)]
    return depth


def read_whole(data: bytes) -> Table:
    table, _ = decode_table(data, 0, len(data))
    return table


def try_table(data: bytes) -> None:
    with suppress(ConnectionFault):
        table, stop = decode_table(data, 0, len(data))
        law(4 <= stop <= len(data), "a table ends within its input")
        law(depth_of(table) <= TABLE_DEPTH_MAX.default, "a table is not nested too deep")
        law(refuses(read_whole, data[: stop - 1]), "a table cut short is refused")
        written = encode_table(table)
        law(encode_table(read_whole(written)) == written, "a table is written and read again")
        for name in NAMES:
            rest = remove_field(data[:stop], name)
            wanted = {key: value for key, value in table.items() if key != name}
            law(
                encode_table(read_whole(rest)) == encode_table(wanted),
                "removing a field leaves the others",
            )
    with suppress(ConnectionFault):
        encode_table(decode_fields(data, 0, len(data)))
    for name in NAMES:
        with suppress(ConnectionFault):
            span = find_field(data, 0, len(data), name)
            law(span is None or 0 < span[0] < span[1] <= len(data), "a field is within its input")
        with suppress(ConnectionFault):
            read_field(data, 0, len(data), name)
        with suppress(ConnectionFault):
            remove_field(data, name)


def try_method(data: bytes) -> None:
    if refuses(decode_method, data):
        return
    written = encode_method(decode_method(data))
    law(encode_method(decode_method(written)) == written, "a method is written and read again")
    law(refuses(decode_method, data[:-1]), "a method cut short is refused")
    law(refuses(decode_method, data + b"\x00"), "an octet behind a method is refused")


def check_header(data: bytes) -> None:
    property_lookup.check_properties(data, property_lookup.PROPERTIES_OFFSET)


def try_header(data: bytes) -> None:
    offset = property_lookup.PROPERTIES_OFFSET
    for at in (offset, 0):
        for look_up in (
            property_lookup.delivery_mode,
            property_lookup.priority,
            property_lookup.expiration,
            property_lookup.reply_to,
            property_lookup.user_id,
            property_lookup.headers_table_span,
        ):
            with suppress(ConnectionFault):
                look_up(data, at)
    with suppress(ConnectionFault):
        properties = decode_properties(data, offset)
        written = encode_properties(properties)
        law(
            encode_properties(decode_properties(written, 0)) == written,
            "properties are written and read again",
        )
    if refuses(check_header, data):
        return
    law(refuses(check_header, data[:-1]), "properties cut short are refused")
    law(refuses(check_header, data + b"\x00"), "an octet behind the properties is refused")
    for bit in range(2, 16):
        property_lookup.property_span(data, offset, 1 << bit)
        without = property_lookup.replace_property(data, 1 << bit, None)
        property_lookup.check_properties(without, offset)


def try_response(data: bytes) -> None:
    judge_header(data[:8])
    for mechanism in (*sasl.MECHANISMS, "EXTERNAL"):
        with suppress(ConnectionFault):
            sasl.parse(mechanism, data)


def told(event: Event | None, message: Message | None) -> tuple[object, ...]:
    """What one `next` has given, comparable."""
    if message is not None:
        law(len(message.body()) == message.body_bytes, "a body is as long as announced")
        law(len(message.header()) == message.header_bytes, "a header is as long as announced")
        return (message.channel, message.address.method, message.raw)
    assert event is not None, "next has said True, so it has given one of the two"
    return (event.kind, event.channel, event.payload, event.tag, event.flag)


def parse_stream(pieces: list[bytes]) -> list[tuple[object, ...]]:
    """Everything a parser tells about the pieces, up to the connection's fault if there is one."""
    parser = FrameParser(FRAME_BYTES_MAX, BODY_BYTES_MAX)
    out = Received()
    heard: list[tuple[object, ...]] = []
    for piece in pieces:
        parser.feed(piece)
        while True:
            try:
                if not parser.next(out):
                    break
            except ChannelFault as fault:
                # Only that channel is closed: the parser discards its content and goes on.
                heard.append(("channel fault", fault.code, parser.faulty_channel))
                continue
            except ConnectionFault as fault:
                heard.append(("connection fault", fault.code))
                return heard
            heard.append(told(out.event, out.message))
        law(parser.unread_bytes() <= FRAME_BYTES_MAX, "at most one frame is carried over")
    return heard


def try_stream(data: bytes) -> None:
    whole = parse_stream([data])
    halves = parse_stream([data[: len(data) // 2], data[len(data) // 2 :]])
    law(halves == whole, "the same events fed in halves")
    if len(data) <= 2000:
        single = parse_stream([data[at : at + 1] for at in range(len(data))])
        law(single == whole, "the same events fed byte by byte")


TARGETS: dict[str, tuple[Callable[[random.Random], bytes], Callable[[bytes], None]]] = {
    "tables": (table_input, try_table),
    "methods": (method_input, try_method),
    "headers": (make_header, try_header),
    "responses": (make_response, try_response),
    "frames": (make_stream, try_stream),
}


def measured(target: Callable[[bytes], None], data: bytes) -> None:
    """Run the target and hold its peak memory to the bound."""
    tracemalloc.start()
    try:
        target(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    allowed = PEAK_BYTES_FREE + PEAK_BYTES_PER_BYTE * len(data)
    law(peak <= allowed, f"peak of {peak} bytes for {len(data)} bytes of input")


def stuck(signal_number: int, frame: FrameType | None) -> None:
    """Break into a target that does not come back."""
    raise Broken(f"no end after {INPUT_SECONDS_MAX} s")


def one(number: int, seed: int, chance: random.Random) -> bool:
    """Make input `number` and run it; False, and a report, when something is wrong with it."""
    name = chance.choice(tuple(TARGETS))
    make, target = TARGETS[name]
    data = damage(chance, make(chance), TARGETS[chance.choice(tuple(TARGETS))][0](chance))
    signal.alarm(INPUT_SECONDS_MAX)
    try:
        if number % MEASURE_EVERY == 0:
            measured(target, data)
        else:
            target(data)
    except Exception as error:
        print(f"seed {seed}, input {number}, {name}: {type(error).__name__}: {error}")
        print(f"replay: python fuzz/codec.py --replay {name} {data.hex()}")
        return False
    finally:
        signal.alarm(0)
    return True


def run(seconds: float, seed: int, count_max: int | None = None) -> int:
    """Fuzz for `seconds`, or for `count_max` inputs if those are fewer. 0 when all was well."""
    signal.signal(signal.SIGALRM, stuck)
    chance = random.Random(seed)
    process = psutil.Process()
    start = time.monotonic()
    base: int | None = None
    number = 0
    while time.monotonic() - start < seconds and (count_max is None or number < count_max):
        number += 1
        if not one(number, seed, chance):
            return 1
        if base is None and number >= 2000:
            base = process.memory_info().rss
    growth = 0 if base is None else process.memory_info().rss - base
    print(f"seed {seed}: {number} inputs in {time.monotonic() - start:.1f} s, grown {growth} bytes")
    if growth > GROWTH_BYTES_MAX:
        print(f"grown by more than {GROWTH_BYTES_MAX} bytes")
        return 1
    return 0


def main() -> int:
    """Read the arguments and run; the exit status."""
    parser = argparse.ArgumentParser(description="Fuzz the AMQP codec.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay", nargs=2, metavar=("TARGET", "HEX"))
    arguments = parser.parse_args()
    if arguments.replay is not None:
        name, data = arguments.replay
        TARGETS[name][1](bytes.fromhex(data))
        print("nothing wrong with it")
        return 0
    return run(arguments.seconds, arguments.seed)


if __name__ == "__main__":
    sys.exit(main())
