"""What flow control promises, measured on a running broker: one figure and its target a row.

    python bench/flow_live.py                        # every row, about 3 minutes
    python bench/flow_live.py --only isolation,acks --repeats 5
    python bench/flow_live.py --python .venv-compiled/bin/python --out result.json
    python bench/flow_live.py --smoke                # every row briefly: does it hold at all?

    isolation  a connection that publishes to a stopped queue and a running one in turn: the
               running queue's rate against its rate alone
    acks       milliseconds from an ack to the delivery it makes room for, on a connection whose
               publishes are held
    memory     50 publishers without confirms into a queue nobody reads: how far the broker grows,
               and whether an alarm rings
    alarm      a memory alarm forced and cleared: what consumers keep of their rate, and how long
               publishers take to go on
    flips      10,000 times a queue stops and starts its publisher: how far the broker grows

Exit code 1: a row failed or, with --strict, a target was missed.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.brokers import Broker, penstock_target  # noqa: E402
from bench.flow_peers import (  # noqa: E402
    Peer,
    acknowledge,
    alternate,
    drain,
    flood,
    settle,
    trickle,
)
from bench.machine import describe  # noqa: E402
from penstock.client.io_blocking import connect  # noqa: E402
from penstock.server.control.control_client import ask, control_path  # noqa: E402

MIB: Final = 1024 * 1024
PATIENCE_S: Final = 60.0
"""Whatever must come has come by then, however busy the machine is."""
DEPTH_BYTES: Final = 4 * MIB
BACKLOG_BYTES: Final = 128 * MIB
"""Of the alarm row, whose consumer must have enough to do while nothing comes in."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How long and how much. seconds: of one measurement; memory_s: of the memory row."""

    seconds: float
    repeats: int
    memory_s: float
    publishers: int
    flips: int


FULL: Final = Scale(3.0, 5, 60.0, 50, 10_000)
SMOKE: Final = Scale(0.5, 1, 2.0, 10, 200)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value. is_met: None when nothing is asked of it."""

    row: str
    name: str
    value: float
    lowest: float
    highest: float
    unit: str
    target: str
    is_met: bool | None

    def text(self) -> str:
        """The figure as a line for people."""
        mark = {True: "met", False: "MISSED", None: ""}[self.is_met]
        spread = f"({self.lowest:,.3g} to {self.highest:,.3g})"
        return (
            f"  {self.row:<10} {self.name:<34} {self.value:>10,.4g} {self.unit:<6} {spread:<24}"
            f" {self.target:<14} {mark}".rstrip()
        )


def figure(
    row: str, name: str, values: Sequence[float], unit: str, at_least: float, at_most: float
) -> Figure:
    """The median of `values` against its target; at_least, at_most: 0.0 where there is none.

    A target that is a ceiling is held against the worst value, not the median."""
    middle = statistics.median(values)
    target, is_met = "", None
    if at_least > 0:
        target, is_met = f"≥ {at_least:g}", middle >= at_least
    elif at_most > 0:
        target, is_met = f"≤ {at_most:g}", max(values) <= at_most
    return Figure(row, name, middle, min(values), max(values), unit, target, is_met)


def url_of(broker: Broker) -> str:
    """Where clients connect."""
    return f"amqp://{broker.user}:{broker.password}@{broker.host}:{broker.port}/%2f"


def declare(broker: Broker, *queues: str) -> None:
    """Make the queues, empty."""
    with connect(url_of(broker)) as connection:
        channel = connection.channel()
        for queue in queues:
            channel.declare_queue(queue)
            channel.purge_queue(queue)


def is_holding(broker: Broker, queue: str) -> bool:
    """Whether somebody is held for room in `queue`."""
    found = ask(control_path(broker.port), {"op": "flow", "do": "edges", "blocked": True})
    edges = found["edges"]
    assert isinstance(edges, list), "edges come as a list"
    return any(edge["receiver"] == f"queue:/{queue}" for edge in edges)


def fill(broker: Broker, queue: str, size: int, count: int) -> None:
    """Publish `count` messages to `queue`, which are more than it takes.

    Raises: RuntimeError when it takes them all."""
    with connect(url_of(broker)) as connection:
        channel = connection.channel()
        channel.confirm_select()
        for _ in range(count):
            connection.session.publish(channel.number, "", queue, b"x" * size)
        end = time.monotonic() + PATIENCE_S
        while not is_holding(broker, queue):
            if time.monotonic() > end:
                raise RuntimeError(f"queue {queue} holds nobody after {count} messages")
            connection.process(20)
        settle(connection, channel.number)
        connection.drop()


def rate_of(peer: Peer, key: str, seconds: float) -> float:
    """Counts of `key` a second over the next `seconds`, or longer if nothing was counted yet."""
    before = peer.ask()[key]
    began = time.monotonic()
    time.sleep(seconds)
    while (after := peer.ask()[key]) == before and time.monotonic() < began + PATIENCE_S:
        time.sleep(seconds)
    return (after - before) / (time.monotonic() - began)


def measure_isolation(broker: Broker, scale: Scale) -> list[Figure]:
    """A window of 200 a queue: what is held for the stopped one is bounded by its own window."""
    declare(broker, "stopped", "running")
    fill(broker, "stopped", 1024, DEPTH_BYTES // 1024 + 500)
    url = url_of(broker)
    shares = []
    with Peer(drain, url, "running", 0):
        for _ in range(scale.repeats):
            with Peer(alternate, url, "", "running", 200, 1024) as alone:
                time.sleep(scale.seconds / 5)
                solo = rate_of(alone, "running", scale.seconds)
            with Peer(alternate, url, "stopped", "running", 200, 1024) as both:
                time.sleep(scale.seconds / 5)
                shares.append(100 * rate_of(both, "running", scale.seconds) / solo)
    return [figure("isolation", "running queue's rate beside a stopped", shares, "%", 90, 0)]


def measure_acks(broker: Broker, scale: Scale) -> list[Figure]:
    """The connection's own publishes are held all the while, and counted to show it."""
    declare(broker, "stopped", "source")
    fill(broker, "stopped", 1024, DEPTH_BYTES // 1024 + 500)
    url = url_of(broker)
    worst, mean, held = [], [], []
    with Peer(flood, url, "source", 256):
        for _ in range(scale.repeats):
            with Peer(acknowledge, url, "source", "stopped", 10, 256) as peer:
                time.sleep(scale.seconds)
                counts = peer.ask()
                worst.append(counts["worst_ms"])
                mean.append(counts["sum_ms"] / max(1.0, counts["messages"]))
                held.append(counts["held"])
    return [
        figure("acks", "worst ack to next delivery", worst, "ms", 0, 100),
        figure("acks", "mean ack to next delivery", mean, "ms", 0, 0),
        figure("acks", "publishes held meanwhile", held, "msgs", 1, 0),
    ]


def measure_memory(broker: Broker, scale: Scale) -> list[Figure]:
    """The budget is the queue's depth mark and, per publisher, the windows of its two hops."""
    declare(broker, "stalled")
    time.sleep(0.5)
    before = broker.rss_bytes()
    peers = [Peer(flood, url_of(broker), "stalled", 1024) for _ in range(scale.publishers)]
    peak = before
    try:
        for peer in peers:
            peer.__enter__()
        end = time.monotonic() + scale.memory_s
        while time.monotonic() < end:
            peak = max(peak, broker.rss_bytes())
            time.sleep(0.05)
    finally:
        for peer in peers:
            peer.__exit__(None, None, None)
    assert broker.directory is not None, "this broker was started here"
    log = (broker.directory / "output.log").read_text(encoding="utf-8", errors="replace")
    grown = (peak - before) / MIB
    # Two hops of 400 messages each, the two that are parked, one read: per publisher.
    budget = (DEPTH_BYTES + scale.publishers * (2 * 400 + 2) * 1400) / MIB + 32
    return [
        figure("memory", f"{scale.publishers} publishers, growth", [grown], "MiB", 0, budget),
        figure("memory", "alarms", [float(log.count("alarm"))], "", 0, 0.5),
    ]


def set_now(broker: Broker, key: str, text: str) -> None:
    """Change a setting of the running broker."""
    ask(control_path(broker.port), {"op": "flow", "do": "set", "changes": {key: text}})


def measure_alarm(broker: Broker, scale: Scale) -> list[Figure]:
    """A watermark of 0 is an alarm at once. The consumer is given a backlog that lasts through it:
    seconds of its work, so that it never idles."""
    declare(broker, "work")
    url = url_of(broker)
    shares, resumed = [], []
    with (
        Peer(flood, url, "work", 1024),
        Peer(drain, url, "work", 100) as consumer,
        Peer(trickle, url, "work", 1.0) as publisher,
    ):
        for _ in range(scale.repeats):
            time.sleep(scale.seconds)
            before = rate_of(consumer, "messages", scale.seconds / 6)
            set_now(broker, "memory.high", "0")
            during = rate_of(consumer, "messages", scale.seconds / 6)
            shares.append(100 * during / before)
            cleared = time.monotonic()
            set_now(broker, "memory.high", "40%")
            count = publisher.ask()["confirmed"]
            while (found := publisher.ask())["confirmed"] == count:
                if time.monotonic() - cleared > PATIENCE_S:
                    raise RuntimeError(f"the publisher did not go on within {PATIENCE_S:.0f} s")
                time.sleep(0.001)
            resumed.append(found["last_s"] - cleared)
    return [
        figure("alarm", "consumer's rate under the alarm", shares, "%", 95, 0),
        figure("alarm", "publisher goes on after it", resumed, "s", 0, 1),
    ]


def flips_so_far(broker: Broker) -> float:
    """How often hops of this broker have closed, summed over the hops there are."""
    found = ask(control_path(broker.port), {"op": "flow", "do": "edges", "limit": 10_000})
    edges = found["edges"]
    assert isinstance(edges, list), "edges come as a list"
    return float(sum(edge["stops"] for edge in edges))


def measure_flips(broker: Broker, scale: Scale) -> list[Figure]:
    """A publisher at full speed against one consumer: the depth mark stops it again and again."""
    declare(broker, "work")
    url = url_of(broker)
    with Peer(flood, url, "work", 1024), Peer(drain, url, "work", 100):
        while flips_so_far(broker) < scale.flips / 10:
            time.sleep(0.05)
        before, began = broker.rss_bytes(), flips_so_far(broker)
        while flips_so_far(broker) - began < scale.flips:
            time.sleep(0.1)
        grown = (broker.rss_bytes() - before) / MIB
        flips = flips_so_far(broker) - began
    return [
        figure("flips", "times a hop closed and opened", [flips], "", scale.flips, 0),
        figure("flips", "growth meanwhile", [max(0.0, grown)], "MiB", 0, 2 + DEPTH_BYTES / MIB),
    ]


ROWS: Final[dict[str, Callable[[Broker, Scale], list[Figure]]]] = {
    "isolation": measure_isolation,
    "acks": measure_acks,
    "memory": measure_memory,
    "alarm": measure_alarm,
    "flips": measure_flips,
}


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default=",".join(ROWS), help=f"of: {', '.join(ROWS)}")
    parser.add_argument("--python", default="", help="interpreter with Penstock installed")
    parser.add_argument("--repeats", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--smoke", action="store_true", help="briefly, to see that it runs")
    parser.add_argument("--strict", action="store_true", help="a missed target fails the run")
    parser.add_argument("--out", default="", help="JSON file for figures and machine")
    options = parser.parse_args(words)
    options.rows = [name for name in options.only.split(",") if name]
    unknown = [name for name in options.rows if name not in ROWS]
    if unknown:
        parser.error(f"unknown row '{unknown[0]}'; one of: {', '.join(ROWS)}")
    if options.repeats < 0 or options.seconds < 0:
        parser.error("--repeats and --seconds are not negative")
    return options


def scale_of(options: argparse.Namespace) -> Scale:
    base = SMOKE if options.smoke else FULL
    return Scale(
        options.seconds or base.seconds,
        options.repeats or base.repeats,
        base.memory_s,
        base.publishers,
        base.flips,
    )


def run_row(name: str, python: str, scale: Scale) -> list[Figure]:
    """One row on a broker of its own."""
    depth_bytes = BACKLOG_BYTES if name == "alarm" else DEPTH_BYTES
    broker = penstock_target(python, ("--queue-depth", str(depth_bytes))).start()
    try:
        return ROWS[name](broker, scale)
    finally:
        broker.stop()


def main(words: Sequence[str]) -> int:
    options = parse_arguments(words)
    scale = scale_of(options)
    target = penstock_target(options.python)
    machine = describe()
    print(f"{target.name} {target.version}\n{json.dumps(machine)}\n")
    figures: list[Figure] = []
    failed = 0
    for name in options.rows:
        try:
            found = run_row(name, options.python, scale)
        except (RuntimeError, OSError) as error:
            failed += 1
            print(f"  {name:<10} FAILED: {error}")
            continue
        figures += found
        for one in found:
            print(one.text(), flush=True)
    if options.out:
        report = {"machine": machine, "broker": target.version, "figures": [*map(asdict, figures)]}
        Path(options.out).write_text(json.dumps(report, indent=1), encoding="utf-8")
    missed = sum(one.is_met is False for one in figures)
    print(f"\n{len(figures)} figures, {missed} targets missed, {failed} rows failed")
    return 1 if failed or (options.strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
