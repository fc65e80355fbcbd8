"""A whole simulated cluster: one seed, some seconds of trouble, then it has to be well again."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.replication.config import ALL, MAJORITY
from penstock.replication.member import Member
from penstock.replication.state import Origin
from penstock.replication.timing import Bounds, Timing
from penstock.simulation.cluster.laws import ClusterLaws
from penstock.simulation.cluster.nemesis import TROUBLES, Nemesis
from penstock.simulation.cluster.network import SimNetwork
from penstock.simulation.cluster.node import SimNode
from penstock.simulation.cluster.store import SimStore
from penstock.simulation.machine.clock import Timers, VirtualClock
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.faults import LawBroken

HEAL_MS = 20_000
"""The longest it may take until a healed cluster is well."""


class ClusterFailed(AssertionError):
    """One run has failed."""

    def __init__(self, seed: int, at_ms: int, steps: int, fault: str) -> None:
        self.seed = seed
        self.steps = steps
        self.fault = fault
        super().__init__(
            f"cluster seed {seed}, {at_ms} ms, step {steps}: {fault}\n"
            f"replay: python -m penstock.simulation cluster --first-seed {seed} --seeds 1"
        )


@dataclass(slots=True)
class ClusterSetting:
    """What a run is made of. nodes: 0: 3 or 5 as the seed says; member: the class, for bugs that
    are planted; kinds: of trouble, () for what the seed draws; trouble_s: for how long;
    is_mirrored: in the mode majority, brokers have mirrored queues; None: every third seed."""

    nodes: int = 0
    mode: str = ""
    member: type[Member] = Member
    node: type[SimNode] = SimNode
    kinds: tuple[str, ...] = ()
    trouble_s: float = 5.0
    is_mirrored: bool | None = None


@dataclass(slots=True)
class ClusterReport:
    """What one run was. trace: a checksum over every step; healed_ms: from the end of all trouble
    until everybody had the same."""

    seed: int
    steps: int = 0
    frames: int = 0
    entries: int = 0
    confirms: int = 0
    mirrored: int = 0
    epochs: int = 0
    leaders: int = 0
    resyncs: int = 0
    virtual_ms: int = 0
    healed_ms: int = 0
    trace: int = 0
    troubles: dict[str, int] = field(default_factory=dict)


class ClusterWorld:
    """The simulated world. Times are in milliseconds of the world unless a name says otherwise."""

    timing = Timing(
        heartbeat_ms=120,
        silence_ms=900,
        quorum_ms=700,
        election_ms=500,
        disk_stall_ms=1500,
        link_grace_ms=80,
        in_sync_ms=600,
        promise_wait_ms=120,
        hand_over_ms=300,
        retry_ms=250,
    )

    def __init__(self, seed: int, setting: ClusterSetting) -> None:
        self.seed = seed
        self.setting = setting
        self.dice = Dice(seed)
        self.timers = Timers(VirtualClock(0))
        self.laws = ClusterLaws(self)
        self.store = SimStore(self.dice, self.after)
        self.network = SimNetwork(self.dice, self.after)
        self.nodes: dict[str, SimNode] = {}
        self.network.nodes = self.nodes
        self.report = ClusterReport(seed)
        self.values = 0
        self.is_loaded = True
        self.is_troubled = True
        self.wiped: list[str] = []
        self._mends: list[Callable[[], None]] = []
        count = setting.nodes or self.dice.one_of((3, 3, 5))
        self.nodes_max = count + 2
        self.mode = setting.mode or self.dice.one_of((MAJORITY, MAJORITY, MAJORITY, ALL))
        mirrored = setting.is_mirrored
        is_drawn = seed % 3 == 0 if mirrored is None else mirrored
        self.is_mirrored = is_drawn and self.mode == MAJORITY
        self.pace_ms = self.dice.one_of((40, 120, 400))
        self.copy_ms = self.dice.one_of((5, 30, 80))
        self.trouble_ms = self.dice.one_of((150, 400, 1000, 2000))
        self.bounds = Bounds(
            retention_bytes=self.dice.one_of((300, 2000, 1 << 20)),
            resync_backlog_bytes=self.dice.one_of((3000, 1 << 20)),
            follower_bytes=self.dice.one_of((200, 1 << 20)),
        )
        kinds = setting.kinds or tuple(
            kind for kind in TROUBLES if self.dice.happens(self.dice.one_of((35, 70)))
        )
        self.nemesis = Nemesis(self, kinds or tuple(TROUBLES))
        for number in range(count):
            self.add_node(delay_ms=number * self.dice.below(200))

    @property
    def now_ns(self) -> int:
        return self.timers.clock.now_ns

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Do it later."""
        self.timers.after(int(delay_ms * 1e6), action)

    def mend_later(self, delay_ms: float, action: Callable[[], None]) -> None:
        """End a trouble later, at the end of all trouble at the latest."""
        is_done: list[bool] = []

        def mend() -> None:
            if not is_done:
                is_done.append(True)
                action()

        self._mends.append(mend)
        self.after(delay_ms, mend)

    def stepped(self, node: SimNode, label: str) -> None:
        """A step begins."""
        report = self.report
        report.steps += 1
        told = f"{self.now_ns}{node.name}{label}{node.directory.digest}".encode()
        report.trace = zlib.crc32(told, report.trace)

    # -- nodes -------------------------------------------------------------------------------------

    def add_node(self, delay_ms: int = 0) -> None:
        name = "abcdefghij"[len(self.nodes)]
        skew = 10_000_000 + self.dice.between(-3_600_000, 3_600_000)
        node = self.setting.node(self, name, skew, self.dice.between(-200, 200) / 1e6)
        self.nodes[name] = node
        self.after(delay_ms, lambda: self.restart(node))

    def restart(self, node: SimNode) -> None:
        if not node.is_up:
            node.start()

    def make_member(self, node: SimNode) -> Member:
        origin = Origin(
            has_data=False, may_create=node.name == "a", cluster_id="c1", mode=self.mode
        )
        return self.setting.member(
            node.name,
            node.state,
            node.slot,
            origin,
            self.timing,
            self.bounds,
            Dice(self.dice.bits()),
            node.now_ms(),
        )

    def living(self) -> list[SimNode]:
        return [node for node in self.nodes.values() if node.is_up]

    def leader(self) -> SimNode | None:
        """The leader of the highest epoch that runs."""
        leading = [n for n in self.living() if n.member.leading is not None and not n.is_paused]
        return max(leading, key=lambda node: node.member.epoch, default=None)

    def forget(self, name: str) -> bool:
        leader = self.leader()
        if leader is None:
            return False
        answers: list[str] = []
        leader.deliver(
            "forget", lambda: answers.append(leader.member.forget(name, leader.now_ms()))
        )
        return answers == [""]

    def _tend(self) -> None:
        """The operator: nodes that may not come back as they are come back empty."""
        config = self.store.config
        for name, node in self.nodes.items():
            if config is None or not node.is_up or not node.refused:
                continue
            identity = config.voters.get(name)
            if identity is None:
                node.crash(with_power=False)
                if node.state.identity in config.forgotten:
                    node.wipe()
                self.restart(node)
                self.wiped = [one for one in self.wiped if one != name]
            elif identity != node.state.identity:
                self.forget(name)
        self.after(300, self._tend)

    # -- running -----------------------------------------------------------------------------------

    def run(self) -> ClusterReport:
        """Raises: ClusterFailed when a law does not hold."""
        try:
            self.network.run()
            self.nemesis.begin()
            self._tend()
            self.run_for(self.setting.trouble_s * 1000)
            self._heal()
            self.laws.look_at_all()
        except (LawBroken, AssertionError) as fault:
            at_ms = (self.now_ns - 1_000_000_000) // 1_000_000
            raise ClusterFailed(self.seed, at_ms, self.report.steps, str(fault)) from fault
        return self._reported()

    def run_for(self, ms: float) -> None:
        """Let so much time pass."""
        end_ns = self.now_ns + int(ms * 1e6)
        while self.timers.next_ns() <= end_ns:
            self.timers.run_next()
        self.timers.clock.jump(end_ns)

    def _heal(self) -> None:
        """Everything works again: there has to be a leader, confirms, and one state for all."""
        self.is_troubled = False
        for mend in self._mends:
            mend()
        began_ns = self.now_ns
        confirmed = len(self.laws.truth)
        while len(self.laws.truth) < confirmed + 3:
            self._wait_for(began_ns, "nothing is confirmed")
        self.is_loaded = False
        while not self._is_well():
            self._wait_for(began_ns, "not everybody has the same")
        self.report.healed_ms = (self.now_ns - began_ns) // 1_000_000

    def _wait_for(self, began_ns: int, words: str) -> None:
        if self.now_ns - began_ns > HEAL_MS * 1_000_000:
            views = "\n".join(
                f"  {node.name} up={node.is_up} {node.refused} slot={node.slot} {node.state}\n"
                f"    {node.member.view(node.now_ms())} {node.member.following.phase}"
                for node in self.nodes.values()
            )
            raise LawBroken(
                f"{words} {HEAL_MS} ms after everything was well\n{self.store.config}\n{views}"
            )
        self.run_for(50)

    def _is_well(self) -> bool:
        leader = self.leader()
        config = self.store.config
        if leader is None or config is None or leader.child is None:
            return False
        ends = {node.slot for node in self.nodes.values()} | {leader.member.replica.tail}
        return (
            len(ends) == 1
            and config.voters.keys() == self.nodes.keys()
            and all(node.is_up and node.state.is_whole for node in self.nodes.values())
            and leader.member.commit_seq == leader.slot.seq
            and (not self.is_mirrored or set(config.in_sync) == self.nodes.keys())
            and len({node.directory.digest for node in self.nodes.values()}) == 1
        )

    def _reported(self) -> ClusterReport:
        report = self.report
        report.frames = self.network.frames
        report.entries = len(self.laws.truth)
        report.confirms = self.laws.confirms
        report.mirrored = len(self.laws.mirrored)
        report.epochs = max(self.laws.reigns)
        report.leaders = len(self.laws.reigns)
        report.troubles = self.nemesis.counts
        report.virtual_ms = (self.now_ns - 1_000_000_000) // 1_000_000
        return report


def simulate_cluster(seed: int, setting: ClusterSetting | None = None) -> ClusterReport:
    """One run. Raises: ClusterFailed when a law does not hold."""
    return ClusterWorld(seed, setting or ClusterSetting()).run()
