"""The way of one durable message through the code: calls, functions, files and jumps between files.

python bench/call_walk.py               one message: publish, confirm, delivery, acknowledgement
python bench/call_walk.py --batch 100   the same for a batch of so many, and what one of it costs
python bench/call_walk.py --calls       with every call in its order
python bench/call_walk.py --pairs       between which files it jumps, and what is called most

A broker in memory with two connections and a store whose disk does its jobs when it is told. What
is counted are calls of functions of the package between the bytes of the publish and the last turn
after the bytes of the acknowledgement; sockets, the poller and the disk's own thread are not there.
It needs the interpreted build: compiled functions tell no profiler of their calls.
"""

import os
import sys
from argparse import ArgumentParser
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import penstock
from penstock.base.chance import Chance
from penstock.base.clock import ManualClock
from penstock.base.config import Config
from penstock.broker.actors.log import Log
from penstock.broker.actors.output import Output, OutputLine, Shell
from penstock.broker.broker import Broker
from penstock.broker.connection.connection import Connection
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.protocol.content import make_content
from penstock.protocol.methods.codec import encode_method, method_frame
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, give_store

PACKAGE = str(Path(penstock.__file__).parent) + os.sep
SLICE_NS = 1_000_000_000
WARM_UP = 50
BODY = b"x" * 1024


class Bytes(Chance):
    """The same names in every run."""

    def token(self, size: int) -> bytes:
        return bytes(size)


class Wire(Output):
    """Takes everything at once. sent: what the client has got."""

    def __init__(self, line: OutputLine) -> None:
        super().__init__(line, 1 << 20)
        self.sent = bytearray()

    def _send(self) -> None:
        self.sent += self.writer.getvalue()
        self.writer.truncate(0)
        self.held_bytes = 0


@dataclass
class Walk:
    """calls: (file, function) in their order; jumps: how often a call left the file of the one
    before it."""

    calls: list[tuple[str, str]] = field(default_factory=list)

    @property
    def files(self) -> set[str]:
        return {file for file, _ in self.calls}

    @property
    def pairs(self) -> Counter[tuple[str, str]]:
        """How often two files follow each other, in either direction."""
        pairs = zip(self.calls, self.calls[1:], strict=False)
        return Counter(
            (min(one, other), max(one, other)) for (one, _), (other, _) in pairs if one != other
        )

    @property
    def jumps(self) -> int:
        return self.pairs.total()


class Bed:
    """A broker with a durable queue `q`, a publisher that confirms, and a consumer that acks."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.broker = Broker(Config(heartbeat_s=0), self.clock, Bytes(), Log(), 1 << 30)
        self.disk = HandDisk()
        self.outputs: list[Wire] = []
        self.connections: list[Connection] = []
        give_store(self.broker, self.disk, SimDisk(), 1 << 24)
        self.publisher = self._connect("publisher")
        self.consumer = self._connect("consumer")
        self.say(self.publisher, method_frame(1, m.QueueDeclare("q", durable=True)))
        self.say(self.publisher, method_frame(1, m.ConfirmSelect()))
        self.say(self.consumer, method_frame(1, m.BasicConsume("q")))
        self.tag = 0

    def _connect(self, name: str) -> int:
        output = Wire(self.broker.scheduler.outputs)
        number = len(self.outputs)
        self.outputs.append(output)
        self.connections.append(self.broker.accept("127.0.0.1", name, output, Shell()))
        for data in (
            PROTOCOL_HEADER,
            method_frame(0, m.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")),
            method_frame(0, m.ConnectionTuneOk(2047, 131_072, 0))
            + method_frame(0, m.ConnectionOpen("/")),
            method_frame(1, m.ChannelOpen()),
        ):
            self.say(number, data)
        return number

    def say(self, number: int, data: bytes) -> None:
        """The client sends `data`; everything that follows from it is done."""
        self.connections[number].receive(data)
        self.run()

    def run(self) -> None:
        while True:
            while self.broker.scheduler.run(SLICE_NS):
                self.clock.advance(1)
            if not self.disk.jobs:
                return
            self.disk.work(len(self.disk.jobs))

    def pass_messages(self, publishes: bytes, count: int) -> None:
        """`count` messages are published, confirmed, delivered and acknowledged."""
        self.say(self.publisher, publishes)
        self.tag += count
        ack = m.BasicAck(self.tag, count > 1)
        self.say(self.consumer, method_frame(1, ack))


def publish(count: int) -> bytes:
    method = encode_method(m.BasicPublish("", "q"))
    header = (
        b"\0\x3c\0\0" + len(BODY).to_bytes(8, "big") + b"\x10\0\x02"
    )  # delivery-mode 2 and no other property
    message = make_content(1, method, header, BODY, 131_072)
    begin = b"\x01\0\x01" + len(method).to_bytes(4, "big")
    return (begin + method + b"\xce" + message.raw) * count


def walk(batch: int) -> Walk:
    """What is called for a batch of `batch` messages, when everything is warm."""
    found = Walk()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        file = code.co_filename.removeprefix(PACKAGE)
        if file != code.co_filename and not file.startswith("simulation"):
            found.calls.append((file.removesuffix(".py"), code.co_qualname))

    bed = Bed()
    data = publish(batch)
    for _ in range(WARM_UP):
        bed.pass_messages(data, batch)
    sys.setprofile(note)
    try:
        bed.pass_messages(data, batch)
    finally:
        sys.setprofile(None)
    queue = bed.broker.vhosts["/"].queues["q"]
    assert queue.messages.publish_count == (WARM_UP + 1) * batch, "all have arrived"
    assert queue.unacked_count == 0 and queue.messages.ready_count() == 0, "and are gone"
    assert b"\x00\x3c\x00\x50" in bed.outputs[bed.publisher].sent, "and were confirmed"
    return found


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--pairs", action="store_true")
    options = parser.parse_args()
    found = walk(options.batch)
    if options.calls:
        for file, function in found.calls:
            print(f"{file:44} {function}")
    if options.pairs:
        for (one, other), count in found.pairs.most_common():
            print(f"{count:5} {one} - {other}")
        for (file, function), count in Counter(found.calls).most_common(40):
            print(f"{count:5} {file} {function}")
    functions = len(set(found.calls))
    print(
        f"{len(found.calls)} calls of {functions} functions in {len(found.files)} files, ", end=""
    )
    print(f"{found.jumps} jumps between files")
    if options.batch > 1:
        print(f"{len(found.calls) / options.batch:.1f} calls a message")


if __name__ == "__main__":
    main()
