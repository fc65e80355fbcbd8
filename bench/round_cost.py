"""What a round of snapshots costs: so many connections of one channel, half of them publishing.

In one process and without sockets, because only the walk and the history are asked about; in CPU
time of its thread, so that what else the machine does is not in it.
"""

import gc
import statistics
import time
from typing import Final

from penstock.base.config import Config
from penstock.broker.admin.view_memory import ViewMemory
from penstock.broker.admin.views import each_snapshot
from penstock.explain.freezing import Freezer
from penstock.flow.profile import profile_named
from penstock.simulation.world.actions import declare
from penstock.simulation.world.publishing import Load, PublishingRole, to_queue
from penstock.simulation.world.world import World, WorldSetting
from penstock.telemetry.flight import FlightHistory

ROUNDS: Final = 12
BATCH: Final = 20
NS_PER_S: Final = 1_000_000_000


def busy_world(connections: int) -> World:
    """A simulated broker with this many open connections, the load on every second one."""
    setting = WorldSetting(profile_named("penstock"), Config(heartbeat_s=0), check_every=1 << 30)
    setting.pipe_bytes = 65_536
    setting.steps_max = 1 << 40
    world = World(1, setting)
    declare(world, ("q1",))
    for number in range(connections):
        load = Load((to_queue("q1"),), number % 2, is_confirming=False, pause_percent=0)
        world.connect(PublishingRole(load))
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
    """What a round costs when nobody has worked since the one before, as in most of thousands of
    connections, and when every actor has to be looked at again."""
    world = busy_world(connections)
    # As a broker does at its start: what is alive stays, and is not walked through again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 1000)
    lines = [_measured(world, "all at rest", ViewMemory())]
    lines.append(_measured(world, "all at work", None))
    return "\n".join(lines)


def _measured(world: World, title: str, memory: ViewMemory | None) -> str:
    """ROUNDS rounds, with a `memory` of the one before or without, as if nothing ever rested."""
    history, freezer = FlightHistory(), Freezer()
    walks, wholes = [], []
    longest = {"of a snapshot": 0.0, "of the history": 0.0, "at the end": 0.0}
    actors = 0
    for number in range(1, ROUNDS + 1):
        history.begin(number * NS_PER_S)
        walk = each_snapshot(world.broker, memory)
        whole_s = walk_s = 0.0
        actors = 0
        while True:
            began = time.thread_time()
            snapshot = next(walk, None)
            made = time.thread_time()
            walk_s += made - began
            longest["of a snapshot"] = max(longest["of a snapshot"], made - began)
            if snapshot is None:
                break
            history.take(snapshot)
            freezer.take(snapshot)
            taken = time.thread_time() - made
            longest["of the history"] = max(longest["of the history"], taken)
            whole_s += taken
            actors += 1
        began = time.thread_time()
        history.end()
        freezer.end(number * NS_PER_S)
        ended = time.thread_time() - began
        longest["at the end"] = max(longest["at the end"], ended)
        walks.append(walk_s)
        wholes.append(whole_s + walk_s + ended)
    steps = ", ".join(f"{1000 * seconds:.2f} ms {what}" for what, seconds in longest.items())
    return (
        f"{len(world.broker.connections)} connections, {actors} actors, {title}: a round takes "
        f"{1000 * statistics.median(wholes):.1f} ms ({1000 * statistics.median(walks):.1f} ms of "
        f"it the snapshots); longest steps {steps}"
    )
