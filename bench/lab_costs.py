"""Measures what a piece of the broker's work costs on this machine: the numbers of lab/model.

    python bench/lab_costs.py

The lab's world runs a plain load twice, once with messages one by one and once in large groups,
and processor time is taken around every turn. Two equations then give what a turn and what a
message costs; what the store of a durable queue adds is the difference of two runs. System calls
are timed on a pair of TCP sockets.
"""

import json
import select
import socket
import statistics
import time
from collections.abc import Callable
from typing import Final

from penstock.broker.actors.actor import Actor
from penstock.broker.channel.channel import Channel
from penstock.broker.queue.queue_actor import QueueActor
from penstock.lab.model import Costs, Network, WorkClock
from penstock.lab.peers import URL, DeclaringPeer, consumers_of, publishers_of
from penstock.lab.run import config_of, make_ready
from penstock.lab.slow_disk import give_disk
from penstock.lab.stage import LOOK_NS
from penstock.lab.workload import (
    ConsumerSpec,
    DiskSpec,
    PublisherSpec,
    QueueSpec,
    Target,
    Workload,
)
from penstock.lab.world import LabWorld

RUNS: Final = 5
CALLS: Final = 2000
SMALL: Final = 64
LARGE: Final = 65_536
NS_PER_S: Final = 1_000_000_000
FREE: Final = Costs(1000, 1000, 0.1, 1000, 100, 100, 100, 100, 100, 100, 1000, 0.1)
"""What the world charges while it is measured: anything small that lets time pass."""
CONNECTION: Final = "connection"
CHANNEL: Final = "channel"
QUEUE: Final = "queue"
WHOLE: Final = "whole"


class Spent:
    """Processor nanoseconds, turns, and the two counts of work of all actors of one kind."""

    def __init__(self) -> None:
        self.ns = 0
        self.turns = 0
        self.first = 0
        self.second = 0


class TimedClock(WorkClock):
    """A work clock that takes processor time around every turn."""

    def __init__(self, costs: Costs) -> None:
        super().__init__(costs)
        self.spent = {kind: Spent() for kind in (CONNECTION, CHANNEL, QUEUE, WHOLE)}
        self._timed: Actor | None = None
        self._before = (0, 0)
        self._began_ns = 0

    def begin(self, actor: Actor) -> None:
        super().begin(actor)
        self._timed = actor
        self._before = self.done(actor)
        self._began_ns = time.thread_time_ns()

    def end(self) -> None:
        ended_ns = time.thread_time_ns()
        super().end()
        actor = self._timed
        if actor is None:
            return
        self._timed = None
        after = self.done(actor)
        spent = self.spent[kind_of(actor)]
        spent.ns += ended_ns - self._began_ns
        spent.turns += 1
        spent.first += after[0] - self._before[0]
        spent.second += after[1] - self._before[1]


def kind_of(actor: Actor) -> str:
    """Which cost of a turn applies."""
    if isinstance(actor, QueueActor):
        return QUEUE
    return CHANNEL if isinstance(actor, Channel) else CONNECTION


def load(per_s: float, burst: int, is_consumed: bool, is_kept: bool = False) -> Workload:
    """One publisher, one queue, which is durable or not, and a consumer or none."""
    return Workload(
        "calibration",
        "one publisher, one queue",
        queues=(QueueSpec("q", is_durable=is_kept),),
        publishers=(
            PublisherSpec("p", (Target("", "q"),), per_s, burst=burst, is_paced=True,
                       size_bytes_lowest=64, size_bytes_highest=64, is_persistent=is_kept),
        ),
        consumers=(ConsumerSpec("q", prefetch=1000),) if is_consumed else (),
        warm_up_s=0.0,
        disk=DiskSpec(5.0, 1.0) if is_kept else None,
    )  # fmt: skip


def spend(workload: Workload, seconds: float) -> dict[str, Spent]:
    """Run it for virtual `seconds`; what its actors have spent, and WHOLE in all."""
    clock = TimedClock(FREE)
    world = LabWorld(1, config_of(workload, "none"), clock, Network(20_000, 0.0, 1 << 20, 1 << 20))
    disk = give_disk(world.broker, workload)
    if disk is not None:
        world.every(LOOK_NS, disk.serve)
    tally = world.tally
    make_ready(world, [DeclaringPeer(workload, URL, tally, 0)])
    publishers = publishers_of(workload, world.dice, tally, 0)
    consumers = consumers_of(workload, tally, 0)
    make_ready(world, [*consumers, *publishers])
    for spent in clock.spent.values():
        spent.ns = spent.turns = spent.first = spent.second = 0
    for peer in (*publishers, *consumers):
        peer.begin(clock.now_ns)
    world.wake(clock.now_ns)
    whole = clock.spent[WHOLE]
    whole.ns = time.thread_time_ns()
    world.run_until(clock.now_ns + int(seconds * NS_PER_S), lambda: False)
    whole.ns = time.thread_time_ns() - whole.ns
    whole.first = max(1, tally.received)
    return clock.spent


def solve(few: Spent, many: Spent) -> tuple[float, float]:
    """What a turn and what a message costs, from a run with few messages a turn and one with many:

    ns / turns = turn + message * (messages / turns)
    """
    message = (many.ns / many.turns - few.ns / few.turns) / (
        many.first / many.turns - few.first / few.turns
    )
    return few.ns / few.turns - message * few.first / few.turns, message


def actor_costs() -> dict[str, float]:
    """turn, parse, route, take, settle, give and keep, in nanoseconds: the medians of RUNS."""
    rows = []
    for _ in range(RUNS):
        single = spend(load(2000, 1, False), 0.5)
        grouped = spend(load(20_000, 500, False), 0.5)
        consumed = spend(load(20_000, 500, True), 0.5)
        row: dict[str, float] = {}
        turns = []
        for name, kind in (("parse_ns", CONNECTION), ("route_ns", CHANNEL), ("take_ns", QUEUE)):
            turn, row[name] = solve(single[kind], grouped[kind])
            turns.append(turn)
        row["turn_ns"] = statistics.mean(turns)
        for name, kind, other in (
            ("give_ns", QUEUE, "take_ns"),
            ("settle_ns", CHANNEL, "route_ns"),
        ):
            spent = consumed[kind]
            known = spent.turns * row["turn_ns"] + spent.first * row[other]
            row[name] = max(0.0, (spent.ns - known) / spent.second)
        kept = spend(load(20_000, 500, True, is_kept=True), 0.5)[WHOLE]
        plain = consumed[WHOLE]
        row["keep_ns"] = kept.ns / kept.first - plain.ns / plain.first
        rows.append(row)
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def system_costs() -> dict[str, float]:
    """Reads, sends and polls, in nanoseconds; the best of many."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    found: dict[str, float] = {}
    with near, far, select.epoll() as poll:
        poll.register(far.fileno(), select.EPOLLIN)
        found["poll_ns"] = best(lambda: poll.poll(0.0))
        for size in (SMALL, LARGE):
            data = bytes(size)
            sends, reads = [], []
            for _ in range(CALLS):
                began_ns = time.perf_counter_ns()
                near.sendall(data)
                sends.append(time.perf_counter_ns() - began_ns)
                while size > 0:
                    began_ns = time.perf_counter_ns()
                    taken = len(far.recv(LARGE))
                    reads.append((time.perf_counter_ns() - began_ns) / taken)
                    size -= taken
                size = len(data)
            found[f"send {size}"] = min(sends)
            found[f"read {size}"] = min(reads) * size
    span = LARGE - SMALL
    costs = {"poll_ns": found["poll_ns"]}
    for name in ("send", "read"):
        byte = (found[f"{name} {LARGE}"] - found[f"{name} {SMALL}"]) / span
        costs[f"{name}_byte_ns"] = byte
        costs[f"{name}_ns"] = found[f"{name} {SMALL}"] - byte * SMALL
    return costs


def best(work: Callable[[], object]) -> float:
    """Nanoseconds of the fastest of CALLS calls."""
    times = []
    for _ in range(CALLS):
        began_ns = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - began_ns)
    return min(times)


if __name__ == "__main__":
    measured = {**actor_costs(), **system_costs()}
    print(json.dumps({name: round(value, 2) for name, value in sorted(measured.items())}, indent=1))
