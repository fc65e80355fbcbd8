"""One workload under one profile in virtual time: set up, warm up, measure, wait for confirms."""

from collections.abc import Callable, Sequence
from functools import partial

from penstock.base.config import Config
from penstock.broker.broker import Broker
from penstock.lab.model import INTERPRETED, LOOPBACK, Costs, Network, WorkClock
from penstock.lab.peers import (
    URL,
    DeclaringPeer,
    Peer,
    consumers_of,
    publishers_apart,
    publishers_of,
)
from penstock.lab.result import SIMULATED, Memory, Result, result_of
from penstock.lab.stage import LOOK_NS, BrokerStage
from penstock.lab.workload import Workload
from penstock.lab.world import LabWorld
from penstock.simulation.machine.faults import LawBroken

NS_PER_S = 1_000_000_000
SET_UP_NS = 60 * NS_PER_S
WATCH_NS = 100_000_000


def config_of(workload: Workload, profile: str) -> Config:
    """The broker's settings for a workload; the same in the simulator and live."""
    return Config(
        profile=profile,
        queue_depth_bytes=workload.depth_bytes,
        parked_bytes=workload.parked_bytes,
    )


def simulate_alone(
    workload: Workload, seed: int, costs: Costs = INTERPRETED, network: Network = LOOPBACK
) -> Result | None:
    """Its innocent traffic alone and without flow control: what the rest is compared with. None
    when it has none. Raises: LawBroken, PeerFailed when it goes wrong."""
    if not workload.has_innocents():
        return None
    return simulate(workload.alone(), "none", seed, None, costs, network)


def simulate(
    workload: Workload, profile: str, seed: int, alone: Result | None,
    costs: Costs = INTERPRETED, network: Network = LOOPBACK,
    config: Config | None = None, has_own_chance: bool = False,
    watch: Callable[[Broker, int], None] | None = None,
) -> Result:  # fmt: skip
    """One run. alone: see `simulate_alone`; config: of the broker, None for `config_of`;
    has_own_chance: what programs do by chance follows from `seed` alone, so that it is the same
    whatever the broker does; watch: is shown the broker every WATCH_NS from the start
    on. Raises: LawBroken, PeerFailed when it goes wrong."""
    clock = WorkClock(costs)
    world = LabWorld(seed, config or config_of(workload, profile), clock, network)
    tally = world.tally
    stage = BrokerStage(world.broker, workload)
    make_ready(world, [DeclaringPeer(workload, URL, tally, clock.now_ns)])
    if has_own_chance:
        publishers = publishers_apart(workload, seed, tally, clock.now_ns)
    else:
        publishers = publishers_of(workload, world.dice, tally, clock.now_ns)
    consumers = consumers_of(workload, tally, clock.now_ns)
    make_ready(world, [*consumers, *publishers])
    start_ns = clock.now_ns
    from_ns = start_ns + int(workload.warm_up_s * NS_PER_S)
    end_ns = from_ns + int(workload.seconds * NS_PER_S)
    tally.begin(start_ns, from_ns, end_ns)
    stage.prepare(start_ns)
    stage.begin(start_ns)
    world.every(LOOK_NS, stage.look)
    if watch is not None:
        world.every(WATCH_NS, partial(watch, world.broker))
    for peer in (*consumers, *publishers):
        peer.begin(start_ns)
    world.wake(start_ns)
    world.run_until(end_ns, lambda: False)
    alarm_s = stage.alarm_ns / NS_PER_S
    bytes_max, bins = stage.bytes_max, list(stage.bins)
    stage.end(clock.now_ns)
    for publisher in publishers:
        publisher.stop()
    # What was published in the measured stretch may be confirmed later, and that counts.
    drain_ns = end_ns + int(workload.seconds * NS_PER_S)
    confirming = [one for one in publishers if one.spec.confirms_max]
    world.run_until(drain_ns, lambda: not any(one.open for one in confirming))
    for publisher in confirming:
        publisher.give_up(clock.now_ns)
    memory = Memory(bytes_max, bins, alarm_s)
    return result_of(workload, profile, SIMULATED, seed, tally, memory, alone)


def make_ready(world: LabWorld, peers: Sequence[Peer]) -> None:
    """Connect `peers` and wait until all are set up."""
    for peer in peers:
        world.connect(peer, world.clock.now_ns)
    waiting = list(peers)

    def is_over() -> bool:
        while waiting and waiting[-1].is_ready:
            waiting.pop()
        return not waiting

    world.run_until(world.clock.now_ns + SET_UP_NS, is_over)
    if waiting:
        raise LawBroken(f"{waiting[-1].name} could not be set up in {SET_UP_NS // NS_PER_S} s")
