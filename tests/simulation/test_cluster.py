"""Clusters of real members in trouble: a sample of what `make sim-cluster` runs by the thousand.

After every step the laws hold: one leader an epoch, what was confirmed is in the log of whoever
leads, replicas at one position have one content; and after all trouble everybody has the same.
"""

import os
import subprocess
import sys
from dataclasses import asdict

import pytest

from penstock.simulation.cluster.nemesis import TROUBLES
from penstock.simulation.cluster.world import ClusterSetting, simulate_cluster

PER_TEST = 20

# Runs that once failed, with the trouble that was drawn from, () for any. They are kept, and the
# list grows only.
FAILED: tuple[tuple[int, tuple[str, ...], float], ...] = (
    # The write of an earlier promise let a later one be told before it was on the disk.
    (15, (), 8.0),
    # A broker was started that had been told to stop before it began (the simulated shell's).
    (33, (), 8.0),
    # A leader that had ended its epoch in order, and whose resignation was lost, waited for itself.
    (10, ("one_way", "cut_store", "isolate", "delay", "move", "pause"), 5.0),
    # A new member that was cut off from the coordinator followed before it had joined.
    (1101, (), 5.0),
    # An entry that was being applied when the history was forgotten: it was waited for, for ever.
    (613, (), 5.0),
    # A follower that was told twice from where it gets entries believed the first answer.
    (1629, (), 5.0),
)

FLAPPING = ClusterSetting(nodes=3, mode="majority", kinds=("flap",), trouble_s=60.0)


@pytest.mark.parametrize("first", range(1, 201, PER_TEST))
def test_clusters_in_trouble(first: int) -> None:
    reports = [simulate_cluster(seed) for seed in range(first, first + PER_TEST)]
    assert sum(report.entries for report in reports) > 1000
    assert sum(report.leaders for report in reports) > PER_TEST
    assert sum(report.resyncs for report in reports) > 0


@pytest.mark.parametrize(("seed", "kinds", "trouble_s"), FAILED)
def test_runs_that_once_failed(seed: int, kinds: tuple[str, ...], trouble_s: float) -> None:
    setting = ClusterSetting(kinds=kinds, trouble_s=trouble_s)
    assert simulate_cluster(seed, setting).confirms > 0


def test_every_kind_of_trouble_comes() -> None:
    counts: dict[str, int] = {}
    for kind in TROUBLES:
        kinds = (kind,) if kind != "forget_member" else (kind, "add_member")
        report = simulate_cluster(3, ClusterSetting(kinds=kinds, trouble_s=6.0))
        counts |= report.troubles
    assert sorted(counts) == sorted(TROUBLES)


def test_one_flapping_link_moves_no_epoch() -> None:
    """A majority has to miss the leader, so a link of one follower changes nothing."""
    for seed in range(1, 4):
        report = simulate_cluster(seed, FLAPPING)
        assert report.troubles["flap"] > 10
        assert report.epochs <= 2, report


def test_a_seed_is_repeatable_whatever_the_order_of_hashes() -> None:
    here = [asdict(simulate_cluster(seed)) for seed in (5, 6)]
    for hash_seed in ("1", "77"):
        there = subprocess.run(
            [sys.executable, "-c", PRINT_REPORTS],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        )
        assert there.stdout == "".join(f"{report}\n" for report in here)


PRINT_REPORTS = """
from dataclasses import asdict
from penstock.simulation.cluster.world import simulate_cluster
for seed in (5, 6):
    print(asdict(simulate_cluster(seed)))
"""
