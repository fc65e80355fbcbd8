"""What permissions cost a message: instructions of the broker, counted by valgrind.

    python bench/permission_cost.py             four rows, some minutes
    python bench/permission_cost.py --smoke     briefly: does it run?

A broker in memory with two connections in one process: transient messages of 16 bytes to a queue
from which a consumer takes them without acknowledgements (`a16`). Counting begins when everything
is warm. Instructions are the same on a busy machine; what they take in time is not said by them.
The compiled broker is what is meant: run it with the Python of `make install`.

    everything   patterns '.*', as of guest: nothing is searched for
    patterns     a user that may write and read this queue and exchange alone
    topics       the same, published to a topic exchange
    topics with patterns     and with patterns of routing keys besides
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.call_walk import SLICE_NS, Bytes, Wire
from penstock.base.clock import ManualClock
from penstock.base.config import Config
from penstock.broker.actors.log import Log
from penstock.broker.actors.output import Shell
from penstock.broker.broker import Broker
from penstock.broker.vhost.rights import Permission, TopicPermission
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.protocol.content import make_content
from penstock.protocol.methods.codec import encode_method, method_frame

BODY: Final = b"x" * 16
BATCH: Final = 50
"""Publishes that are read together."""
KEYS: Final = 10
"""Routing keys that take turns."""
WARM_UP: Final = 2_000
COUNTED: Final = 10_000
NAMES: Final = r"^(only-this-queue|amq\.default|amq\.topic)$"
NARROW: Final = Permission(NAMES, NAMES, NAMES)
TOPICS: Final = TopicPermission(r"^only\.this\.", r"^only\.this\.")
ROWS: Final = {
    "everything": (False, None, None),
    "patterns": (False, NARROW, None),
    "topics": (True, None, None),
    "topics with patterns": (True, NARROW, TOPICS),
}
PAIRS: Final = {"patterns": "everything", "topics with patterns": "topics"}


class Bed:
    """A broker, a publisher, and a consumer of its queue."""

    def __init__(self, is_topic: bool, allowed: Permission | None, keys: TopicPermission | None):
        self.clock = ManualClock()
        self.broker = Broker(Config(heartbeat_s=0), self.clock, Bytes(), Log(), 1 << 30)
        if allowed is not None:
            self.broker.permissions.set("guest", "/", allowed)
        if keys is not None:
            self.broker.permissions.set_topic("guest", "/", "amq.topic", keys)
        self.exchange = "amq.topic" if is_topic else ""
        publisher, consumer = self._connect("publisher"), self._connect("consumer")
        self.publisher, self.output = publisher
        self.say(self.publisher, method_frame(1, m.QueueDeclare("only-this-queue")))
        if is_topic:
            bind = m.QueueBind("only-this-queue", "amq.topic", "only.this.#")
            self.say(self.publisher, method_frame(1, bind))
        self.say(consumer[0], method_frame(1, m.BasicConsume("only-this-queue", no_ack=True)))

    def _connect(self, name: str) -> tuple[object, Wire]:
        output = Wire(self.broker.scheduler.outputs)
        connection = self.broker.accept("127.0.0.1", name, output, Shell())
        for data in (
            PROTOCOL_HEADER,
            method_frame(0, m.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")),
            method_frame(0, m.ConnectionTuneOk(2047, 131_072, 0))
            + method_frame(0, m.ConnectionOpen("/")),
            method_frame(1, m.ChannelOpen()),
        ):
            self.say(connection, data)
        return connection, output

    def say(self, connection: object, data: bytes) -> None:
        connection.receive(data)  # type: ignore[attr-defined]  # the broker's own
        while self.broker.scheduler.run(SLICE_NS):
            self.clock.advance(1)

    def publishes(self) -> bytes:
        """BATCH of them."""
        found = b""
        header = b"\0\x3c\0\0" + len(BODY).to_bytes(8, "big") + b"\x10\0\x01"
        for number in range(BATCH):
            key = f"only.this.{number % KEYS}" if self.exchange else "only-this-queue"
            method = encode_method(m.BasicPublish(self.exchange, key))
            message = make_content(1, method, header, BODY, 131_072)
            found += b"\x01\0\x01" + len(method).to_bytes(4, "big") + method + b"\xce"
            found += message.raw
        return found


def control(*words: str) -> None:
    """Tell the valgrind that runs this process."""
    subprocess.run(["callgrind_control", *words, str(os.getpid())], check=True, capture_output=True)


def work(row: str, count: int, is_counted: bool) -> None:
    """Pass `count` messages when everything is warm. Raises: AssertionError."""
    bed = Bed(*ROWS[row])
    data = bed.publishes()
    for _ in range(WARM_UP // BATCH):
        bed.say(bed.publisher, data)
    if is_counted:
        control("-i", "on")
    for _ in range(count // BATCH):
        bed.say(bed.publisher, data)
    if is_counted:
        control("-i", "off")
    queue = bed.broker.vhosts["/"].queues["only-this-queue"]
    assert queue.messages.publish_count == WARM_UP + count, "all have arrived"
    assert queue.messages.ready_count() == 0, "and are gone"


def counted(program: str, row: str, kept: str = "") -> tuple[int, str]:
    """Instructions that callgrind has counted in `program --row row`, and what that has printed.
    kept: a file for all that was found, "" for none."""
    with tempfile.TemporaryDirectory() as folder:
        out = kept or str(Path(folder) / "out")
        words = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
        words += [f"--callgrind-out-file={out}", sys.executable, program, "--row", row]
        # Where a dictionary puts a text decides how long it is looked for.
        env = {**os.environ, "PYTHONHASHSEED": "0"}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
        if done.returncode != 0:
            raise SystemExit(f"row {row} failed:\n{done.stderr}")
        found = re.search(r"Collected : (\d+)", done.stderr)
        assert found is not None, "callgrind says it at the end"
        return int(found[1]), done.stdout


def instructions(row: str) -> float:
    """For one message."""
    return counted(__file__, row)[0] / COUNTED


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--smoke", action="store_true", help="without valgrind, few messages")
    parser.add_argument("--row", choices=ROWS, help="one of them, within valgrind")
    options = parser.parse_args()
    if options.row:
        work(options.row, COUNTED, is_counted=True)
        return 0
    if options.smoke:
        for row in ROWS:
            work(row, BATCH, is_counted=False)
            print(f"{row}: {WARM_UP + BATCH} messages arrived")
        return 0
    if shutil.which("valgrind") is None:
        print("this needs valgrind (apt install valgrind)")
        return 1
    costs: dict[str, float] = {}
    print(f"{'':22} {'instructions a message':>24}")
    for row in ROWS:
        costs[row] = instructions(row)
        beside = PAIRS.get(row)
        more = f"{costs[row] / costs[beside] - 1:+.2%} of {beside}" if beside else ""
        print(f"{row:22} {costs[row]:24,.0f}   {more}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
