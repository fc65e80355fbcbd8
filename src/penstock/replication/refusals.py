"""Why a member or a peer is refused, in one sentence that says what to do."""

from collections.abc import Callable

from penstock.replication.config import ClusterConfig, majority
from penstock.replication.frames import Hello, version_refusal
from penstock.replication.leading import Leading
from penstock.replication.state import MemberState


def of_config(config: ClusterConfig, name: str, state: MemberState, has_data: bool) -> str:
    """Why this member is no part of the cluster it found, "" when it is or may become one."""
    if state.cluster_id and state.cluster_id != config.cluster_id:
        return (
            f"this directory belongs to cluster {state.cluster_id}, and the coordinator has "
            f"{config.cluster_id}: check --coordinator and the cluster's name, or use other --data"
        )
    if state.identity in config.forgotten:
        return f"{name} was forgotten by the cluster: it may come back with an empty directory"
    known = config.voters.get(name)
    if known is not None and known != state.identity:
        return other_identity(name)
    if has_data and not state.cluster_id and known is None:
        return (
            f"the directory of {name} holds a single node's data, which joining cluster "
            f"{config.cluster_id} would overwrite: use an empty directory"
        )
    return ""


def other_identity(name: str) -> str:
    return (
        f"the directory of {name} is not the one the cluster knows under this name (emptied, or "
        f"another node's): give it its directory back, or `penstock cluster forget {name}` first"
    )


def of_no_config(state: MemberState, may_create: bool) -> str:
    """Why no cluster is made where there is none."""
    if state.cluster_id:
        return (
            f"the coordinator knows nothing of cluster {state.cluster_id}, to which this directory "
            "belongs: check --coordinator, or restore its data; nothing is made anew here"
        )
    if not may_create:
        return "there is no cluster yet, and this member was told to join one: start the first one"
    return ""


def of_hello(frame: Hello, peer: str, state: MemberState, config: ClusterConfig | None) -> str:
    """Why the peer that said this is refused, "" when it is not."""
    words = version_refusal(frame.protocol)
    if words:
        return words
    if frame.name != peer:
        return f"{frame.name} answers where {peer} should: check the members' addresses"
    if frame.cluster_id and state.cluster_id and frame.cluster_id != state.cluster_id:
        return (
            f"{peer} belongs to cluster {frame.cluster_id}, not to {state.cluster_id}: check "
            "--coordinator and --cluster-listen"
        )
    if config is not None:
        if frame.identity in config.forgotten:
            return f"{peer} was forgotten by the cluster: it may join with an empty directory"
        if config.voters.get(peer, frame.identity) != frame.identity:
            return other_identity(peer)
    return ""


def not_leading(name: str, leader: str) -> str:
    """Why a command has to go elsewhere."""
    there = f"; ask {leader}" if leader else ", and no leader is known"
    return f"{name} does not lead{there}"


def of_moving(name: str, leading: Leading, now_ms: int) -> str:
    """Why `name` cannot lead next, "" when it can; name: "" for any other than the leader.

    A leader that gave up for one that cannot would lead again itself, or a third one would, and
    clients would have had a pause for nothing.
    """
    able = leading.able(now_ms)
    if name in able or (not name and able):
        return ""
    if not name:
        return (
            "no other node has everything: wait until `penstock cluster status` says that one is "
            "whole"
        )
    one = leading.progress.get(name)
    if one is None or not leading.is_linked(name):
        return f"node '{name}' is not there: start it first, or choose another one"
    if name in leading.config.voters and one.session and one.is_whole:
        return (
            f"nothing was heard of node '{name}' for {now_ms - one.heard_ms} ms: look at it, or "
            "choose another one"
        )
    return (
        f"node '{name}' has not everything yet: wait until `penstock cluster status` says that it "
        "is whole"
    )


def of_forgetting(
    name: str, leader: str, leading: Leading, is_linked: Callable[[str], bool]
) -> str:
    """Why a voter cannot be forgotten now, "" when it can."""
    config = leading.config
    if name == leader:
        return f"{name} leads: `penstock cluster move` first"
    if name not in config.voters:
        return f"there is no node '{name}' to forget; {', '.join(sorted(config.voters))} vote"
    if not leading.is_settled:
        return "another change of the members is under way: try again in a moment"
    left = [one for one in config.voters if one != name]
    there = [one for one in left if one == leader or is_linked(one)]
    if len(there) < majority(len(left)):
        return (
            f"without {name} {len(left)} would vote, and only {len(there)} of them are linked: "
            "start the others first"
        )
    return ""


def stalled(stalled_ms: int) -> str:
    return f"its disk has ended nothing for {stalled_ms} ms"


def no_quorum(quorum_ms: int) -> str:
    return f"no majority of voters was heard for {quorum_ms} ms"
