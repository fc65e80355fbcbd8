"""What a message costs: instructions of the broker, counted by valgrind.

    python bench/instructions.py                 five rows, two minutes
    python bench/instructions.py --only d16      one of them
    python bench/instructions.py --smoke         briefly, without valgrind: does it run?

The rows are those of the benchmark (`bench/run.py`), with a broker in memory and its clients in one
process: what is counted is the way from a socket that has input to bytes that are sent, and what
the clients do in between, which is some hundred instructions for each of their calls. The kernel is
not counted. Counting begins when everything is warm. Instructions are the same on a
busy machine, so a change of one per cent is seen; what they take in time is not said by them.
The compiled broker is what is meant: run it with the Python of `make install`.
"""

import argparse
import asyncio
import shutil
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.call_walk import SLICE_NS, Bytes
from bench.permission_cost import control, counted
from penstock.base.clock import ManualClock
from penstock.base.config import Config
from penstock.broker.actors.log import Log
from penstock.broker.broker import Broker
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.protocol.content import make_content
from penstock.protocol.methods.codec import encode_method, method_frame
from penstock.server.net.lingering import Lingering
from penstock.server.net.poller import Poller, Watched
from penstock.server.net.sockets import SocketShell

BATCH: Final = 50
"""Publishes of one client that are read together, where it does not wait for each."""
WARM_UP: Final = 2_000
COUNTED: Final = 10_000
READ_BYTES: Final = 1 << 18
ROUNDS_MAX: Final = (WARM_UP + COUNTED) // BATCH + 2
ROWS: Final = ("a16", "b1k1", "d16", "q8", "pp50")


class NoPoller(Poller):
    """The bed knows itself which socket has input."""

    def watch(self, sock: socket.socket, watched: Watched, interest: int) -> None:
        pass

    def change(self, sock: socket.socket, watched: Watched, interest: int) -> None:
        pass


class Client:
    """The peer of one connection of the broker."""

    def __init__(self, bed: "Bed", name: str) -> None:
        self.sock, theirs = socket.socketpair()
        for sock in (self.sock, theirs):
            sock.setblocking(False)
        broker = bed.broker
        self.shell = SocketShell(
            broker, bed.poller, theirs, "127.0.0.1", name, bed.shells, bed.lingering
        )

    def send(self, data: bytes) -> None:
        """The broker reads it, and does nothing yet."""
        sent = self.sock.send(data)
        assert sent == len(data), "it fits into the socket"
        self.shell.readable()

    def drop(self) -> None:
        """Read what has come, unlooked at."""
        with suppress(BlockingIOError):
            while len(self.sock.recv(READ_BYTES)) == READ_BYTES:
                pass


class Bed:
    """A broker, publishers and consumers. Each publisher has a queue of its own, with a consumer;
    in d16 one has five."""

    def __init__(self, row: str) -> None:
        self.clock = ManualClock()
        self.broker = Broker(Config(heartbeat_s=0), self.clock, Bytes(), Log(), 1 << 30)
        loop = asyncio.new_event_loop()
        self.poller = NoPoller(loop, self.broker.scheduler)
        self.lingering = Lingering(loop, 0)
        self.shells: set[SocketShell] = set()
        self.is_acked = row in ("b1k1", "q8")
        self.is_confirmed = self.is_acked or row == "pp50"
        self.batch = 1 if row == "pp50" else BATCH
        self.exchange = "amq.fanout" if row == "d16" else ""
        self.body = b"x" * (1024 if row == "b1k1" else 16)
        self.publishers = [self._connect() for _ in range({"q8": 8, "pp50": 50}.get(row, 1))]
        self.consumers: list[Client] = []
        self.rounds = 0
        for number, publisher in enumerate(self.publishers):
            if self.is_confirmed:
                self.say(publisher, method_frame(1, m.ConfirmSelect()))
            for copy in range(5 if row == "d16" else 1):
                self._consume(f"queue-{number}-{copy}")
        self.data = [self._publishes(f"queue-{n}-0") for n in range(len(self.publishers))]
        # Made before, because making them is not the broker's work.
        self.acks = [self._acks(number) for number in range(ROUNDS_MAX if self.is_acked else 0)]

    def _connect(self) -> Client:
        client = Client(self, f"client-{len(self.broker.connections)}")
        for data in (
            PROTOCOL_HEADER,
            method_frame(0, m.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")),
            method_frame(0, m.ConnectionTuneOk(2047, 131_072, 0))
            + method_frame(0, m.ConnectionOpen("/")),
            method_frame(1, m.ChannelOpen()),
        ):
            self.say(client, data)
        return client

    def _consume(self, queue: str) -> None:
        consumer = self._connect()
        self.say(consumer, method_frame(1, m.QueueDeclare(queue)))
        if self.exchange:
            self.say(consumer, method_frame(1, m.QueueBind(queue, self.exchange, "")))
        self.say(consumer, method_frame(1, m.BasicConsume(queue, no_ack=not self.is_acked)))
        self.consumers.append(consumer)

    def _publishes(self, key: str) -> bytes:
        method = encode_method(m.BasicPublish(self.exchange, key))
        header = b"\0\x3c\0\0" + len(self.body).to_bytes(8, "big") + b"\x10\0\x01"
        message = make_content(1, method, header, self.body, 131_072)
        begin = b"\x01\0\x01" + len(method).to_bytes(4, "big")
        return (begin + method + b"\xce" + message.raw) * self.batch

    def _acks(self, number: int) -> bytes:
        """Of what the round with this number has delivered to one consumer."""
        tags = range(number * self.batch + 1, (number + 1) * self.batch + 1)
        return b"".join(method_frame(1, m.BasicAck(tag)) for tag in tags)

    def say(self, client: Client, data: bytes) -> None:
        """It sends that, and nobody else anything."""
        client.send(data)
        self.run()
        client.drop()

    def run(self) -> None:
        """Everything that is to be done."""
        while self.broker.scheduler.run(SLICE_NS):
            self.clock.advance(1)

    def round(self) -> int:
        """Every publisher sends what it sends at once; how many messages."""
        for publisher, data in zip(self.publishers, self.data, strict=True):
            publisher.send(data)
        self.run()
        if self.is_acked:
            for consumer in self.consumers:
                consumer.send(self.acks[self.rounds])
            self.run()
        for client in (*self.publishers, *self.consumers):
            client.drop()
        self.rounds += 1
        return self.batch * len(self.publishers)


def work(row: str, count: int, is_counted: bool) -> int:
    """Pass at least `count` messages when everything is warm; how many. Raises: AssertionError."""
    bed = Bed(row)
    warm = done = 0
    while warm < WARM_UP:
        warm += bed.round()
    if is_counted:
        control("-i", "on")
    while done < count:
        done += bed.round()
    if is_counted:
        control("-i", "off")
    queues = bed.broker.vhosts["/"].queues.values()
    copies = len(queues) // len(bed.publishers)
    passed = sum(int(queue.messages.publish_count) for queue in queues)
    assert passed == copies * (warm + done), "all have arrived"
    assert all(queue.messages.ready_count() == 0 for queue in queues), "and are gone"
    assert all(queue.unacked_count == 0 for queue in queues), "and acknowledged"
    return done


def instructions(row: str, kept: str) -> float:
    """For one message. kept: a file for what callgrind has found, "" for none."""
    found, messages = counted(__file__, row, kept)
    return found / int(messages)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--smoke", action="store_true", help="without valgrind, few messages")
    parser.add_argument("--only", default=",".join(ROWS), help="rows, with commas between them")
    parser.add_argument("--keep", default="", help="PREFIX of files for callgrind_annotate")
    parser.add_argument("--row", choices=ROWS, help="one of them, within valgrind")
    options = parser.parse_args()
    if options.row:
        print(work(options.row, COUNTED, is_counted=True))
        return 0
    rows = options.only.split(",")
    if options.smoke:
        for row in rows:
            print(f"{row}: {work(row, BATCH, is_counted=False)} messages arrived")
        return 0
    if shutil.which("valgrind") is None:
        print("this needs valgrind (apt install valgrind)")
        return 1
    for row in rows:
        kept = f"{options.keep}{row}" if options.keep else ""
        print(f"{row:6} {instructions(row, kept):10,.0f} instructions a message", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
