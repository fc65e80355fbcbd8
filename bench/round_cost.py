"""What a round of snapshots costs: so many connections of one channel, half of them publishing.

In one process and without sockets, because only the walk and the history are asked about.
"""

import gc
import statistics
import time
from typing import Final

from penstock.base.config import Config
from penstock.broker.views import each_snapshot
from penstock.flow.profile import profile_named
from penstock.simulation.deeds import declare
from penstock.simulation.publishing import Load, Publishing, to_queue
from penstock.simulation.world import Setting, World
from penstock.telemetry.flight import FlightHistory

ROUNDS: Final = 12
BATCH: Final = 20
NS_PER_S: Final = 1_000_000_000


def busy_world(connections: int) -> World:
    """A simulated broker with this many open connections, the load on every second one."""
    setting = Setting(profile_named("penstock"), Config(heartbeat_s=0), check_every=1 << 30)
    setting.pipe_bytes = 65_536
    setting.steps_max = 1 << 40
    world = World(1, setting)
    declare(world, ("q1",))
    for number in range(connections):
        load = Load((to_queue("q1"),), number % 2, is_confirming=False, pause_percent=0)
        world.connect(Publishing(load))
        if number % BATCH == BATCH - 1:
            settle(world)
    settle(world)
    return world


def settle(world: World) -> None:
    """Let them say what they have, and look at them no more: a world looks at everybody it knows
    in every step."""
    world.settle()
    world.clients.clear()
    world.lively.clear()


def report(connections: int) -> str:
    """The cost of a whole round, of the history's part in it, and of its longest single actor."""
    world = busy_world(connections)
    # As a broker does at its start: what is alive stays, and is not walked through again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 1000)
    history = FlightHistory()
    walks, wholes, longest = [], [], 0.0
    actors = 0
    for number in range(1, ROUNDS + 1):
        began = time.perf_counter()
        snapshots = list(each_snapshot(world.broker))
        walks.append(time.perf_counter() - began)
        began = time.perf_counter()
        history.begin(number * NS_PER_S)
        for snapshot in snapshots:
            one = time.perf_counter()
            history.take(snapshot)
            longest = max(longest, time.perf_counter() - one)
        history.end()
        wholes.append(walks[-1] + time.perf_counter() - began)
        actors = len(snapshots)
    whole_ms = 1000 * statistics.median(wholes)
    walk_ms = 1000 * statistics.median(walks)
    return (
        f"{connections} connections, {actors} actors: a round takes {whole_ms:.1f} ms "
        f"({walk_ms:.1f} ms of it the snapshots), longest step of the history "
        f"{1000 * longest:.2f} ms"
    )
