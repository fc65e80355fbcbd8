"""A leader that is asked to hand over: who was asked for leads, though its disk is behind."""

import pytest

from penstock.simulation.cluster.node import SimNode
from penstock.simulation.cluster.world import ClusterSetting, ClusterWorld


def ask(leader: SimNode, name: str) -> list[str]:
    """What it answers to an operator who wants `name` to lead."""
    answer: list[str] = []
    leader.deliver("move", lambda: answer.append(leader.member.resign(name, leader.now_ms())))
    return answer


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
        before = world.leader()
        assert before is not None
        answer = ask(before, name)
        world.run_for(3000)
        after = world.leader()
        assert answer == [""] and after is not None and after.name == name
        asked.disk.slow = 1
