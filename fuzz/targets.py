"""What is fuzzed, each by a function of bytes that ends well whatever they are.

    codec       tables, methods, headers, SASL responses and frames: fuzz/codec.py
    connection  the handshake, and methods and publishes on open channels, through the whole broker
    control     questions of the control socket to a node that has queues and users
    log         the files of a message store, spoilt, at a start
    stream      those of a stream

A target raises nothing: refusals in words (OperatorError, faults of the protocol) are answers, and
everything else is a bug. `Choices` turns bytes into decisions, so that an input that was found
once means the same ever after.
"""

import asyncio
import tempfile
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, suppress
from functools import cache
from pathlib import Path

import msgspec

from fuzz.codec import TARGETS as CODEC
from penstock.base.errors import OperatorError
from penstock.base.steps import whole
from penstock.broker.connection.phases import PHASE_CLOSING
from penstock.server.boot.node import Node
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.layout.files import read_fully
from penstock.storage.recovery.recovery import recover
from penstock.streams.recovery import recover_streams
from tests.property.test_broker_fuzz import HEADER, METHODS, NUMBERS, PROPERTIES
from tests.unit.broker.peer import Bed, Peer, frame, publish
from tests.unit.server.wire import running
from tests.unit.storage.making import filled, flush
from tests.unit.streams.test_log import Shelf

PIECES_MAX = 12
NODE_INPUTS = 2000


class Choices:
    """Decisions from `data`, from its beginning; 0 when it has no more."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        found = self.data[self.at : self.at + count]
        self.at += count
        return found

    def below(self, bound: int) -> int:
        """0..bound-1, bound up to 65,536."""
        return int.from_bytes(self.take(1 if bound <= 256 else 2), "big") % bound

    def is_over(self) -> bool:
        return self.at >= len(self.data)

    def spoil(self, whole_one: bytes) -> bytes:
        """`whole_one` with up to three changes."""
        changed = bytearray(whole_one)
        for _ in range(self.below(4)):
            at = self.below(65_536) % (len(changed) + 1)
            match self.below(4):
                case 0 if changed:
                    changed[at % len(changed)] ^= 1 << self.below(8)
                case 1:
                    number = NUMBERS[self.below(len(NUMBERS))]
                    changed[at : at + len(number)] = number
                case 2:
                    del changed[at : at + 1 + self.below(64)]
                case _:
                    changed[at:at] = self.take(1 + self.below(16))
        return bytes(changed)


def try_codec(data: bytes) -> None:
    choices = Choices(data)
    name = list(CODEC)[choices.below(len(CODEC))]
    CODEC[name][1](data[1:])


def _piece(choices: Choices) -> bytes:
    channel = (0, 1, 1, 1, 2, 3, 32_768, 65_535)[choices.below(8)]
    kind = choices.below(10)
    if kind < 6:
        number = (1, 1, 1, 1, 1, 2, 3, 8)[choices.below(8)]
        return frame(number, channel, choices.spoil(METHODS[choices.below(len(METHODS))]))
    if kind < 9:
        exchange = ("", "amq.topic", "amq.headers", "e")[choices.below(4)]
        properties = PROPERTIES[choices.below(len(PROPERTIES))]
        body = choices.take(choices.below(40))
        return choices.spoil(publish(channel, exchange, "q", body, properties))
    return choices.take(1 + choices.below(40))


def try_connection(data: bytes) -> None:
    """Nothing is an internal error, and who was refused is closed."""
    choices = Choices(data)
    bed = Bed()
    if choices.below(4) == 0:
        peer = Peer(bed, "stranger")
        peer.send(choices.spoil(HEADER))
    else:
        peer = bed.connect("peer", channels=2)
    for _ in range(PIECES_MAX):
        if choices.is_over() or peer.shell.is_closed or peer.connection.phase >= PHASE_CLOSING:
            break
        peer.send(_piece(choices))
        bed.run()
    assert bed.log.errors == [], bed.log.errors


FIELDS = (
    *("op", "do", "vhost", "queue", "name", "kind", "window_s", "limit", "format", "pattern"),
    *("user", "password_hash", "hashing", "tags", "configure", "write", "read", "exchange"),
    *("definition", "apply_to", "priority", "setting", "value", "seconds", "all", "scope"),
    *("definitions", "by", "subject", "actor", "offset", "count", "group", "key", "limits"),
)
NAMES = (
    *("why", "status", "flow edges", "flow accounts", "flow alarms", "flow settings", "flow set"),
    *("flow top", "queues list", "queues pause", "queues resume", "queues release"),
    *("queues readers", "policies list", "policies set", "policies clear", "policies export"),
    *("limits list", "limits set", "limits clear", "users list", "users add", "users delete"),
    *("users change-password", "users set-tags", "vhosts list", "vhosts add", "vhosts delete"),
    *("permissions list", "permissions set", "permissions clear", "permissions set-topic"),
    *("permissions clear-topic", "definitions export", "definitions import", "store", "events"),
    *("record status", "record list", "nothing"),
)
TEXTS = ("", "q", "/", "guest", "publish", "memory", "queue", "*", "a" * 300, "\x00", "[", "peer")


def _value(choices: Choices, depth: int = 0) -> object:
    match choices.below(9 if depth < 4 else 7):
        case 0:
            return None
        case 1:
            return choices.below(2) == 1
        case 2:
            return int.from_bytes(choices.take(choices.below(9)), "big", signed=True)
        case 3:
            return (0.5, -1.0, 1e308, 1e-308, 2.0**63)[choices.below(5)]
        case 4 | 5:
            return TEXTS[choices.below(len(TEXTS))]
        case 6:
            return choices.take(choices.below(20)).decode("utf-8", "replace")
        case 7:
            return [_value(choices, depth + 1) for _ in range(choices.below(4))]
        case _:
            return {
                FIELDS[choices.below(len(FIELDS))]: _value(choices, depth + 1)
                for _ in range(choices.below(4))
            }


class Asked:
    """One node after the other, each for as many inputs as make it no slower."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.stack = AsyncExitStack()
        self.node: Node | None = None
        self.left = 0

    def answer(self, fields: dict[str, object]) -> None:
        """Asks one question. Raises: what is no refusal."""
        node = self.node
        assert node is not None and node.control is not None, "it was started"
        with suppress(OperatorError):
            found = node.control.answer(fields)
            msgspec.json.encode(whole(found) if isinstance(found, Generator) else found)

    def begin(self) -> None:
        """An input begins; the node gets a turn."""
        self.left -= 1
        if self.node is None or self.left <= 0:
            self.loop.run_until_complete(self._renew())
            self.left = NODE_INPUTS
        assert self.node is not None, "it was made now"
        self.node.tick()

    async def _renew(self) -> None:
        await self.stack.aclose()
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.node = await self.stack.enter_async_context(running(Path(folder)))


@cache
def asked() -> Asked:
    return Asked()


def try_control(data: bytes) -> None:
    choices = Choices(data)
    asked().begin()
    while not choices.is_over():
        op, _, do = NAMES[choices.below(len(NAMES))].partition(" ")
        fields: dict[str, object] = {"op": op, "do": do} if do else {"op": op}
        for _ in range(choices.below(5)):
            fields[FIELDS[choices.below(len(FIELDS))]] = _value(choices)
        if fields.get("op") == "record" and fields.get("do") == "save":
            continue
        if "definitions" in fields:
            fields["definitions"] = msgspec.Raw(msgspec.json.encode(fields["definitions"]))
        asked().answer(fields)


def try_log(data: bytes) -> None:
    """Every start ends, and what comes back is what was there, unspoilt."""
    choices = Choices(data)
    disk, log, index = filled(8)
    if choices.below(2):
        log.settle_below(index, choices.below(8))
        log.mark_safe()
        flush(log, must_sync=False)
    if choices.below(3) == 0:
        log.take_last_batch().run()
    image = {name: choices.spoil(content) for name, content in disk.contents().items()}
    with suppress(OperatorError):
        found = recover(SimDisk(image), Dice(5), 4096, {1})
        job = found.log.plan_reads(found.queues[1], 1, 1000, 1_000_000)
        job.run()
        for one in job.found:
            assert one.message.body().rstrip(b".").isdigit(), "only what was written comes back"


def try_stream(data: bytes) -> None:
    choices = Choices(data)
    shelf = Shelf(segment_bytes=600)
    for _ in range(1 + choices.below(6)):
        shelf.write(1 + choices.below(4))
    image: dict[str, bytes] = {}
    for name in shelf.files.names():
        file = shelf.files.open(name)
        image[name] = choices.spoil(read_fully(file, 0, file.size()))
    with suppress(OperatorError):
        recover_streams(SimDisk(image), Dice(5), {1: shelf.retention})


TARGETS: dict[str, Callable[[bytes], None]] = {
    "codec": try_codec,
    "connection": try_connection,
    "control": try_control,
    "log": try_log,
    "stream": try_stream,
}
