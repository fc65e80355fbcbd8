"""The laws of the simulated cluster are worth what they find: each planted bug is found.

The same seed passes without the bug, or the find would prove nothing. How many seeds each took is
printed.
"""

import pytest

from penstock.replication.member import Member
from penstock.simulation.cluster.node import SimNode
from penstock.simulation.cluster.world import ClusterFailed, ClusterSetting, simulate_cluster
from tests.simulation.planted_cluster import BUGS

SEEDS = range(1, 301)


@pytest.mark.parametrize(
    ("kind", "troubles", "mode"), BUGS, ids=[kind.__name__ for kind, *_ in BUGS]
)
def test_a_planted_bug_is_found(
    kind: type[Member] | type[SimNode], troubles: tuple[str, ...], mode: str
) -> None:
    for seed in SEEDS:
        setting = ClusterSetting(kinds=troubles, mode=mode)
        if issubclass(kind, SimNode):
            setting.node = kind
        else:
            setting.member = kind
        try:
            simulate_cluster(seed, setting)
        except ClusterFailed as failure:
            print(f"{kind.__name__}: {seed} seeds; {failure.fault.splitlines()[0]}")
            assert f"--first-seed {seed}" in str(failure)
            simulate_cluster(seed, ClusterSetting(kinds=troubles, mode=mode))
            return
    pytest.fail(f"{kind.__name__} was not found in seeds {SEEDS}")
