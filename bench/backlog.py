"""A backlog many times larger than memory: taken at disk speed, kept in bounds, drained in order.

Question: does a broker with 300 MB of memory take 5 GB into one queue and give it back, without
being killed, in order, at no less than half of what the disk does in one row?

The broker runs in a memory cgroup of its own where the machine lets us make one (as root); without
one its peak is only reported. Every message carries its number, and the consumer looks at each of
them. Beside every rate stands what the same disk did in the same minute with one large file.

    python bench/backlog.py                        5 GB of 1 KiB, persistent, 300 MB
    python bench/backlog.py --transient            not persistent, in a queue that is not durable
    python bench/backlog.py --python PATH          as installed for that interpreter (compiled)
    python bench/backlog.py --smoke                32 MB: does everything arrive?
"""

import argparse
import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Final

import numpy as np
from pamqp import base, commands, frame, header

# Run as a program the directory above is not on the path yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.brokers import Broker, BrokerFailed, Target, forget_cache, penstock_target
from bench.machine import describe, sync_us

MB: Final = 1_000_000
QUEUE: Final = "backlog"
TAG: Final = "c"
SENT_AT_ONCE: Final = 256
ACKED_AT_ONCE: Final = 512
PREFETCH: Final = 4096
NUMBER_BYTES: Final = 8
STALL_S: Final = 60.0
PROBE_BYTES: Final = 256 * MB


class BacklogFailed(Exception):
    """Something was lost, out of order, altered, or the broker did not live."""


class Wire:
    """One connection with one channel, spoken to in frames.

    Raises: BacklogFailed when the broker is silent for STALL_S.
    """

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=STALL_S)
        self.buffer = b""
        self.confirmed = 0
        self.confirmed_alone: set[int] = set()
        self.socket.sendall(b"AMQP\x00\x00\x09\x01")
        self._await("Connection.Start")
        self._send(0, commands.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US"))
        self._await("Connection.Tune")
        self._send(0, commands.Connection.TuneOk(8, 131_072, 0))
        self.ask(0, commands.Connection.Open("/"), "Connection.OpenOk")
        self.ask(1, commands.Channel.Open(), "Channel.OpenOk")

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *unused: object) -> None:
        self.socket.close()

    def _send(self, channel: int, method: base.Frame) -> None:
        self.socket.sendall(frame.marshal(method, channel))

    def ask(self, channel: int, method: base.Frame, answer: str) -> base.Frame:
        """Send `method` and wait for the method named `answer`."""
        self._send(channel, method)
        return self._await(answer)

    def _await(self, answer: str) -> base.Frame:
        while True:
            used, _, found = frame.unmarshal(self.buffer) if self.buffer else (0, 0, None)
            if used:
                self.buffer = self.buffer[used:]
                name = getattr(found, "name", "")
                if name == answer:
                    assert isinstance(found, base.Frame), "only methods have these names"
                    return found
                if name in ("Connection.Close", "Channel.Close"):
                    raise BacklogFailed(f"the broker closes: {found}")
                continue
            self.buffer += self.receive()

    def receive(self) -> bytes:
        """What has come. Raises: BacklogFailed."""
        try:
            data = self.socket.recv(1 << 18)
        except TimeoutError as error:
            raise BacklogFailed(f"nothing came for {STALL_S:.0f} s") from error
        if not data:
            raise BacklogFailed("the broker closed the connection")
        return data

    def await_confirms(self, count: int) -> None:
        """Until that many publishes of the channel were confirmed.

        Raises: BacklogFailed, also for a nack."""
        while self.confirmed + len(self.confirmed_alone) < count:
            used, _, found = frame.unmarshal(self.buffer) if self.buffer else (0, 0, None)
            if not used:
                self.buffer += self.receive()
                continue
            self.buffer = self.buffer[used:]
            if not isinstance(found, commands.Basic.Ack):
                raise BacklogFailed(f"no confirm but {found}")
            tag = found.delivery_tag or 0
            self.confirmed_alone.add(tag)
            if found.multiple or tag == self.confirmed + 1:
                self.confirmed = tag
                self.confirmed_alone = {one for one in self.confirmed_alone if one > tag}

    def ready_count(self) -> int:
        """Messages in the queue."""
        asked = commands.Queue.Declare(queue=QUEUE, passive=True)
        answer = self.ask(1, asked, "Queue.DeclareOk")
        assert isinstance(answer, commands.Queue.DeclareOk), "its name was asked for"
        return answer.message_count or 0


class Cgroup:
    """A memory cgroup with a limit, for one process. Raises: OSError where there can be none."""

    def __init__(self, limit_bytes: int) -> None:
        root = Path("/sys/fs/cgroup/memory")
        self.is_second = not root.is_dir()
        self.path = (root.parent if self.is_second else root) / f"penstock-backlog-{os.getpid()}"
        self.path.mkdir()
        limit = "memory.max" if self.is_second else "memory.limit_in_bytes"
        try:
            (self.path / limit).write_text(str(limit_bytes), encoding="ascii")
        except OSError:
            self.path.rmdir()
            raise

    def adopt(self, pid: int) -> None:
        """`pid` and what it starts from now on count here."""
        (self.path / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def kills(self) -> int:
        """How often the kernel has killed for want of memory."""
        name = "memory.events" if self.is_second else "memory.oom_control"
        for line in (self.path / name).read_text(encoding="ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
        return 0

    def close(self) -> None:
        """Give it back; its process has ended."""
        for _ in range(50):
            try:
                self.path.rmdir()
                return
            except OSError:
                # The kernel takes a moment to see that it is empty.
                time.sleep(0.1)


@dataclass(slots=True)
class Peak:
    """The largest resident memory seen of a broker, asked ten times a second."""

    broker: Broker
    bytes: int = 0
    is_over: bool = False

    def watch(self) -> None:
        while not self.is_over:
            self.bytes = max(self.bytes, self.broker.rss_bytes())
            # A sample interval: the memory of a broker does not jump in less.
            time.sleep(0.1)


def contents(size: int, is_persistent: bool) -> tuple[bytes, bytes]:
    """(a publish, a delivery): all frames of one message whose body is zeros."""
    properties = commands.Basic.Properties(delivery_mode=2 if is_persistent else 1)
    head = frame.marshal(header.ContentHeader(0, size, properties), 1)
    body = b"\x03\x00\x01" + size.to_bytes(4, "big") + bytes(size) + b"\xce"
    publish = frame.marshal(commands.Basic.Publish(routing_key=QUEUE), 1)
    deliver = frame.marshal(commands.Basic.Deliver(TAG, 1, False, "", QUEUE), 1)
    return publish + head + body, deliver + head + body


def publish_all(wire: Wire, count: int, size: int, is_persistent: bool) -> None:
    """Send `count` numbered messages."""
    one, _ = contents(size, is_persistent)
    rows = np.tile(np.frombuffer(one, np.uint8), (SENT_AT_ONCE, 1))
    at = len(one) - size - 1
    sent = 0
    while sent < count:
        some = min(SENT_AT_ONCE, count - sent)
        numbers = np.arange(sent, sent + some, dtype=">u8")
        rows[:some, at : at + NUMBER_BYTES] = numbers.view(np.uint8).reshape(some, -1)
        try:
            wire.socket.sendall(rows[:some].tobytes())
        except TimeoutError as error:
            raise BacklogFailed(f"nothing taken for {STALL_S:.0f} s behind {sent}") from error
        sent += some


def await_all(wire: Wire, count: int, patience_s: float) -> None:
    """Until the queue has `count` messages. Raises: BacklogFailed."""
    began_s = time.monotonic()
    while (resting := wire.ready_count()) < count:
        if time.monotonic() - began_s > patience_s:
            raise BacklogFailed(f"{resting} of {count} messages {patience_s:.0f} s after the last")
        # A poll: what the broker has taken of what was sent.
        time.sleep(0.05)


def drain(wire: Wire, count: int, size: int, is_persistent: bool) -> None:
    """Take `count` messages and look at each number. Raises: BacklogFailed."""
    _, one = contents(size, is_persistent)
    wire.ask(1, commands.Basic.Qos(prefetch_count=PREFETCH), "Basic.QosOk")
    wire.ask(1, commands.Basic.Consume(queue=QUEUE, consumer_tag=TAG), "Basic.ConsumeOk")
    at = len(one) - size - 1
    rest = wire.buffer
    seen = 0
    acked = 0
    while seen < count:
        if len(rest) >= len(one):
            whole = len(rest) // len(one)
            rows = np.frombuffer(rest, np.uint8, whole * len(one)).reshape(whole, -1)
            numbers = rows[:, at : at + NUMBER_BYTES].copy().view(">u8").reshape(-1)
            expected = np.arange(seen, seen + whole, dtype=np.uint64)
            wrong = np.nonzero(numbers != expected)[0]
            if len(wrong) or int(rows[0, -1]) != 0xCE:
                row = int(wrong[0]) if len(wrong) else 0
                raise BacklogFailed(f"message {seen + row} came as number {int(numbers[row])}")
            rest = rest[whole * len(one) :]
            seen += whole
            if seen - acked >= ACKED_AT_ONCE or seen == count:
                acked = seen
                wire.socket.sendall(frame.marshal(commands.Basic.Ack(acked, True), 1))
        else:
            rest += wire.receive()


def disk_rates(directory: Path) -> tuple[float, float]:
    """(write, read) of one large file from its beginning to its end, MB/s; the read is after the
    kernel was asked to forget the file."""
    path = directory / "probe"
    block = os.urandom(MB)
    began_s = time.monotonic()
    with path.open("wb") as file:
        for _ in range(PROBE_BYTES // MB):
            file.write(block)
        file.flush()
        os.fdatasync(file.fileno())
        write = PROBE_BYTES / MB / (time.monotonic() - began_s)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    began_s = time.monotonic()
    with path.open("rb", buffering=0) as file:
        while file.read(MB):
            pass
    read = PROBE_BYTES / MB / (time.monotonic() - began_s)
    path.unlink()
    return write, read


def run(target: Target, options: argparse.Namespace, directory: Path) -> dict[str, object]:
    """Fill and drain one queue. Raises: BacklogFailed, BrokerFailed."""
    size: int = options.size
    count = options.bytes // size
    is_persistent = not options.transient
    write, read = disk_rates(directory)
    sync = sync_us()
    cgroup = None
    try:
        cgroup = Cgroup(options.limit)
    except OSError as error:
        print(f"no memory cgroup ({error}): the peak is reported, nothing enforces it")
    place = replace(target, arguments=(*target.arguments, "--data", str(directory / "data")))
    broker = start_in(place, cgroup)
    peak = Peak(broker)
    watcher = Thread(target=peak.watch, daemon=True)
    watcher.start()
    try:
        began_s = time.monotonic()
        with Wire(broker.port) as wire:
            declare = commands.Queue.Declare(queue=QUEUE, durable=is_persistent)
            wire.ask(1, declare, "Queue.DeclareOk")
            publish_all(wire, count, size, is_persistent)
            await_all(wire, count, options.patience)
        filled_s = time.monotonic() - began_s
        began_s = time.monotonic()
        with Wire(broker.port) as wire:
            drain(wire, count, size, is_persistent)
        drained_s = time.monotonic() - began_s
    finally:
        peak.is_over = True
        watcher.join()
        kills = cgroup.kills() if cgroup is not None else 0
        broker.stop()
        if cgroup is not None:
            cgroup.close()
    if kills:
        raise BacklogFailed(f"the kernel killed {kills} times for want of memory")
    bytes_ = count * size / MB
    return {
        "broker": broker.version,
        "messages": count,
        "bytes": count * size,
        "limit_bytes": options.limit if cgroup is not None else 0,
        "peak_rss_bytes": peak.bytes,
        "fill_mb_s": round(bytes_ / filled_s, 1),
        "drain_mb_s": round(bytes_ / drained_s, 1),
        "disk_write_mb_s": round(write, 1),
        "disk_read_mb_s": round(read, 1),
        "fill_share": round(bytes_ / filled_s / write, 2),
        "drain_share": round(bytes_ / drained_s / read, 2),
        "sync_us": round(sync),
    }


def start_in(target: Target, cgroup: Cgroup | None) -> Broker:
    """Start the broker where its memory counts: it inherits the cgroup, so that it sees the limit.

    Raises: BrokerFailed.
    """
    if cgroup is None:
        return target.start()
    home = Path("/proc/self/cgroup").read_text(encoding="ascii")
    cgroup.adopt(os.getpid())
    try:
        return target.start()
    finally:
        _go_home(cgroup, home)


def _go_home(cgroup: Cgroup, home: str) -> None:
    """This process counts again where it did, as its own `/proc/self/cgroup` has said."""
    controller = "" if cgroup.is_second else "memory"
    for line in home.splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            place = cgroup.path.parent / path.lstrip("/") / "cgroup.procs"
            place.write_text(str(os.getpid()), encoding="ascii")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options. Exits with a text for bad ones."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bytes", type=int, default=5_000 * MB)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--limit", type=int, default=300 * MB)
    parser.add_argument("--patience", type=float, default=300.0, help="seconds behind the last one")
    parser.add_argument("--transient", action="store_true")
    parser.add_argument("--python", default="")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--directory", type=Path, default=None, help="where the data lies")
    options = parser.parse_args(arguments)
    if options.smoke:
        options.bytes = 32 * MB
    if options.size < NUMBER_BYTES or options.size > 100_000:
        parser.error(f"--size {options.size}: {NUMBER_BYTES} to 100000 bytes, one frame")
    return options


def main(arguments: Sequence[str]) -> int:
    """Measure and print. Returns the exit code: 1 when a message was lost or memory ran out."""
    options = parse(arguments)
    directory = Path(tempfile.mkdtemp(prefix="penstock-backlog-", dir=options.directory))
    try:
        print(json.dumps(describe()))
        print(json.dumps(run(penstock_target(options.python), options, directory), indent=2))
    except (BacklogFailed, BrokerFailed) as failure:
        print(f"failed: {failure}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        forget_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
