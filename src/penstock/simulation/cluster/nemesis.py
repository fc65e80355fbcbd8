"""What goes wrong in a simulated cluster, and what its operator does meanwhile."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.replication.config import majority

if TYPE_CHECKING:
    from penstock.simulation.cluster.node import SimNode
    from penstock.simulation.cluster.world import ClusterWorld


class Nemesis:
    """Draws one trouble after the other. kinds: which may come; counts: how often each did."""

    def __init__(self, world: "ClusterWorld", kinds: tuple[str, ...]) -> None:
        self.world = world
        self.dice = world.dice
        self.kinds = kinds
        self.counts: dict[str, int] = {}

    def begin(self) -> None:
        self.world.after(self.dice.between(100, self.world.trouble_ms), self._strike)

    def _strike(self) -> None:
        if not self.world.is_troubled:
            return
        kind = self.dice.one_of(self.kinds)
        if TROUBLES[kind](self):
            self.counts[kind] = self.counts.get(kind, 0) + 1
        self.world.after(self.dice.between(20, self.world.trouble_ms), self._strike)

    # -- choosing ----------------------------------------------------------------------------------

    def _node(self) -> "SimNode":
        """Any node, the leader more often than others."""
        nodes = self.world.living()
        leading = [node for node in nodes if node.member.leading is not None]
        if leading and self.dice.happens(40):
            return self.dice.one_of(leading)
        return self.dice.one_of(list(self.world.nodes.values()))

    def _while(self, longest_ms: int, begin: Callable[[], None], end: Callable[[], None]) -> bool:
        begin()
        self.world.mend_later(self.dice.skewed(longest_ms), end)
        return True

    # -- processes ---------------------------------------------------------------------------------

    def kill(self) -> bool:
        return self._crash(self._node(), with_power=False)

    def lose_power(self) -> bool:
        return self._crash(self._node(), with_power=True)

    def lose_all_power(self) -> bool:
        for node in self.world.living():
            self._crash(node, with_power=True)
        return True

    def _crash(self, node: "SimNode", *, with_power: bool) -> bool:
        if not node.is_up:
            return False
        node.crash(with_power=with_power)
        self.world.mend_later(self.dice.skewed(2500), lambda: self.world.restart(node))
        return True

    def close(self) -> bool:
        """Stopped in order, and started again."""
        node = self._node()
        if not node.is_up or node.is_paused:
            return False
        node.deliver("close", lambda: node.member.close(node.now_ms()))
        self._await_end(node, node.life, 40)
        return True

    def _await_end(self, node: "SimNode", life: int, tries: int) -> None:
        if node.life != life or not node.is_up:
            return
        if (node.is_closed and node.disk.is_idle) or tries == 0:
            node.crash(with_power=False)
            self.world.mend_later(self.dice.skewed(800), lambda: self.world.restart(node))
        else:
            self.world.after(50, lambda: self._await_end(node, life, tries - 1))

    def pause(self) -> bool:
        node = self._node()
        if not node.is_up or node.is_paused:
            return False
        return self._while(3000, node.pause, node.go_on)

    def jump_clock(self) -> bool:
        self._node().jump(self.dice.one_of((500, 5000, 3_600_000)))
        return True

    # -- disks -------------------------------------------------------------------------------------

    def stall_disk(self) -> bool:
        node = self._node()

        def begin() -> None:
            node.disk.is_stalled = True

        def end() -> None:
            node.disk.is_stalled = False

        return self._while(4000, begin, end)

    def slow_disk(self) -> bool:
        node = self._node()
        factor = self.dice.one_of((5, 20, 80))

        def begin() -> None:
            node.disk.slow = factor

        def end() -> None:
            node.disk.slow = 1

        return self._while(3000, begin, end)

    def fill_disk(self) -> bool:
        """No room for a while; who ended because of it is started when there is some."""
        node = self._node()

        def begin() -> None:
            node.disk.is_full = True

        def end() -> None:
            node.disk.is_full = False
            self.world.restart(node)

        return self._while(3000, begin, end)

    def empty_directory(self) -> bool:
        """One at a time, and never one that is needed."""
        node = self._node()
        world = self.world
        config = world.store.config
        if config is None or world.wiped or node.name not in config.voters or not node.is_up:
            return False
        others = [
            one
            for name, one in world.nodes.items()
            if name in config.voters
            and one is not node
            and one.state.is_whole
            and one.is_up
            and one.state.identity == config.voters[name]
        ]
        if len(others) < majority(len(config.voters)) or config.led_by == node.name:
            return False
        node.crash(with_power=True)
        node.wipe()
        world.wiped.append(node.name)
        world.mend_later(self.dice.skewed(1500), lambda: world.restart(node))
        return True

    # -- networks ----------------------------------------------------------------------------------

    def _cut(self, pairs: list[tuple[str, str]], longest_ms: int) -> bool:
        cut = self.world.network.cut
        new = [pair for pair in pairs if pair not in cut]

        def begin() -> None:
            cut.update(new)

        def end() -> None:
            cut.difference_update(new)

        return self._while(longest_ms, begin, end)

    def isolate(self) -> bool:
        """One node from all peers, and perhaps from the coordinator."""
        name = self._node().name
        if self.dice.happens(50):
            self._cut_store([name])
        others = [other for other in self.world.nodes if other != name]
        return self._cut([p for other in others for p in ((name, other), (other, name))], 4000)

    def split(self) -> bool:
        """Two groups of nodes."""
        names = list(self.world.nodes)
        group = [name for name in names if self.dice.happens(50)]
        rest = [name for name in names if name not in group]
        return self._cut([p for a in group for b in rest for p in ((a, b), (b, a))], 4000)

    def one_way(self) -> bool:
        name = self._node().name
        others = [o for o in self.world.nodes if o != name and self.dice.happens(70)]
        if self.dice.happens(50):
            return self._cut([(name, other) for other in others], 3000)
        return self._cut([(other, name) for other in others], 3000)

    def flap(self) -> bool:
        """A link that ends again and again."""
        one, other = self._node().name, self.dice.one_of(list(self.world.nodes))
        if one == other:
            return False
        for count in range(self.dice.between(2, 12)):
            self.world.after(count * 90, lambda: self.world.network.end(one, other, one))
        return True

    def cut_all_peers(self) -> bool:
        """Everybody reaches the coordinator alone."""
        names = list(self.world.nodes)
        return self._cut([(a, b) for a in names for b in names if a != b], 2500)

    def cut_store(self) -> bool:
        return self._cut_store([self._node().name])

    def _cut_store(self, names: list[str]) -> bool:
        cut = self.world.store.cut

        def begin() -> None:
            cut.update(names)

        def end() -> None:
            cut.difference_update(names)

        return self._while(4000, begin, end)

    def stop_store(self) -> bool:
        store = self.world.store

        def begin() -> None:
            store.is_down = True

        def end() -> None:
            store.is_down = False

        return self._while(3000, begin, end)

    def delay(self) -> bool:
        network = self.world.network

        def begin() -> None:
            network.delay_ms = self.dice.one_of((30, 120))

        def end() -> None:
            network.delay_ms = 3

        return self._while(2000, begin, end)

    def repeat(self) -> bool:
        """Frames come twice."""
        network = self.world.network

        def begin() -> None:
            network.duplicate_percent = 20

        def end() -> None:
            network.duplicate_percent = 0

        return self._while(3000, begin, end)

    # -- the operator ------------------------------------------------------------------------------

    def move(self) -> bool:
        leader = self.world.leader()
        if leader is None:
            return False
        prefer = self.dice.one_of(list(self.world.nodes))
        leader.deliver("move", lambda: _nothing(leader.member.resign(prefer, leader.now_ms())))
        return True

    def add_member(self) -> bool:
        if len(self.world.nodes) >= self.world.nodes_max:
            return False
        self.world.add_node()
        return True

    def forget_member(self) -> bool:
        """A voter, if more than three are left; it is emptied and comes back later."""
        config = self.world.store.config
        if config is None or len(config.voters) <= 3:
            return False
        return self.world.forget(self.dice.one_of(sorted(config.voters)))


def _nothing(words: str) -> None:
    """Whatever the answer to the operator is."""


TROUBLES: Final[dict[str, Callable[[Nemesis], bool]]] = {
    "kill": Nemesis.kill,
    "lose_power": Nemesis.lose_power,
    "lose_all_power": Nemesis.lose_all_power,
    "close": Nemesis.close,
    "pause": Nemesis.pause,
    "jump_clock": Nemesis.jump_clock,
    "stall_disk": Nemesis.stall_disk,
    "slow_disk": Nemesis.slow_disk,
    "fill_disk": Nemesis.fill_disk,
    "empty_directory": Nemesis.empty_directory,
    "isolate": Nemesis.isolate,
    "split": Nemesis.split,
    "one_way": Nemesis.one_way,
    "flap": Nemesis.flap,
    "cut_all_peers": Nemesis.cut_all_peers,
    "cut_store": Nemesis.cut_store,
    "stop_store": Nemesis.stop_store,
    "delay": Nemesis.delay,
    "repeat": Nemesis.repeat,
    "move": Nemesis.move,
    "add_member": Nemesis.add_member,
    "forget_member": Nemesis.forget_member,
}
