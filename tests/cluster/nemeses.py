"""Nodes and etcds in networks of their own, with disks and clocks of their own, real clients of a
queue, a quorum queue, a mirrored one, a stream, and a queue that nobody takes from before the end,
and one trouble after the other, by a seed.

    python -m tests.cluster.nemeses --seconds 180 --seed 1
    python -m tests.cluster.nemeses --seconds 180 --kinds cut_leader,flap
    python -m tests.cluster.nemeses --seconds 180 --alone 3     # the third kind, and no other
    python -m tests.cluster.nemeses --seconds 180 --nodes 5

Exit status 1 when anything was lost, invented, out of order, or did not come back, or when the
directories of the nodes are not the same in the end. Histories and logs stay in the directory that
is printed then. Needs root, iproute2, loop devices, a C compiler, and an etcd.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

# Run as a program the directory above is not on the path yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from penstock.demo.cluster_rig import ClusterRig
from tests.cluster.load import Load, await_same, command
from tests.cluster.machines import Machines
from tests.cluster.namespaces import Namespaces, may_make_networks

TROUBLE_S: Final = (2.0, 12.0)
REST_S: Final = (1.0, 4.0)
STALL_S: Final = 40.0
"""Within which a leader whose disk stands still is followed by another: cluster_disk_stall_ms, the
election and a start, on a busy machine."""


class Nemesis:
    """One of the kinds at a time. Every method makes trouble, waits, and ends it."""

    def __init__(
        self, rig: ClusterRig, spaces: Namespaces, machines: Machines, chance: random.Random
    ) -> None:
        self.rig = rig
        self.spaces = spaces
        self.machines = machines
        self.chance = chance
        self.loads: list[Load] = []
        self.began = time.monotonic()

    def confirms(self) -> int:
        """Of all publishers, so far."""
        return sum(len(load.publisher.confirmed_at) for load in self.loads)

    def say(self, words: str) -> None:
        print(f" t={time.monotonic() - self.began:06.1f}  {words}", flush=True)

    def wait(self) -> None:
        time.sleep(self.chance.uniform(*TROUBLE_S))

    def names(self) -> tuple[str, list[str]]:
        """Who leads, and the others."""
        leader = self.rig.await_serving()
        return leader, [name for name in self.rig.nodes if name != leader]

    def kill_leader(self) -> None:
        leader, _ = self.names()
        self._kill(leader)

    def kill_follower(self) -> None:
        _, others = self.names()
        self._kill(self.chance.choice(others))

    def kill_two(self) -> None:
        leader, others = self.names()
        self._kill(leader, self.chance.choice(others))

    def kill_all(self) -> None:
        self._kill(*self.rig.nodes)

    def _kill(self, *names: str) -> None:
        self.say(f"kill -9 of {', '.join(names)}")
        for name in names:
            self.rig.kill(name)
        self.wait()
        if 2 * len(names) < len(self.rig.nodes):
            # Whoever is left is a majority, and does not wait for the others.
            self.rig.await_serving()
        for name in names:
            self.rig.start(name)

    def pause_leader(self) -> None:
        self._pause(self.names()[0])

    def pause_follower(self) -> None:
        self._pause(self.chance.choice(self.names()[1]))

    def _pause(self, name: str) -> None:
        self.say(f"SIGSTOP of {name}")
        self.rig.pause(name)
        time.sleep(self.chance.uniform(4, 20))
        self.rig.resume(name)

    def cut_leader(self) -> None:
        """From its peers; etcd still hears it."""
        leader, others = self.names()
        self.say(f"{leader} is cut off from {', '.join(others)}")
        for other in others:
            self.spaces.cut(leader, other)
        self._heal()

    def cut_leader_whole(self) -> None:
        leader, others = self.names()
        self.say(f"{leader} is cut off from all, etcd too")
        for other in others:
            self.spaces.cut(leader, other)
        self.spaces.cut_etcd(leader)
        self._heal()

    def cut_etcd(self) -> None:
        """From the leader alone."""
        leader, _ = self.names()
        self.say(f"etcd is cut off from {leader}")
        self.spaces.cut_etcd(leader)
        self._heal()

    def cut_follower(self) -> None:
        leader, others = self.names()
        other = self.chance.choice(others)
        self.say(f"{other} is cut off from {leader}")
        self.spaces.cut(leader, other)
        self._heal()

    def one_way(self) -> None:
        leader, others = self.names()
        self.say(f"what {leader} sends does not reach {', '.join(others)}")
        for other in others:
            self.spaces.cut_one_way(leader, other)
        self._heal()

    def flap(self) -> None:
        leader, others = self.names()
        self.say(f"the links of {leader} flap")
        for _ in range(6):
            for other in others:
                self.spaces.cut(leader, other)
            time.sleep(self.chance.uniform(0.1, 1.5))
            self.spaces.heal()
            time.sleep(self.chance.uniform(0.1, 1.5))

    def _heal(self) -> None:
        self.wait()
        self.spaces.heal()

    def etcd_down(self) -> None:
        self.say("etcd is stopped")
        self.rig.stop_etcd()
        self.wait()
        self.rig.start_etcd()

    def etcd_down_and_kill(self) -> None:
        self.say("etcd is stopped, then the leader killed")
        leader, _ = self.names()
        self.rig.stop_etcd()
        self.rig.kill(leader)
        self.wait()
        self.rig.start_etcd()
        self.rig.await_serving(leader)
        self.rig.start(leader)

    def move(self) -> None:
        leader, others = self.names()
        other = self.chance.choice(others)
        self.say(f"leadership goes from {leader} to {other}")
        self.rig.ask(leader, {"op": "cluster_move", "name": other})
        self.rig.await_serving(leader)

    def kill_one_etcd(self) -> None:
        """Of three: the others go on."""
        one = self.chance.choice(self.rig.etcds)
        self.say(f"kill -9 of {one.name}, then of the leader")
        self.rig.kill_one_etcd(one)
        time.sleep(self.chance.uniform(0, 2))
        leader, _ = self.names()
        self.rig.kill(leader)
        self.rig.await_serving(leader)
        self.rig.start_one_etcd(one)
        self.rig.start(leader)

    def cut_etcd_leader(self) -> None:
        """From the other members of etcd; nodes hear all of them."""
        one = next(one for one in self.rig.etcds if one.leads())
        self.say(f"{one.name}, which leads etcd, is cut off from the others")
        for other in self.rig.etcds:
            if other is not one:
                self.spaces.cut(one.name, other.name)
        time.sleep(self.chance.uniform(0, 2))
        leader, _ = self.names()
        self.say(f"and {leader} is killed")
        self.rig.kill(leader)
        self.rig.await_serving(leader)
        self.spaces.heal()
        self.rig.start(leader)

    def power_leader(self) -> None:
        self._power(self.names()[0])

    def power_follower(self) -> None:
        self._power(self.chance.choice(self.names()[1]))

    def power_all(self) -> None:
        self._power(*self.rig.nodes)

    def _power(self, *names: str) -> None:
        """What was not synced is gone."""
        self.say(f"the power of {', '.join(names)} is cut")
        for name in names:
            self.machines.cut_power(name)
        self.wait()
        for name in names:
            self.machines.boot(name)

    def full_leader(self) -> None:
        self._fill(self.names()[0])

    def full_follower(self) -> None:
        self._fill(self.chance.choice(self.names()[1]))

    def _fill(self, name: str) -> None:
        self.say(f"the disk of {name} is full")
        self.machines.fill(name)
        before = self.confirms()
        self.wait()
        leader = self.rig.serving() or "none"
        self.say(f"{self.confirms() - before:,} confirms meanwhile, node {leader} leads")
        self.say(f"{name} has said: {self.machines.last_words(name)}")
        self.machines.empty(name)
        # Whoever could not write has ended, with a sentence, and is started by its supervisor.
        end = time.monotonic() + 3
        while time.monotonic() < end:
            for ended in self.machines.revive():
                self.say(f"{ended} had ended: {self.machines.last_words(ended)}")
            time.sleep(0.2)

    def stall_leader(self) -> None:
        """For a moment, or until another node leads."""
        leader, _ = self.names()
        if self.chance.random() < 0.5:
            self._stall(leader, 2, 8)
            return
        self.say(f"the disk of {leader} stands still until it gives up")
        began = time.monotonic()
        with self.machines.stalled(leader):
            other = self.rig.await_serving(leader, STALL_S)
            self.say(f"{other} leads after {time.monotonic() - began:.1f} s")

    def stall_follower(self) -> None:
        self._stall(self.chance.choice(self.names()[1]), 2, 20)

    def _stall(self, name: str, least_s: float, most_s: float) -> None:
        self.say(f"the disk of {name} stands still")
        with self.machines.stalled(name):
            time.sleep(self.chance.uniform(least_s, most_s))

    def clock_leader(self) -> None:
        self._clock(self.names()[0])

    def clock_follower(self) -> None:
        self._clock(self.chance.choice(self.names()[1]))

    def _clock(self, name: str) -> None:
        """And its links are made anew meanwhile."""
        hours = self.chance.choice((-1, 1))
        self.say(f"the clock of {name} jumps by {hours:+} h")
        self.machines.set_clock(name, hours)
        self.wait()
        other = next(one for one in self.rig.nodes if one != name)
        self.spaces.cut(name, other)
        time.sleep(1)
        self.spaces.heal()
        self.wait()
        self.machines.set_clock(name, 0)


KINDS: Final = (
    "kill_leader", "kill_follower", "kill_two", "kill_all", "pause_leader", "pause_follower",
    "cut_leader", "cut_leader_whole", "cut_etcd", "cut_follower", "one_way", "flap", "etcd_down",
    "etcd_down_and_kill", "move", "kill_one_etcd", "power_leader", "power_follower", "power_all",
    "full_leader", "full_follower", "stall_leader", "stall_follower", "clock_leader",
    "clock_follower", "cut_etcd_leader",
)  # fmt: skip


def storm(nemesis: Nemesis, seed: int, seconds: float, kinds: list[str]) -> None:
    """Raises: AssertionError, OperatorError."""
    rig, chance = nemesis.rig, nemesis.chance
    counts: Counter[str] = Counter()
    command(rig, rig.await_serving(), "policies", "set", "ha", "^mirrored", '{"ha-mode": "all"}')
    loads = [
        Load(rig, "mirrored-queue", is_stream=False, window=20),
        Load(rig, "storm-queue", is_stream=False, window=20),
        Load(rig, "quorum-queue", is_stream=False, window=20, kind="quorum"),
        Load(rig, "storm-stream", is_stream=True, window=20),
    ]
    nemesis.loads = loads
    # Nobody takes these before the end, so the files in which others are settled stay, too.
    resting = Load(rig, "resting-queue", is_stream=False, window=20, size=400)
    resting.publisher.start()
    for load in loads:
        load.publisher.start()
        load.consumer.start()
    for load in loads:
        load.await_confirms(20)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        kind = chance.choice(kinds)
        getattr(nemesis, kind)()
        counts[kind] += 1
        rig.await_whole()
        nemesis.say(f"all is well again, node {rig.serving()} leads")
        for load in loads:
            load.await_confirms(5)
        time.sleep(chance.uniform(*REST_S))
    for load in loads:
        load.finish()
        longest = load.publisher.longest_gap_s(0.0)
        nemesis.say(f"{load.queue}: the longest pause of confirms was {longest:.1f} s")
    resting.publisher.stop()
    await_same(rig)
    resting.consumer.start()
    resting.finish()
    print(f"seed {seed}: {dict(counts)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--etcds", type=int, default=3)
    parser.add_argument("--alone", type=int, default=0, help=f"1..{len(KINDS)}")
    asked = parser.parse_args()
    if asked.alone:
        asked.kinds = KINDS[asked.alone - 1]
    if not may_make_networks():
        print("needs root and `ip netns` (iproute2)")
        return 2
    folder = Path(tempfile.mkdtemp(prefix="penstock-storm-"))
    rig = ClusterRig(folder, "abcdefg"[: asked.nodes], etcd_count=asked.etcds)
    spaces = Namespaces(rig, os.getpid() % 256)
    machines = Machines(rig)
    try:
        machines.open()
        rig.start_etcd()
        for name in rig.nodes:
            rig.start(name)
        rig.await_serving()
        rig.await_whole()
        nemesis = Nemesis(rig, spaces, machines, random.Random(asked.seed))
        storm(nemesis, asked.seed, asked.seconds, asked.kinds.split(","))
    except BaseException:
        print(f"logs and histories: {folder}")
        raise
    finally:
        spaces.heal()
        rig.close()
        spaces.close()
        machines.close()
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
