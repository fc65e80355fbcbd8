"""How many calls of the broker's own functions one persistent message costs, and which.

    python bench/call_count.py                 100 messages in a batch
    python bench/call_count.py --batch 1       one
    python bench/call_count.py --smoke         few of them: does it run?

A message is published to a durable queue, confirmed, delivered and acknowledged together with its
batch, in one process without sockets, on a disk in memory. Counted are calls of Python functions
below src/penstock, interpreted, which do not depend on what else the machine does.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from penstock.base.clock import ManualClock
from penstock.base.config import Config
from penstock.broker.actors.log import Log
from penstock.broker.actors.output import Output
from penstock.broker.actors.shell import Shell
from penstock.broker.broker import Broker
from penstock.broker.connection.reader import Connection
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.protocol.content import make_content
from penstock.protocol.frames import FrameParser, Received
from penstock.protocol.methods.codec import decode_method, method_frame
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.keeping import HandDisk, give_store
from penstock.storage.log.log import MessageLog

BODY_BYTES: Final = 1024
SLICE_NS: Final = 1_000_000
READ_BYTES: Final = 65_536
PERSISTENT: Final = b"\x10\x00\x02"
PACKAGE: Final = str(Path(sys.modules[Broker.__module__].__file__ or "").parents[1])
# What is not the broker's.
OTHERS: Final = ("simulation", "client")


class Collected(Output):
    """Takes everything the broker writes."""

    sent = b""

    def _send(self) -> None:
        self.sent += self.writer.getvalue()
        self.writer.truncate(0)


class Silent(Shell):
    """A socket that is always ready."""


class Bench:
    """A broker in memory with a store, a publisher that confirms and a consumer."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.clock = ManualClock()
        self.broker = Broker(Config(heartbeat_s=0), self.clock, Dice(1), Log(), 1 << 30)
        self.disk = HandDisk()
        give_store(self.broker, self.disk, SimDisk(), 1 << 24)
        self.publisher, self.answers = self.connect("publisher")
        self.consumer, self.deliveries = self.connect("consumer")
        self.say(self.publisher, m.QueueDeclare("q", durable=True), m.ConfirmSelect())
        self.say(self.consumer, m.BasicQos(0, 2 * batch, False), m.BasicConsume("q", "c"))
        header = b"\x00\x3c\x00\x00" + BODY_BYTES.to_bytes(8, "big") + PERSISTENT
        content = make_content(1, b"", header, bytes(BODY_BYTES), 131_072)
        self.input = (method_frame(1, m.BasicPublish("", "q")) + content.raw) * batch
        self.parser = FrameParser(0, 1 << 40)
        self.counts: Counter[str] = Counter()
        self.work()
        self.deliveries.sent = self.answers.sent = b""

    def connect(self, name: str) -> tuple[Connection, Collected]:
        output = Collected(self.broker.scheduler.outputs, 1 << 24)
        connection = self.broker.accept("127.0.0.1", name, output, Silent())
        self.give(connection, PROTOCOL_HEADER)
        plain = m.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")
        self.say(
            connection, plain, m.ConnectionTuneOk(2047, 131_072, 0), m.ConnectionOpen("/"), on=0
        )
        self.say(connection, m.ChannelOpen())
        return connection, output

    def say(self, connection: Connection, *methods: m.Method, on: int = 1) -> None:
        for method in methods:
            self.give(connection, method_frame(on, method))

    def give(self, connection: Connection, data: bytes) -> None:
        """Bytes, as large as a read, and everything that follows from them."""
        for at in range(0, len(data), READ_BYTES):
            connection.receive(data[at : at + READ_BYTES])
            self.run()

    def run(self) -> None:
        while self.broker.scheduler.run(SLICE_NS):
            self.clock.advance(1)

    def work(self) -> None:
        """The disk does everything there is."""
        while self.disk.work():
            self.run()

    def round(self, is_counted: bool) -> None:
        """One batch, from its bytes to its acknowledgements."""
        if is_counted:
            sys.setprofile(self.count)
        self.give(self.publisher, self.input)
        self.work()
        sys.setprofile(None)
        tag = self.last_tag()
        ack = method_frame(1, m.BasicAck(tag, True))
        if is_counted:
            sys.setprofile(self.count)
        self.give(self.consumer, ack)
        self.work()
        sys.setprofile(None)

    def last_tag(self) -> int:
        """Of the last delivery; all of the batch were made, and confirmed."""
        self.parser.feed(self.deliveries.sent)
        received = Received()
        found = []
        while self.parser.next(received):
            if received.message is not None:
                method = decode_method(received.message.method)
                assert isinstance(method, m.BasicDeliver), "nothing else has content"
                found.append(method.delivery_tag)
        assert len(found) == self.batch and self.answers.sent, "everything arrives"
        self.deliveries.sent = self.answers.sent = b""
        return int(found[-1])

    def count(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            where = frame.f_code.co_filename[len(PACKAGE) + 1 :]
            if not where.startswith(OTHERS):
                self.counts[f"{where}:{frame.f_code.co_qualname}"] += 1


def counted(batch: int, rounds: int) -> Counter[str]:
    """Calls of `rounds` batches, by function."""
    bench = Bench(batch)
    for number in range(2 * rounds):
        bench.round(number >= rounds)
    return bench.counts


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/call_count.py", description=__doc__)
    parser.add_argument("--batch", type=int, default=100, help="messages of a batch (100)")
    parser.add_argument("--rounds", type=int, default=20, help="batches that are counted (20)")
    parser.add_argument("--top", type=int, default=40, help="functions that are shown (40)")
    parser.add_argument("--smoke", action="store_true", help="two batches of ten")
    options = parser.parse_args(words)
    if type(MessageLog.append).__name__ != "function":
        print("this installation is compiled, where calls cannot be counted", file=sys.stderr)
        return 2
    batch, rounds = (10, 2) if options.smoke else (options.batch, options.rounds)
    counts = counted(batch, rounds)
    messages = batch * rounds
    print(f"{sum(counts.values()) / messages:.1f} calls a message, in batches of {batch}")
    for name, count in counts.most_common(options.top):
        print(f"{count / messages:8.2f}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
