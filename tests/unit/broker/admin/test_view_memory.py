"""What is remembered of a round: nothing that has changed, and everything that has not."""

from dataclasses import replace

from penstock.base.config import Config
from penstock.broker.admin.view_memory import ViewMemory
from penstock.broker.admin.views import actor_snapshots, each_snapshot
from penstock.flow.profile import profile_named
from penstock.simulation.world.actions import declare
from penstock.simulation.world.consuming import ConsumingRole, Habit
from penstock.simulation.world.publishing import Load, PublishingRole, to_queue
from penstock.simulation.world.world import WorldSetting
from penstock.telemetry.window import WindowHistory
from tests.simulation.test_attribution import WatchedWorld

S = 1_000_000_000
ROUNDS = 40
MS = 1_000_000


def busy_world(seed: int) -> WatchedWorld:
    """Two publishers that pause, a consumer that is slow, and one who says nothing."""
    setting = WorldSetting(profile_named("penstock"), Config(heartbeat_s=0), check_every=1 << 30)
    world = WatchedWorld(seed, setting)
    declare(world, ("q1", "q2"))
    world.connect(ConsumingRole(Habit("q1", prefetch=2, think_ns=30 * MS)))
    load = Load((to_queue("q1"), to_queue("q2")), 20, pause_percent=50, pause_ns=90 * MS)
    for _ in range(2):
        world.connect(PublishingRole(load))
    world.connect(
        PublishingRole(
            replace(load, addresses=(to_queue("q2"),)),
        )
    )
    return world


def test_windows_are_the_same_with_and_without() -> None:
    """Whoever rests is not looked at again, and every difference comes out as if it were."""
    reused = 0
    for seed in range(1, 4):
        world = busy_world(seed)
        memory = ViewMemory()
        with_it, without = WindowHistory(100), WindowHistory(100)
        for _ in range(ROUNDS):
            world.run_until(world.clock.now_ns + 20 * MS)
            now_ns = world.clock.now_ns
            # Reading closes a period of longest holds, so both see the same snapshot or its like.
            snapshots = {one.actor: one for one in each_snapshot(world.broker, memory)}
            with_it.push(now_ns, snapshots)
            again = actor_snapshots(world.broker)
            assert set(again) == set(snapshots)
            for actor, one in snapshots.items():
                fresh = again[actor]
                # The simulator's clock moves when it is read, and holds grow with it.
                assert {**one.numbers, "held_ns": 0} == {**fresh.numbers, "held_ns": 0}, actor
                assert one.labels == fresh.labels and one.state == fresh.state
                assert one.times.busy_ns == fresh.times.busy_ns
                assert one.blocked.blocked_ns == fresh.blocked.blocked_ns
            without.push(now_ns, again)
        for actor, window in without.over(1.0).items():
            times = with_it.over(1.0)[actor].times
            assert (times.busy_ns, times.blocked_ns) == (
                window.times.busy_ns,
                window.times.blocked_ns,
            ), actor
            assert min(times.idle_ns, times.waiting_ns) >= 0
        reused += memory.reused
    assert reused > ROUNDS, "somebody must have rested, or nothing was shown"
