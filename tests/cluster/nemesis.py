"""Kinds of trouble for a cluster of nodes with networks, disks and clocks of their own."""

import random
import time
from typing import Final

from penstock.demo.cluster_rig import START_S, ClusterRig
from tests.cluster.load import Load
from tests.cluster.machines import Machines
from tests.cluster.namespaces import Namespaces

TROUBLE_S: Final = (2.0, 12.0)
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
        leader = self.await_led()
        return leader, [name for name in self.rig.nodes if name != leader]

    def begin(self) -> None:
        """The nodes are started."""
        self.await_led()
        self.await_whole()

    def await_led(self, other_than: str = "", wait_s: float = START_S) -> str:
        """Until a node, not that one, leads and serves; its name."""
        return self.rig.await_serving(other_than, wait_s)

    def await_whole(self) -> None:
        """Until every node could lead."""
        self.rig.await_whole()

    def leads(self) -> str:
        """Who leads now, in words."""
        return f"node {self.rig.serving() or 'none'} leads"

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
            self.await_led()
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
        self.await_led(leader)
        self.rig.start(leader)

    def move(self) -> None:
        leader, others = self.names()
        other = self.chance.choice(others)
        self.say(f"leadership goes from {leader} to {other}")
        self.rig.ask(leader, {"op": "cluster_move", "name": other})
        self.await_led(leader)

    def kill_one_etcd(self) -> None:
        """Of three: the others go on."""
        one = self.chance.choice(self.rig.etcds)
        self.say(f"kill -9 of {one.name}, then of the leader")
        self.rig.kill_one_etcd(one)
        time.sleep(self.chance.uniform(0, 2))
        leader, _ = self.names()
        self.rig.kill(leader)
        self.await_led(leader)
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
        self.await_led(leader)
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
        self.say(f"{self.confirms() - before:,} confirms meanwhile, {self.leads()}")
        self.say(f"{name} has said: {self.machines.last_words(name)}")
        self.machines.empty(name)
        self.revive(3)

    def revive(self, seconds: float) -> None:
        """Whoever could not go on has ended, with a sentence, and is started by its supervisor."""
        end = time.monotonic() + seconds
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
            other = self.await_led(leader, STALL_S)
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
