"""What a member answers over its control socket: the cluster as this node sees it, and commands."""

import asyncio
from typing import Final

import msgspec

from penstock import __version__
from penstock.base.errors import OperatorError
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.cluster_answers import ClusterAnswer, NodeRow
from penstock.replication import refusals
from penstock.replication.config import ELECTING, majority
from penstock.server.cluster.coordinator import MEMBERS
from penstock.server.cluster.member import MemberNode, now_ms
from penstock.server.control.control_socket import Reply

OPS: Final = ("cluster_status", "cluster_move", "cluster_forget", "cluster_force_leader")
AT_LEADER: Final = ("cluster_move", "cluster_forget")
"""Any node takes them; the leader decides. So does it answer `cluster_status` with `at_leader`: it
alone knows how far the others are."""


CHANGES: Final = ("cluster_move", "cluster_forget", "cluster_force_leader")
"""What etcd has to agree to."""


class MemberAnswers:
    """One method for each question, which is its name in the request."""

    def __init__(self, node: MemberNode) -> None:
        self.node = node

    def answer(self, request: dict[str, object]) -> Reply:
        op = request.get("op")
        try:
            name = str(request.get("name", ""))
            leads = self.node.member.leader
            is_elsewhere = leads not in ("", self.node.me.name)
            is_for_leader = op in AT_LEADER or request.get("at_leader") is True
            if is_for_leader and is_elsewhere and "asked_by" not in request:
                # Once: two nodes that take each other for the leader are of different epochs.
                return self._ask_leader(request | {"asked_by": self.node.me.name})
            if op == "cluster_status":
                return self.status()
            if op in CHANGES:
                self._need_etcd()
            if op == "cluster_move":
                return self._said(self._resign(name))
            if op == "cluster_forget":
                return self._said(self._forget(name))
            if op == "cluster_force_leader":
                return self._said(self._force(name))
        except OperatorError as error:
            return {"error": str(error)}
        return {
            "error": f"'{op}' is no question for a node of a cluster: the broker's control socket "
            f"is {self.node.questions.path}"
        }

    def _ask_leader(self, request: dict[str, object]) -> Steps[object]:
        """The leader's answer, while this node goes on with its own work."""
        asked = asyncio.ensure_future(self.node.questions.ask_member(request))
        while not asked.done():
            yield 0.01
        return asked.result()

    def _need_etcd(self) -> None:
        """Without it a leader that gives up has no successor, not even itself.
        Raises: OperatorError."""
        is_reachable, words = self.node.reach
        if not is_reachable:
            leads = self.node.member.leader
            goes_on = f"; node '{leads}' goes on leading" if leads else ""
            raise OperatorError(
                f"nothing is changed while etcd does not answer ({words}){goes_on}: bring it back, "
                "then ask again"
            )

    @staticmethod
    def _said(words: str) -> Reply:
        """ "" is yes; anything else says why not."""
        return {"error": words} if words else {"is_done": True}

    def status(self) -> ClusterAnswer:
        node = self.node
        member = node.member
        view = member.view(now_ms())
        config = member.config
        voters = {} if config is None else config.voters
        # One that is not heard may lead or not: this node knows of none.
        is_heard = view.leader == node.me.name or view.leader in view.linked
        leader = view.leader if is_heard else ""
        followers = {one.name: one for one in view.followers}
        rows = []
        for name in sorted({*node.members, *voters}):
            row = node.members.get(name)
            mine = name == node.me.name
            follower = followers.get(name)
            is_leader = name == leader
            rows.append(
                NodeRow(
                    name=name,
                    address="" if row is None else row.address,
                    clients="" if row is None else row.clients,
                    version="" if row is None else row.version,
                    is_online=mine or name in view.linked,
                    is_live=name in node.view.live,
                    is_leader=is_leader,
                    is_voter=name in voters,
                    role=view.role if mine else _role(is_leader=is_leader, is_voter=name in voters),
                    persisted_seq=view.position.seq
                    if mine
                    else -1
                    if follower is None
                    else follower.persisted_seq,
                    lag_entries=-1 if follower is None else follower.lag_entries,
                    lag_bytes=-1 if follower is None else follower.lag_bytes,
                    is_whole=view.is_whole if mine else follower is not None and follower.is_whole,
                    is_copied=follower is not None and follower.is_resyncing,
                    is_in_sync=config is not None and name in config.in_sync,
                    fault=node.links.fault_of(name),
                )
            )
        is_reachable, words = node.reach
        return ClusterAnswer(
            version=__version__,
            cluster=node.settings.cluster,
            cluster_id="" if config is None else config.cluster_id,
            node=node.me.name,
            role=view.role,
            leader=leader,
            phase="" if config is None else config.phase,
            epoch=view.epoch,
            position_epoch=view.position.epoch,
            position_seq=view.position.seq,
            commit_seq=view.commit_seq,
            is_serving=node.ready_told is not None,
            is_warm=node.child is not None and node.child.is_warm,
            voters=sorted(voters),
            majority=majority(len(voters)) if voters else 0,
            is_etcd_reachable=is_reachable,
            etcd=words if not is_reachable else ", ".join(node.settings.endpoints),
            forwarded=len(node.forwarder.clients),
            disk_stalled_ms=node.stalled_ms,
            words=view.words,
            quorum_critical=self._critical(rows),
            is_mirrored=config is not None and len(config.in_sync) > 0,
            nodes=rows,
        )

    def _critical(self, rows: list[NodeRow]) -> list[str]:
        """Voters without which there is no majority that has all, as this node sees it. Only the
        leader knows who is whole; elsewhere who is online has to do."""
        leads = self.node.member.leader == self.node.me.name
        voters = [one for one in rows if one.is_voter]
        good = [one.name for one in voters if one.is_online and (one.is_whole or not leads)]
        return good if voters and len(good) <= majority(len(voters)) else []

    def _resign(self, name: str) -> str:
        """Hand leadership over, to `name` if it is given, and only to one that can lead."""
        node = self.node
        if name and name not in node.members:
            return f"there is no node '{name}'; there are {', '.join(sorted(node.members))}"
        if name == node.me.name:
            return f"node '{name}' leads already"
        leading = node.member.leading
        if leading is not None:
            if words := refusals.of_moving(name, leading, now_ms()):
                return words
            # Among equals the one that is named leads; without a name it might be this one again.
            able = leading.able(now_ms())
            name = name or max(able, key=lambda one: leading.progress[one].persisted_seq)
        return node.command(node.member.resign(name, now_ms()))

    def _forget(self, name: str) -> str:
        node = self.node
        config = node.member.config
        if config is not None and name not in config.voters and name in node.members:
            if name in node.view.live:
                return f"node '{name}' lives: stop it first"
            assert node.thread is not None, "it is there from the start"
            node.thread.remove(MEMBERS + name)
            return ""
        words = node.command(node.member.forget(name, now_ms()))
        if not words:
            assert node.thread is not None, "it is there from the start"
            node.thread.remove(MEMBERS + name)
        return words

    def _force(self, name: str) -> str:
        """Lead alone, though no majority is there: what only the others have is given up."""
        node = self.node
        config, stored = node.member.config, node.view.config
        if name != node.me.name:
            return f"this is node '{node.me.name}': run it on '{name}', whose data is to be kept"
        if config is None or stored is None:
            return "this node has seen no cluster in etcd"
        if not node.member.replica.state.is_whole:
            return f"the data of node '{name}' is half a copy: force another node"
        online = [one for one in config.voters if one == name or one in node.links.linked()]
        if len(online) >= majority(len(config.voters)):
            return (
                f"{len(online)} of {len(config.voters)} voters are online, which is a majority: "
                "they elect a leader by themselves"
            )
        forgotten = {identity: other for other, identity in config.voters.items() if other != name}
        forced = msgspec.structs.replace(
            config,
            epoch=max(config.epoch, node.member.epoch) + 1,
            phase=ELECTING,
            leader=name,
            voters={name: node.me.identity},
            in_sync=(name,) if config.in_sync else (),
            forgotten={**config.forgotten, **forgotten},
        )
        assert node.coordinator is not None, "it is there from the start"
        node.coordinator.swap(0, stored.revision, forced)
        return ""


def _role(*, is_leader: bool, is_voter: bool) -> str:
    if is_leader:
        return "leader"
    return "follower" if is_voter else "learner"
