"""Who is blamed for blocked time in the lab, against what the lab itself knows.

Before every move of the clock and at every turn the world looks at each connection and writes down
whether it is held, and who can be the reason at that moment: the alarm that is set for it, the slow
queues whose hops are closed, the consumers of queues that are too deep, and where such a consumer
is itself held as a publisher, whoever holds that. The books of the broker must agree with the sums,
and at least 95 % of the blocked time of all connections together must be put down to somebody who
was a reason for so long, under the right label. Source: the promise in docs/flow.md.
"""

from dataclasses import dataclass, replace

import pytest

from penstock.broker.actors.actor import Actor
from penstock.broker.admin.views import actor_snapshots
from penstock.broker.connection.connection import Connection
from penstock.explain.blame import follow
from penstock.explain.graph_extension import beyond
from penstock.explain.root_causes import name_cause
from penstock.lab.model import INTERPRETED, LOOPBACK, WorkClock, WorkPicker
from penstock.lab.peers import URL, DeclaringPeer, consumers_of, publishers_of
from penstock.lab.run import config_of, make_ready
from penstock.lab.stage import LOOK_NS, BrokerStage
from penstock.lab.workload import ALARM, KIB, WORKLOADS, Workload, WorkloadEvent
from penstock.lab.world import LabWorld
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.window import WindowHistory
from tests.simulation.test_attribution import check_states

NS_PER_S = 1_000_000_000
ROUND_NS = 100_000_000
TOTALS_AGREE = 0.01
EXPLAINED = 0.95
SECONDS = {"deep-chain": 1.0, "memory-alarm": 1.0}
LABELS = {"alarm": "alarm:memory", "consumers": "consumer", "queue": "slow", "conn": "debt"}


class Truth:
    """held_ns: by connection; reasons_ns: by connection and culprit, time in which that one was a
    reason, alone or among others."""

    def __init__(self) -> None:
        self.world: LabWorld | None = None
        self.held_ns: dict[str, int] = {}
        self.reasons_ns: dict[tuple[str, str], int] = {}
        self._looked_ns = 0
        self._held: dict[str, set[str]] = {}

    def look(self) -> None:
        """Add the time since the last look to who was held then, and look again."""
        world = self.world
        if world is None:
            return
        passed_ns = world.clock.now_ns - self._looked_ns
        self._looked_ns = world.clock.now_ns
        if passed_ns > 0:
            for name, reasons in self._held.items():
                self.held_ns[name] = self.held_ns.get(name, 0) + passed_ns
                for reason in reasons:
                    key = (name, reason)
                    self.reasons_ns[key] = self.reasons_ns.get(key, 0) + passed_ns
        self._held = {
            one.identity: self._reasons(one)
            for one in world.broker.connections.values()
            if not one.gate.is_open or one.is_told_blocked
        }

    def begin(self, world: LabWorld) -> None:
        self.world = world
        self._looked_ns = world.clock.now_ns
        self.look()

    def _reasons(self, connection: Connection) -> set[str]:
        accounts = {peer for peer, why, _ in connection.gate.snapshot() if why == "debt"}
        return self._queues(connection) | accounts | set(connection.alarms)

    def _queues(self, connection: Connection) -> set[str]:
        """Who is downstream of the closed hops of a connection's channels."""
        assert self.world is not None, "looked at in a world"
        queues = self.world.broker.vhosts["/"].queues
        found: set[str] = set()
        for channel in connection.channels.values():
            lanes = {} if channel.publisher is None else channel.publisher.lanes
            for lane in lanes.values():
                if lane.is_closed:
                    queue = queues[lane.receiver.removeprefix("queue:/")]
                    found |= self._consumers(queue.name) if queue.is_deep else {queue.identity}
        return found

    def _consumers(self, queue: str) -> set[str]:
        """The consumers of a deep queue, or who holds those of them that publish themselves."""
        assert self.world is not None, "looked at in a world"
        found: set[str] = set()
        for consumer in self.world.broker.vhosts["/"].queues[queue].consumers:
            connection = self.world.broker.connections[consumer.holder.removeprefix("conn:")]
            found |= self._queues(connection)
        return found or {f"consumers:/{queue}"}


class WatchedClock(WorkClock):
    """Looks before every jump."""

    def __init__(self, truth: Truth) -> None:
        super().__init__(INTERPRETED)
        self.truth = truth

    def jump(self, to_ns: int) -> None:
        self.truth.look()
        super().jump(to_ns)
        self.truth.look()


class WatchedPicker(WorkPicker):
    """Looks between turns."""

    def __init__(self, clock: WatchedClock) -> None:
        super().__init__(clock)
        self.truth = clock.truth

    def pick(self, ready: list[Actor]) -> int:
        self.clock.end()
        self.truth.look()
        return super().pick(ready)


class WatchedLab(LabWorld):
    """Looks before and after each round of the broker."""

    def __init__(self, workload: Workload, profile: str, clock: WatchedClock) -> None:
        # Without room to park publishers are held, and there is time to be explained.
        config = replace(config_of(workload, profile), parked_bytes=1)
        super().__init__(1, config, clock, LOOPBACK)
        self.truth = clock.truth
        self.picker = WatchedPicker(clock)
        self.broker.scheduler.picker = self.picker

    def _round(self) -> None:
        self.truth.look()
        super()._round()
        self.truth.look()


@dataclass(frozen=True, slots=True)
class Run:
    """What a run has shown. windows: of every actor, over the whole run."""

    truth: Truth
    windows: dict[str, ActorWindow]


def run(workload: Workload, profile: str) -> Run:
    """One workload from its first publish to the end of its measured stretch."""
    truth = Truth()
    clock = WatchedClock(truth)
    world = WatchedLab(workload, profile, clock)
    stage = BrokerStage(world.broker, workload)
    make_ready(world, [DeclaringPeer(workload, URL, world.tally, clock.now_ns)])
    publishers = publishers_of(workload, world.dice, world.tally, clock.now_ns)
    consumers = consumers_of(workload, world.tally, clock.now_ns)
    make_ready(world, [*consumers, *publishers])
    start_ns = clock.now_ns
    from_ns = start_ns + int(workload.warm_up_s * NS_PER_S)
    end_ns = from_ns + int(workload.seconds * NS_PER_S)
    world.tally.begin(start_ns, from_ns, end_ns)
    stage.prepare(start_ns)
    stage.begin(start_ns)
    world.every(LOOK_NS, stage.look)
    for peer in (*consumers, *publishers):
        peer.begin(start_ns)
    world.wake(start_ns)
    truth.begin(world)
    history = WindowHistory(100)
    history.push(clock.now_ns, actor_snapshots(world.broker))
    while clock.now_ns < end_ns:
        world.run_until(clock.now_ns + ROUND_NS, lambda: False)
        truth.look()
        history.push(clock.now_ns, actor_snapshots(world.broker))
    windows = history.over((end_ns - start_ns) / NS_PER_S + 1)
    # The one publish that is parked without room holds nobody.
    at_gates = {actor: replace(window, parked=()) for actor, window in windows.items()}
    return Run(truth, beyond(at_gates))


def short(name: str) -> Workload:
    if name == LASTING_ALARM:
        events = (WorkloadEvent(0.1, ALARM, limit_bytes=64 * KIB), WorkloadEvent(0.9, ALARM))
        return replace(short("memory-alarm"), events=events)
    return WORKLOADS[name].quick().lasting(SECONDS.get(name, 0.5))


LASTING_ALARM = "memory-alarm that outlasts the queue's depth"
CULPRITS = {
    "slow-queue": "queue:/slow",
    "slow-consumer": "consumers:/work",
    "fan-out": "queue:/out-9",
    "thousand": "queue:/popular",
    "mixed-sizes": "queue:/mixed",
    "deep-chain": "consumers:/stage-4",
    "bursts": "queue:/bursty",
}
NOBODY_HELD = ("bursts", "slow-disk", "slow-disk-400")
"""By `penstock`: all that is unconfirmed has room in windows and lots."""
CASES = [
    *((name, "penstock") for name in WORKLOADS if name not in NOBODY_HELD),
    (LASTING_ALARM, "penstock"),
    (LASTING_ALARM, "rabbitmq-4"),
    ("bursts", "rabbitmq-3.5"),
    ("slow-queue", "rabbitmq-4"),
    ("fan-out", "syndicate"),
]


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_blocked_time_is_explained_by_who_was_the_reason(name: str, profile: str) -> None:
    done = run(short(name), profile)
    total_ns = sum(done.truth.held_ns.values())
    assert total_ns > 0, "nobody was held, so nothing would be shown"
    explained_ns = booked_ns = culprit_ns = 0
    told: dict[tuple[str, str, str], tuple[int, int]] = {}
    for actor, window in done.windows.items():
        if window.kind != "conn":
            continue
        truth_ns = done.truth.held_ns.get(actor, 0)
        assert abs(window.blocked_ns - truth_ns) <= TOTALS_AGREE * total_ns, actor
        booked_ns += window.blocked_ns
        blamed: dict[tuple[str, str], int] = {}
        for stay in follow(actor, done.windows):
            cause = (stay.root, name_cause(stay, done.windows)[0])
            blamed[cause] = blamed.get(cause, 0) + stay.ns
        assert sum(blamed.values()) == window.blocked_ns
        for (root, label), ns in blamed.items():
            reason_ns = done.truth.reasons_ns.get((actor, root), 0)
            told[actor, root, label] = (ns, reason_ns)
            if label == LABELS[root.partition(":")[0]]:
                explained_ns += min(ns, reason_ns)
                culprit_ns += ns if root == CULPRITS.get(name) else 0
    assert abs(booked_ns - total_ns) <= TOTALS_AGREE * total_ns
    assert explained_ns >= EXPLAINED * total_ns, (explained_ns / total_ns, told)
    if name in CULPRITS and profile != "syndicate":
        assert culprit_ns >= EXPLAINED * total_ns, (culprit_ns / total_ns, told)
    check_states(done.windows)
