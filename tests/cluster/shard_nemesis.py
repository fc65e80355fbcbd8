"""Kinds of trouble for nodes with two workers each: a shard of its own for each of VHOSTS."""

import time
from contextlib import suppress
from typing import Final

import psutil

from penstock.demo.cluster_rig import START_S
from tests.cluster.load import await_true, command
from tests.cluster.nemesis import KINDS, Nemesis

VHOSTS: Final = ("/", "one")
ORPHANS_S: Final = 30.0
"""Within which members end whose parent was killed: they stop in order."""
SHARD_KINDS: Final = (*KINDS, "kill_member", "kill_parent", "pause_member")


class ShardNemesis(Nemesis):
    """As of one log, for the node that leads one of the shards. shard: whose leader was chosen
    last."""

    shard = 0

    def begin(self) -> None:
        self.await_led()
        self.rig.await_shards()
        # Whichever node leads both at first gives one away.
        await_true(lambda: len({*self.rig.shard_leaders()} - {""}) > 1, "leaders are spread")
        self.await_whole()
        name = self.await_led()
        for vhost in VHOSTS[1:]:
            command(self.rig, name, "vhosts", "add", vhost)
            rights = ("permissions", "set", "guest", ".*", ".*", ".*")
            command(self.rig, name, *rights, "--vhost", vhost)

    def names(self) -> tuple[str, list[str]]:
        self.shard = self.chance.randrange(len(VHOSTS))
        return super().names()

    def await_led(self, other_than: str = "", wait_s: float = START_S) -> str:
        """All shards; the one that was chosen last by the node that is returned."""
        found: list[str] = []

        def are_led() -> bool:
            found[:] = self.rig.shard_leaders()
            return len(found) == len(VHOSTS) and not {"", other_than or ""} & {*found}

        await_true(are_led, f"other nodes than '{other_than}' lead all shards", wait_s)
        return found[self.shard]

    def await_whole(self) -> None:
        self.rig.await_shards()

        def are_warm() -> bool:
            every = [self.rig.shards(name) for name in self.rig.nodes]
            return all(
                len(shards) == len(VHOSTS) and all(one.is_warm or one.is_serving for one in shards)
                for shards in every
            )

        await_true(are_warm, "every node could lead every shard at once", START_S)

    def leads(self) -> str:
        return f"nodes {', '.join(one or 'none' for one in self.rig.shard_leaders())} lead"

    def move(self) -> None:
        leader, others = self.names()
        other = self.chance.choice(others)
        self.say(f"shard {self.shard} goes from {leader} to {other}")
        asked = {"op": "cluster_move", "name": other, "shard": self.shard}
        self.rig.ask(leader, asked)
        await_true(
            lambda: self.rig.shard_leaders()[self.shard] not in ("", leader),
            "another node leads it",
        )

    def kill_member(self) -> None:
        """One of the two, whose broker notices by itself."""
        leader, _ = self.names()
        member = self.chance.choice(self.rig.members(leader))
        self.say(f"kill -9 of a member of {leader}")
        member.kill()
        self.wait()

    def pause_member(self) -> None:
        leader, _ = self.names()
        member = self.chance.choice(self.rig.members(leader))
        self.say(f"SIGSTOP of a member of {leader} and its broker")
        still = [member, *member.children()]
        for one in still:
            one.suspend()
        time.sleep(self.chance.uniform(4, 20))
        for one in still:
            with suppress(psutil.NoSuchProcess):
                one.resume()

    def kill_parent(self) -> None:
        """Members and brokers end by themselves; sometimes the node is started before they have."""
        leader, _ = self.names()
        self.say(f"kill -9 of the parent of {leader}")
        left = self.rig.kill_parent(leader)
        began = time.monotonic()
        if self.chance.random() < 0.5:
            self.rig.start(leader)
            self.revive(ORPHANS_S / 3)
        _, alive = psutil.wait_procs(left, ORPHANS_S)
        assert not alive, f"still there after {ORPHANS_S:.0f} s: {alive}"
        self.say(f"all of it had ended after {time.monotonic() - began:.1f} s at most")
        if self.rig.nodes[leader].process is None:
            self.rig.start(leader)
