"""The laws of a replicated log, asked after every step of a simulated cluster."""

from typing import TYPE_CHECKING

from penstock.replication import actions as do
from penstock.replication.config import ALL, majority
from penstock.replication.frames import Ack
from penstock.replication.positions import Position
from penstock.replication.seen import REFERENCE_BYTES, Run
from penstock.replication.state import MemberState
from penstock.simulation.cluster.directory import SimDirectory, unpack
from penstock.simulation.machine.faults import LawBroken

if TYPE_CHECKING:
    from penstock.simulation.cluster.node import SimNode
    from penstock.simulation.cluster.world import ClusterWorld

EVERY = 64
"""Steps between two looks at all logs."""


EVERYTHING = 1 << 20


def reference_of(epoch: int) -> bytes:
    """Of the broker of an epoch, as the publisher of all its entries."""
    return epoch.to_bytes(REFERENCE_BYTES, "big")


class Reign:
    """What the leader of an epoch began with, and what became of it."""

    def __init__(self, name: str, log: list[int], directory: SimDirectory) -> None:
        self.name = name
        self.log = log
        self.shadow = SimDirectory()
        self.shadow.write(sorted(directory.cells.items()))
        self.shadow.sync(self.shadow.written)


class ClusterLaws:
    """truth: the epochs of everything that was confirmed, by number; mirrored: of that what a
    mirrored queue may have confirmed. history: what a directory looks like at a position;
    remembered: times that a leader that began to serve knew of an epoch's publishes."""

    def __init__(self, world: "ClusterWorld") -> None:
        self.world = world
        self.reigns: dict[int, Reign] = {}
        self.truth: list[int] = []
        self.mirrored: list[int] = []
        self.history: dict[Position, int] = {}
        self.confirms = 0
        self.remembered = 0
        self._steps = 0
        self._in_sync: tuple[str, ...] = ()

    def log_at(self, position: Position) -> list[int]:
        """The log that ends at `position`."""
        log = self.reigns[position.epoch].log
        return log[: position.seq] + [position.epoch] * (position.seq - len(log))

    def _hold(self, is_kept: bool, law: str) -> None:
        if not is_kept:
            raise LawBroken(law)

    # -- before actions ----------------------------------------------------------------------------

    def before_action(self, node: "SimNode", action: do.Action) -> None:
        if isinstance(action, do.Send):
            if isinstance(action.frame, Ack):
                self._acknowledges(node, action.frame)
        elif isinstance(action, do.PutPromise):
            self._promises(node, action)
        elif isinstance(action, do.StartLeading):
            self._begins(node, action)
        elif isinstance(action, do.Committed):
            self._confirms(node, action)
        elif isinstance(action, do.Serve):
            self._remembers(node, action.epoch)

    def _acknowledges(self, node: "SimNode", ack: Ack) -> None:
        self._hold(
            node.slot >= ack.position,
            f"{node.name} acknowledges {ack.position} and has only {node.slot} on its disk",
        )
        self._hold(
            not ack.is_whole or node.state.is_whole,
            f"{node.name} says it is whole, and its disk says it is not",
        )
        self._hold(
            node.state.promised >= ack.epoch,
            f"{node.name} acknowledges in epoch {ack.epoch}, which its disk does not know",
        )

    def _promises(self, node: "SimNode", action: do.PutPromise) -> None:
        promise = action.promise
        self._hold(
            node.state.promised >= promise.epoch,
            f"{node.name} promises epoch {promise.epoch}, which its disk does not know",
        )
        self._hold(
            promise.position == node.slot,
            f"{node.name} promises with {promise.position}, on its disk is {node.slot}",
        )
        self._hold(
            not promise.is_whole or node.state.is_whole,
            f"{node.name} promises as whole, and its disk says it is not",
        )

    def _begins(self, node: "SimNode", action: do.StartLeading) -> None:
        before = self.reigns.get(action.epoch)
        self._hold(
            before is None,
            f"two leaders of epoch {action.epoch}: {before and before.name} and {node.name}",
        )
        self._hold(node.state.is_whole, f"{node.name} is not whole, and leads")
        self._hold(
            node.log[: len(self.truth)] == self.truth,
            f"{node.name} leads epoch {action.epoch} from {node.slot} without confirmed entries: "
            f"there are {len(self.truth)}",
        )
        if node.member.replica.is_exact:
            self._is_at(node, "leads")
        reign = Reign(node.name, list(node.log), node.directory)
        self.reigns[action.epoch] = reign
        self.history[Position(action.epoch, len(node.log) + 1)] = reign.shadow.digest

    def _confirms(self, node: "SimNode", action: do.Committed) -> None:
        reign = self.reigns.get(action.epoch)
        self._hold(
            reign is not None and reign.name == node.name,
            f"{node.name} confirms in epoch {action.epoch}, which it does not lead",
        )
        self._hold(
            not node.is_catching_up or self._is_alone(node),
            f"{node.name} was stopped for longer than its quorum lasts, and confirms {action.seq}",
        )
        log = self.log_at(Position(action.epoch, action.seq))
        known = min(len(self.truth), len(log))
        self._hold(
            log[:known] == self.truth[:known],
            f"{node.name} confirms {action.seq} in epoch {action.epoch}, and others confirmed "
            "other entries there",
        )
        if action.seq > len(self.truth):
            self._is_agreed(node, action, log)
            self.truth = log
        self.confirms += 1

    def _is_alone(self, node: "SimNode") -> bool:
        """Whether nobody else votes, so nobody else can lead however long this one was stopped."""
        config = self.world.store.config
        return config is not None and list(config.voters) == [node.name]

    def _remembers(self, node: "SimNode", epoch_now: int) -> None:
        """What a leader that begins to serve says of publishes before is true: who trusts it sends
        none again. Each entry of the broker of an epoch is one publish, with the entry's number."""
        for epoch in self.reigns:
            if epoch == epoch_now:
                continue
            asked = [Run(reference_of(epoch), 1, len(node.log) + EVERY)]
            for run in node.member.replica.seen.among(asked, EVERYTHING):
                self._hold(
                    node.log[run.first - 1 : run.last] == [epoch] * (run.last - run.first + 1),
                    f"{node.name} says that publishes {run.first}..{run.last} of epoch {epoch} "
                    f"are in its log",
                )
                self.remembered += 1

    def _is_agreed(self, node: "SimNode", action: do.Committed, log: list[int]) -> None:
        config = self.world.store.config
        assert config is not None, "because somebody leads"
        holders = [
            name
            for name, identity in sorted(config.voters.items())
            if self._holds(name, identity, log)
        ]
        needed = sorted(config.in_sync) if config.mode == ALL else sorted(config.voters)
        count = len(needed) if config.mode == ALL else majority(len(needed))
        found = [name for name in needed if name in holders]
        self._hold(
            len(found) >= count,
            f"{node.name} confirms {action.seq} in epoch {action.epoch}, which only {found} of "
            f"{needed} have",
        )

    def _holds(self, name: str, identity: str, log: list[int]) -> bool:
        node = self.world.nodes[name]
        if node.state.identity != identity:
            return node.emptied.get(identity, [])[: len(log)] == log
        return node.state.is_whole and node.log[: len(log)] == log

    # -- what was done -----------------------------------------------------------------------------

    def appended(self, node: "SimNode", epoch: int, seq: int, given: int, payload: bytes) -> None:
        """The broker of a leader sent an entry; given: what number the member gave it."""
        self._hold(given in (0, seq), f"entry {seq} of {node.name} got the number {given}")
        if given:
            shadow = self.reigns[epoch].shadow
            shadow.write(unpack(payload))
            shadow.sync(shadow.written)
            self.history[Position(epoch, seq)] = shadow.digest

    def state_stored(self, node: "SimNode", state: MemberState) -> None:
        self._hold(
            state.promised >= node.state.promised,
            f"{node.name} forgets its promise of epoch {node.state.promised}",
        )

    def after_step(self, node: "SimNode") -> None:
        """A step of `node` is done."""
        replica = node.member.replica
        if (
            node.state.is_whole
            and replica.state.is_whole
            and replica.is_exact
            and replica.is_drained
            and node.child is None
            and node.disk.is_idle
        ):
            self._is_at(node, "follows")
        self._mirrors(node)
        self._steps += 1
        if self._steps % EVERY == 0:
            self.look_at_all()

    def _is_at(self, node: "SimNode", doing: str) -> None:
        expected = self.history.get(node.slot)
        self._hold(
            expected is None or expected == node.directory.digest,
            f"{node.name} {doing} at {node.slot}, and its directory is another one than was there",
        )

    def _mirrors(self, node: "SimNode") -> None:
        """What a leader's broker confirms of mirrored queues: all who are in sync, as etcd has it,
        hold it."""
        config = self.world.store.config
        if self.mirrored and config is not None and config.in_sync != self._in_sync:
            self._in_sync = config.in_sync
            self._mirrors_hold("a leader")
        leading = node.member.leading
        if leading is None or not leading.is_mirrored:
            return
        waited = [one.seq for one in leading.nodes() if one.is_in_sync]
        seq = min([leading.commit_seq, *waited]) if waited else 0
        if seq > len(self.mirrored):
            self.mirrored = self.log_at(Position(leading.epoch, seq))
            self._mirrors_hold(node.name)

    def _mirrors_hold(self, told: str) -> None:
        config = self.world.store.config
        assert config is not None, "because somebody leads"
        lacking = [
            name
            for name in config.in_sync
            if name in config.voters and not self._holds(name, config.voters[name], self.mirrored)
        ]
        self._hold(
            not lacking,
            f"{told} has confirmed {len(self.mirrored)} entries of mirrored queues, and {lacking} "
            f"of {list(config.in_sync)}, which are in sync, have not all of them",
        )

    def look_at_all(self) -> None:
        """What was confirmed is where it can be elected."""
        if self.mirrored:
            self._mirrors_hold("a leader")
        config = self.world.store.config
        if config is None or not self.truth:
            return
        end = Position(self.truth[-1], len(self.truth))
        lacking = []
        for name, identity in sorted(config.voters.items()):
            node = self.world.nodes[name]
            if node.state.identity != identity or not node.state.is_whole:
                continue
            if node.log[: len(self.truth)] != self.truth:
                lacking.append(name)
                self._hold(
                    node.slot < end,
                    f"{name} is at {node.slot}, behind {end}, and has not what was confirmed",
                )
        self._hold(
            len(lacking) < majority(len(config.voters)),
            f"{lacking} of {sorted(config.voters)} could elect a leader without confirmed entries",
        )
