"""The rows about memory, start time, overload and backlogs: each on a fresh broker where we may
start one."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench.brokers import Broker, BrokerFailed, Target, penstock_environment
from bench.measure import (
    OVERHEAD_SECONDS_MAX,
    RunFailed,
    always,
    generator_command,
    parse_sample,
    probe_sync,
    run_idle,
    run_lines,
    run_once,
)

CONSUMER_RATE: Final = 1000
PROBE_MS: Final = 100.0
ALWAYS_KNOWN: Final = ("start_s", "command_cpu_s")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much the resource rows do.

    rss_mb_max: an overloaded broker is stopped there. settle_s: after work, before memory is
    read; a broker gives memory back, or collects garbage, within about a second. backlog: messages
    of 1 KB in the drain row. gone_1k: of those whose memory has to come back; rest_s: within that;
    commands: of Penstock that are started, at most.
    """

    messages_16b: int
    messages_1k: int
    queues: int
    connections: int
    overload_s: float
    rss_mb_max: float
    settle_s: float
    backlog: int
    gone_1k: int = 1_000_000
    rest_s: float = 60.0
    commands: int = 1000


FULL: Final = Scale(400_000, 100_000, 20, 300, 20.0, 4096.0, 1.0, 250_000)
SMOKE: Final = Scale(2_000, 1_000, 4, 20, 1.0, 2048.0, 0.05, 2_000, 2_000, 0.2, 2)


def bytes_per_message(program: Path, broker: Broker, size: int, count: int, scale: Scale) -> float:
    """Resident bytes a queued message of `size` costs; 0.0 when the process is not known.

    Confirm-paced over several queues, so that neither a flood's slack nor one queue's high mark
    is measured. A publisher held for 3 s ends the filling: what was confirmed counts.
    Raises: RunFailed.
    """
    queues = scale.queues
    spread = ("-P", str(queues), "-Q", str(queues), "-s", str(size), "--stall", "3")
    warm_up = ("-C", str(queues), "-n", str(20 * queues), "--confirm", "50")
    run_once(program, broker, (*spread, *warm_up), 0.0)
    time.sleep(scale.settle_s)
    before = broker.rss_bytes()
    filling = ("-C", "0", "-n", str(count), "--confirm", "50", "--keep", "--qprefix", "fill")
    filled = run_once(program, broker, (*spread, *filling), 0.0)
    time.sleep(scale.settle_s)
    held = broker.rss_bytes() - before
    # A run of no length over the same names deletes the queues again.
    emptying = ("-P", "0", "-C", "0", "-Q", str(queues), "-w", "0", "-t", "0")
    run_once(program, broker, (*emptying, "--qprefix", "fill"), 0.0)
    return held / filled.confirmed if filled.confirmed and broker.pids else 0.0


def memory_left(program: Path, broker: Broker, scale: Scale) -> float:
    """MiB that are still resident, at most rest_s after a backlog of 1 KB messages was taken and
    consumed again; what one round of everything leaves behind does not count.

    Raises: RunFailed.
    """
    queues = str(scale.queues)
    spread = ("-Q", queues, "-s", "1024", "--stall", "3")
    run_once(program, broker, (*spread, "-P", queues, "-C", queues, "-n", "2000"), 0.0)
    time.sleep(scale.settle_s)
    before = broker.rss_bytes()
    kept = (*spread, "--keep", "--qprefix", "gone")
    filling = ("-P", queues, "-C", "0", "-n", str(scale.gone_1k), "--confirm", "200")
    filled = run_once(program, broker, (*kept, *filling), 0.0)
    emptying = ("-P", "0", "-C", queues, "-n", str(filled.confirmed), "--prefetch", "200")
    run_once(program, broker, (*kept, *emptying, "--ackmulti", "20"), 0.0)
    deleting = (*spread, "-P", "0", "-C", "0", "-w", "0", "-t", "0", "--qprefix", "gone")
    run_once(program, broker, deleting, 0.0)
    end_s = time.monotonic() + scale.rest_s
    left = broker.rss_bytes() - before
    while time.monotonic() < end_s:
        time.sleep(min(1.0, scale.rest_s))
        left = min(left, broker.rss_bytes() - before)
    return left / 2**20


def command_cpu_s(target: Target, commands_max: int) -> dict[str, float]:
    """Processor seconds of starting a command of Penstock for its help, the median of three, by its
    name; the first start of each may compile byte code.

    Raises: BrokerFailed.
    """
    python = [target.where or sys.executable, "-m", "penstock.cli.main"]
    with tempfile.TemporaryDirectory() as cache:
        environment = penstock_environment(not target.where, Path(cache))

        def run(*words: str) -> tuple[str, float]:
            began = os.times()
            done = subprocess.run(
                [*python, *words, "--help"],
                env=environment,
                cwd=cache,
                capture_output=True,
                text=True,
                check=False,
            )
            ended = os.times()
            if done.returncode != 0:
                raise BrokerFailed(f"penstock {' '.join(words)} --help: {done.stderr[-300:]}")
            taken = ended.children_user + ended.children_system
            return done.stdout, taken - began.children_user - began.children_system

        listed = run()[0].split("Commands:")[-1]
        names = re.findall(r"^  ([a-z][\w-]*)", listed, re.M)[:commands_max]
        return {name: sorted(run(name)[1] for _ in range(3))[1] for name in names}


def measure_memory(program: Path, target: Target, scale: Scale) -> dict[str, float]:
    """The memory row of one target; names as in `workloads.RESOURCE_BOUNDS`.

    Raises: RunFailed, BrokerFailed.
    """
    values: dict[str, float] = {}
    starts: list[float] = []

    broker = target.start()
    try:
        starts.append(broker.start_s)
        time.sleep(scale.settle_s)
        values["idle_mb"] = broker.rss_bytes() / 2**20
        values |= run_idle(program, broker, scale.connections)
        values.pop("secs")
    finally:
        broker.stop()

    for name, size, count in (
        ("bytes_per_16b", 16, scale.messages_16b),
        ("bytes_per_1k", 1024, scale.messages_1k),
    ):
        broker = target.start()
        try:
            starts.append(broker.start_s)
            values[name] = bytes_per_message(program, broker, size, count, scale)
        finally:
            broker.stop()
    broker = target.start()
    try:
        values["memory_left_mb"] = memory_left(program, broker, scale)
    finally:
        broker.stop()
    if target.kind == "penstock":
        starts_s = command_cpu_s(target, scale.commands)
        values["command_cpu_s"] = max(starts_s.values())
    if target.kind != "rival":
        # The first start may have compiled byte code; the median is what a user meets.
        values["start_s"] = sorted(starts)[len(starts) // 2]
    known = bool(broker.pids)
    return {name: value for name, value in values.items() if known or name in ALWAYS_KNOWN}


def rss_guard(rss_mb_max: float) -> Callable[[dict[str, float]], bool]:
    """A watch that ends a run when the broker's memory passes `rss_mb_max`."""

    def watch(point: dict[str, float]) -> bool:
        return point["rss_mb"] <= rss_mb_max

    return watch


def with_depth(target: Target, depth_mb: float) -> Target:
    """The same target; Penstock's queues hold at most about `depth_mb` MiB."""
    if target.kind != "penstock":
        return target
    depth = ("--queue-depth", str(int(depth_mb * 2**20)))
    return replace(target, arguments=(*target.arguments, *depth))


def measure_overload(
    program: Path, target: Target, scale: Scale, depth_mb: float
) -> dict[str, float]:
    """Flood one queue whose consumer acks 1,000 a second.

    depth_mb: what a queue of Penstock may hold, MiB; other brokers have no such setting.
    Returns rss_mb, consumer_rate, consumer_share, consumer_rate_last, publish_rate, seconds, and
    is_stopped 1.0 when the memory guard ended it.
    Raises: RunFailed, BrokerFailed.
    """
    broker = with_depth(target, depth_mb).start()
    try:
        options = (
            *("-s", "1024", "--prefetch", "200", "--crate", str(CONSUMER_RATE), "--series"),
            *("-w", "1", "-t", str(scale.overload_s)),
        )
        command = generator_command(program, broker, options)
        watch = rss_guard(scale.rss_mb_max) if broker.pids else always
        lines = run_lines(command, scale.overload_s + 1.0 + OVERHEAD_SECONDS_MAX, watch)
    finally:
        broker.stop()
    series = [json.loads(line) for line in lines if line.startswith('{"t"')]
    if not series:
        raise RunFailed("the overload run ended within a second")
    is_stopped = lines[-1].startswith('{"t"')
    if is_stopped:
        measured = series[1:] or series
        consumer_rate = sum(point["got"] for point in measured) / len(measured)
        publish_rate = sum(point["pub"] for point in measured) / len(measured)
        rss_mb, seconds = max(point["rss_mb"] for point in series), float(len(series))
    else:
        sample = parse_sample(lines[-1])
        consumer_rate, publish_rate = sample.rate, sample.publish_rate
        rss_mb, seconds = sample.rss_max_mb, sample.seconds
    values = {
        "consumer_rate": consumer_rate,
        "consumer_share": consumer_rate / CONSUMER_RATE,
        "consumer_rate_last": float(series[-1]["got"]),
        "publish_rate": publish_rate,
        "seconds": seconds,
        "is_stopped": float(is_stopped),
    }
    if broker.pids:
        values["rss_mb"] = rss_mb
        values["rss_over_depth_mb"] = rss_mb - depth_mb
    return values


def measure_drain(program: Path, target: Target, scale: Scale) -> dict[str, float]:
    """Fill a queue with persistent messages of 1 KB, then drain it.

    A publisher held for 3 s ends the filling: what was confirmed counts. Returns count, fill_rate,
    fill_cpu_us, drain_rate, drain_cpu_us, drain_mb_s, rss_mb, sync_us.
    Raises: RunFailed, BrokerFailed.
    """
    broker = target.start()
    try:
        common = ("-s", "1024", "--persistent", "--durable", "--keep", "--qprefix", "drain")
        sync_us, _ = probe_sync(program, PROBE_MS).sync_us
        filling = ("-C", "0", "-n", str(scale.backlog), "--confirm", "2000", "--stall", "3")
        filled = run_once(program, broker, (*common, *filling), 0.0)
        time.sleep(scale.settle_s)
        emptying = ("-P", "0", "-n", str(filled.confirmed), "--prefetch", "1000")
        drained = run_once(program, broker, (*common, *emptying, "--ackmulti", "100"), 0.0)
        # A run of no length over the same names deletes the queue.
        deleting = ("-P", "0", "-C", "0", "-w", "0", "-t", "0", "--durable", "--qprefix", "drain")
        run_once(program, broker, deleting, 0.0)
    finally:
        broker.stop()
    if drained.got != filled.confirmed:
        raise RunFailed(f"{filled.confirmed} messages were confirmed and {drained.got} came back")
    return {
        "count": float(filled.confirmed),
        "fill_rate": filled.publish_rate,
        "fill_cpu_us": filled.cpu_us,
        "drain_rate": drained.rate,
        "drain_cpu_us": drained.cpu_us,
        "drain_mb_s": drained.body_bytes / drained.seconds / 1e6,
        "rss_mb": max(filled.rss_max_mb, drained.rss_max_mb),
        "sync_us": sync_us,
    }
