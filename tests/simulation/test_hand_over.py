"""A leader that is asked to hand over: who was asked for leads, though its disk is behind."""

import pytest

from penstock.simulation.cluster.world import ClusterSetting, ClusterWorld


@pytest.mark.parametrize("seed", range(1, 11))
def test_who_is_asked_for_leads_though_its_disk_is_slow(seed: int) -> None:
    # No trouble but that of this test.
    world = ClusterWorld(seed, ClusterSetting(nodes=3, mode="majority", kinds=("repeat",)))
    world.network.run()
    world.run_for(4000)
    leader = world.leader()
    assert leader is not None
    for name in sorted(world.nodes.keys() - {leader.name}):
        asked = world.nodes[name]
        asked.disk.slow = 20
        world.run_for(300)
        answers: list[str] = []
        before = world.leader()
        assert before is not None
        before.deliver(
            "move", lambda b=before, n=name, a=answers: a.append(b.member.resign(n, b.now_ms()))
        )
        world.run_for(3000)
        after = world.leader()
        assert answers == [""] and after is not None and after.name == name
        asked.disk.slow = 1
