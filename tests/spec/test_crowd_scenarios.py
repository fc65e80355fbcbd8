"""Scenario 84 of flow-semantics 19.D: a thousand publishers ask for twice of what is to be had, for
a minute, and none of them waits for confirms.

In virtual time, on the real broker. Numbers scale: the queue takes 200 messages a second, so the
windows are small, and what is refused in that minute is half as much again as what they let in.
"""

import pytest

from penstock.base.config import Config
from penstock.broker.admin.alarm_watch import AlarmWatch
from penstock.lab.model import INTERPRETED, LOOPBACK, WorkClock
from penstock.lab.peers import (
    URL,
    DeclaringPeer,
    PublishingPeer,
    consumers_of,
    publishers_of,
)
from penstock.lab.result import BIN_NS
from penstock.lab.run import make_ready
from penstock.lab.stage import HeldBytesProbe, SlowQueue, held_bytes
from penstock.lab.workload import (
    KIB,
    ConsumerSpec,
    PublisherSpec,
    QueueSpec,
    Target,
    Workload,
)
from penstock.lab.world import LabWorld

S_NS = 1_000_000_000
SERVE_NS = 5_000_000
SAMPLE_NS = 500_000_000
SECONDS = 60
PUBLISHERS = 1000
CAPACITY_PER_S = 200
OFFERED_PER_S = 2 * CAPACITY_PER_S
BODY_BYTES = 4 * KIB
INITIAL = 2
"""On either hop of a publish. Two windows a publisher, and the publishes beside them, make the
budget; an eighth more is for what a message costs beside its body."""
BUDGET_BYTES = PUBLISHERS * (2 * INITIAL + 2) * BODY_BYTES * 9 // 8
CROWD = Workload(
    "crowd",
    "a thousand publishers without confirms ask for twice of what a queue can take",
    (QueueSpec("popular", service_us=1_000_000 / CAPACITY_PER_S, commit_ms=5),),
    (
        PublisherSpec(
            "crowd",
            (Target("", "popular"),),
            OFFERED_PER_S / PUBLISHERS,
            count=PUBLISHERS,
            size_bytes_lowest=BODY_BYTES,
            size_bytes_highest=BODY_BYTES,
            confirms_max=0,
            is_paced=True,
        ),
    ),
    (ConsumerSpec("popular"),),
)


class Memory:
    """What the broker holds, under a memory alarm at the budget."""

    def __init__(self, world: LabWorld) -> None:
        self.broker = world.broker
        self.watch = AlarmWatch(world.broker, HeldBytesProbe(world.broker))
        self.watch.set_memory_high(str(BUDGET_BYTES))
        self.bytes_max = 0
        self.alarms = 0

    def look(self, now_ns: int) -> None:
        self.watch.check_memory()
        self.alarms += len(self.broker.alarms)
        self.bytes_max = max(self.bytes_max, held_bytes(self.broker))


def crowd(profile: str) -> tuple[Memory, list[int], list[PublishingPeer]]:
    """The whole minute: memory, messages received in bins, the publishers."""
    clock = WorkClock(INTERPRETED)
    window = f"{INITIAL}/{INITIAL // 2}"
    config = Config(profile=profile, credit_connection_channel=window, credit_channel_queue=window)
    world = LabWorld(84, config, clock, LOOPBACK)
    make_ready(world, [DeclaringPeer(CROWD, URL, world.tally, clock.now_ns)])
    publishers = publishers_of(CROWD, world.dice, world.tally, clock.now_ns)
    consumers = consumers_of(CROWD, world.tally, clock.now_ns)
    make_ready(world, [*consumers, *publishers])
    start_ns = clock.now_ns
    end_ns = start_ns + SECONDS * S_NS
    world.tally.begin(start_ns, start_ns, end_ns)
    queue = world.broker.vhosts["/"].queues["popular"]
    slow = SlowQueue(CROWD.queues[0], queue, world.broker.scheduler)
    slow.hold(start_ns)
    world.every(SERVE_NS, slow.serve)
    memory = Memory(world)
    world.every(SAMPLE_NS, memory.look)
    for peer in (*consumers, *publishers):
        peer.begin(start_ns)
    world.wake(start_ns)
    world.run_until(end_ns, lambda: False)
    return memory, world.tally.lines["received"], publishers


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["penstock", "rabbitmq-4"])
def test_scenario_84_a_thousand_publishers_for_a_minute(profile: str) -> None:
    memory, received, publishers = crowd(profile)
    offered = sum(one.streams[0].taken for one in publishers)
    assert offered >= 0.99 * SECONDS * OFFERED_PER_S, "the network holds what the broker does not"
    refused_bytes = (offered - SECONDS * CAPACITY_PER_S) * BODY_BYTES
    assert refused_bytes > 1.5 * BUDGET_BYTES, "without flow control the budget would be broken"
    assert 0 < memory.bytes_max <= BUDGET_BYTES
    assert memory.alarms == 0
    last = received[-10 * S_NS // BIN_NS :]
    assert sum(last) >= 0.8 * 10 * CAPACITY_PER_S, "no collapse at the end"
