"""How long a start takes with a full store: by default 1,000,000 messages in 1,000 queues.

Question: is the broker back within 30 s, after a clean stop and after a kill, with all it had? And
how long does the first message of the first and of the last queue take then?

    python bench/recovery.py                       from this checkout, interpreted
    python bench/recovery.py --python PATH         as installed for that interpreter (compiled)
    python bench/recovery.py --smoke               10,000 messages in 50 queues: is all there?
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pamqp import commands, frame, header

# Run as a program the directory above is not on the path yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.backlog import BacklogFailed, Wire
from bench.brokers import BrokerFailed, Target, forget_cache, penstock_target
from bench.machine import describe, sync_us

START_S_MAX: Final = 30.0
ROUND: Final = 50
"""Messages to one queue in a row: they end up beside those of other queues."""
UNCONFIRMED_MAX: Final = 20_000


def name_of(queue: int) -> str:
    """The name of a queue; all are of one length."""
    return f"recovered{queue:06d}"


def fill(port: int, queues: int, each: int, size: int) -> float:
    """Put `each` persistent messages into every queue; seconds until all were confirmed."""
    head = frame.marshal(
        header.ContentHeader(0, size, commands.Basic.Properties(delivery_mode=2)), 1
    )
    body = b"\x03\x00\x01" + size.to_bytes(4, "big") + bytes(size) + b"\xce"
    with Wire(port) as wire:
        for queue in range(queues):
            declare = commands.Queue.Declare(queue=name_of(queue), durable=True)
            wire.ask(1, declare, "Queue.DeclareOk")
        wire.ask(1, commands.Confirm.Select(), "Confirm.SelectOk")
        began_s = time.monotonic()
        sent = 0
        for start in range(0, each, ROUND):
            some = min(ROUND, each - start)
            for queue in range(queues):
                publish = frame.marshal(commands.Basic.Publish(routing_key=name_of(queue)), 1)
                wire.socket.sendall((publish + head + body) * some)
                sent += some
                if sent % UNCONFIRMED_MAX < ROUND:
                    wire.await_confirms(sent)
        wire.await_confirms(sent)
        return time.monotonic() - began_s


def count_all(port: int, queues: int) -> int:
    """Messages in all queues together."""
    with Wire(port) as wire:
        total = 0
        for queue in range(queues):
            asked = commands.Queue.Declare(queue=name_of(queue), passive=True)
            answer = wire.ask(1, asked, "Queue.DeclareOk")
            assert isinstance(answer, commands.Queue.DeclareOk), "its name was asked for"
            total += answer.message_count or 0
        return total


def first_ms(port: int, queue: int) -> float:
    """Milliseconds until basic.get brings a message of `queue`, which stays there."""
    with Wire(port) as wire:
        began_s = time.monotonic()
        wire.ask(1, commands.Basic.Get(queue=name_of(queue)), "Basic.GetOk")
        return (time.monotonic() - began_s) * 1e3


def start_again(target: Target, options: argparse.Namespace) -> dict[str, float]:
    """Start, count, look, and leave it running no longer. Raises: BacklogFailed, BrokerFailed."""
    broker = target.start()
    try:
        rss_bytes = broker.rss_bytes()
        total = count_all(broker.port, options.queues)
        if total != options.messages:
            raise BacklogFailed(f"{total} of {options.messages} messages came back")
        return {
            "start_s": round(broker.start_s, 2),
            "rss_mb": round(rss_bytes / 1e6),
            "first_get_ms": round(first_ms(broker.port, 0), 1),
            "last_get_ms": round(first_ms(broker.port, options.queues - 1), 1),
        }
    finally:
        broker.stop()


def run(target: Target, options: argparse.Namespace, directory: Path) -> dict[str, object]:
    """Fill, kill, start, stop, start. Raises: BacklogFailed, BrokerFailed."""
    place = replace(target, arguments=(*target.arguments, "--data", str(directory / "data")))
    broker = place.start()
    try:
        filled_s = fill(
            broker.port, options.queues, options.messages // options.queues, options.size
        )
        # The moment after the last confirm: nothing was said about a stop.
        os.kill(broker.pids[0], signal.SIGKILL)
    finally:
        broker.stop()
    return {
        "broker": target.version,
        "messages": options.messages,
        "queues": options.queues,
        "size": options.size,
        "fill_per_s": round(options.messages / filled_s),
        "after_kill": start_again(place, options),
        "after_stop": start_again(place, options),
        "sync_us": round(sync_us()),
    }


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options. Exits with a text for bad ones."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--queues", type=int, default=1_000)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--python", default="")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args(arguments)
    if options.smoke:
        options.messages, options.queues = 10_000, 50
    if options.messages % options.queues:
        parser.error("--messages: a multiple of --queues")
    return options


def main(arguments: Sequence[str]) -> int:
    """Measure and print. Returns the exit code: 1 when something was lost or it took too long."""
    options = parse(arguments)
    directory = Path(tempfile.mkdtemp(prefix="penstock-recovery-"))
    try:
        print(json.dumps(describe()))
        found = run(penstock_target(options.python), options, directory)
        print(json.dumps(found, indent=2))
    except (BacklogFailed, BrokerFailed) as failure:
        print(f"failed: {failure}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        forget_cache()
    slow = [name for name in ("after_kill", "after_stop") if _start_s(found, name) > START_S_MAX]
    for name in slow:
        print(f"{name}: longer than {START_S_MAX:.0f} s", file=sys.stderr)
    return 1 if slow else 0


def _start_s(found: dict[str, object], name: str) -> float:
    part = found[name]
    assert isinstance(part, dict), "run says so"
    return float(part["start_s"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
