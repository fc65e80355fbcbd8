"""Whether two members may talk: versions, clusters, names, certificates and clocks, in words.

Pure: both sides of a connection ask here what is wrong with the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.base.limits import CLUSTER_CLOCK_MS
from penstock.replication.config import ClusterConfig
from penstock.server.cluster.link_frames import FORWARDED, PROTOCOL, Hello, Welcome

_MS_PER_S: Final = 1000


@dataclass(frozen=True, slots=True)
class Self:
    """This member. cluster_id: "" before it belongs to a cluster."""

    cluster: str
    cluster_id: str
    name: str
    identity: str
    boot_id: str


def directory_fault(me: Self, known: Mapping[str, str], config: ClusterConfig | None) -> str:
    """Why this member's directory may not be the one of its name, "" if it may.

    known: identities by name, as members have said them to etcd; config: None before there is a
    cluster.
    """
    voters = {} if config is None else config.voters
    if config is not None and me.cluster_id not in ("", config.cluster_id):
        # Refused as one of another cluster: who is called so in this one has nothing to do with it.
        return ""
    mine = known.get(me.name)
    # One that was forgotten by force has left its row, and its name is free.
    is_free = config is not None and mine in config.forgotten
    if mine is not None and mine != me.identity and not is_free:
        return (
            f"node '{me.name}' of this cluster has a data directory with the identity {mine}, and "
            f"this one has {me.identity}: it was emptied, or is another node's. Nothing was "
            "changed; give --data of the right one, or run `penstock cluster forget "
            f"{me.name}` on another node, and start again"
        )
    for name, identity in sorted({**known, **voters}.items()):
        if name != me.name and identity == me.identity:
            return (
                f"this data directory is that of node '{name}', or a copy of it: start it with "
                f"--name {name}, or give node '{me.name}' an empty one, and it is copied anew"
            )
    return ""


def hello_fault(
    hello: Hello, me: Self, known: dict[str, str], certified: str | None, clock_ms: int
) -> str:
    """What is wrong with a member that dials, "" for nothing.

    known: identities by name, as etcd has them; certified: the name in its certificate, None on a
    link without TLS.
    """
    who = f"node '{hello.name}'"
    if abs(hello.protocol - PROTOCOL) > 1:
        return (
            f"{who} speaks version {hello.protocol} of the protocol between nodes and "
            f"'{me.name}' speaks {PROTOCOL}: upgrade one release at a time"
        )
    if hello.cluster != me.cluster:
        return (
            f"{who} belongs to cluster '{hello.cluster}' and '{me.name}' to '{me.cluster}': check "
            "--cluster and the addresses"
        )
    if hello.cluster_id and me.cluster_id and hello.cluster_id != me.cluster_id:
        return (
            f"{who} belongs to another cluster that is called '{me.cluster}', too "
            f"({hello.cluster_id}, here {me.cluster_id}): its etcd or its data directory is not "
            "this cluster's"
        )
    if hello.to != me.name:
        return (
            f"{who} looks for node '{hello.to}', and this is '{me.name}': two nodes advertise "
            "one address"
        )
    if certified is not None and certified != hello.name:
        return (
            f"{who} shows a certificate of '{certified}': give each node its own "
            "(penstock cluster certificates)"
        )
    # Another process of this node may have a client for the broker of this one.
    is_sibling = hello.identity == me.identity and hello.purpose in FORWARDED
    if hello.name == me.name and not is_sibling:
        return f"{who} dials itself: two nodes are called so; choose another --name"
    expected = known.get(hello.name)
    if expected is not None and expected != hello.identity:
        return (
            f"{who} has another data directory than the one that joined under this name "
            f"({hello.identity}, known {expected}): run `penstock cluster forget {hello.name}` "
            "before it joins anew"
        )
    return clock_fault(who, hello.clock_ms, me.name, clock_ms)


def clock_fault(who: str, theirs_ms: int, name: str, ours_ms: int) -> str:
    """Why two clocks are too far apart, "" if they are not."""
    apart_ms = theirs_ms - ours_ms
    if abs(apart_ms) <= CLUSTER_CLOCK_MS.default:
        return ""
    said = "ahead of" if apart_ms > 0 else "behind"
    return (
        f"the clock of {who} is {abs(apart_ms) // _MS_PER_S} s {said} that of '{name}', and "
        f"{CLUSTER_CLOCK_MS.default // _MS_PER_S} s are allowed, because messages expire by it: "
        "set the clocks (chrony, systemd-timesyncd)"
    )


def welcome_fault(welcome: Welcome, name: str, certified: str | None) -> str:
    """What is wrong with the member that has answered as `name`, "" for nothing."""
    if abs(welcome.protocol - PROTOCOL) > 1:
        return f"speaks version {welcome.protocol} of the protocol between nodes, here {PROTOCOL}"
    if welcome.name != name:
        return f"is node '{welcome.name}': two nodes advertise one address"
    if certified is not None and certified != name:
        return f"shows a certificate of '{certified}' (penstock cluster certificates)"
    return ""
