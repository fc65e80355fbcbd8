"""Each node, and the etcd, in a network of its own: packets between any two can be dropped.

Needs root and `ip` of iproute2. A cut is a route to nowhere in the sender's namespace: it drops
what one sends to the other, and is put on both for a full cut.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from penstock.demo.cluster_rig import ClusterRig

NET: Final = "10.77"
BRIDGE_END: Final = 1
USERS: Final = """
[[users]]
name = "guest"
password = "guest"
"""


def run(*words: str, check: bool = True) -> None:
    subprocess.run(words, check=check, capture_output=True)


def may_make_networks() -> bool:
    """Whether this process may, here."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"pst{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode != 0:
        return False
    run("ip", "netns", "del", name, check=False)
    return True


class Namespaces:
    """Networks for the nodes and the etcd of `rig`, which is not started yet. number: 0..255, of
    this machine's runs at one time."""

    def __init__(self, rig: ClusterRig, number: int) -> None:
        self.rig = rig
        self.net = f"{NET}.{number}"
        self.tag = f"pst{number}"
        self.addresses: dict[str, str] = {}
        self.cuts: set[tuple[str, str]] = set()
        run("ip", "link", "add", f"{self.tag}br", "type", "bridge")
        run("ip", "addr", "add", f"{self.net}.{BRIDGE_END}/24", "dev", f"{self.tag}br")
        run("ip", "link", "set", f"{self.tag}br", "up")
        for end, name in enumerate((*rig.nodes, *(one.name for one in rig.etcds)), start=11):
            self._make(name, f"{self.net}.{end}")
        for name, node in rig.nodes.items():
            node.host = self.addresses[name]
            node.prefix = ("ip", "netns", "exec", self.tag + name)
        for etcd in rig.etcds:
            etcd.host = self.addresses[etcd.name]
            etcd.prefix = ("ip", "netns", "exec", self.tag + etcd.name)
        config = Path(rig.folder / "users.toml")
        config.write_text(USERS)
        rig.options = (*rig.options, "--config", str(config))

    def _make(self, name: str, address: str) -> None:
        space, outer, inner = self.tag + name, f"{self.tag}{name}o", f"{self.tag}{name}i"
        run("ip", "netns", "add", space)
        run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner)
        run("ip", "link", "set", outer, "master", f"{self.tag}br", "up")
        run("ip", "link", "set", inner, "netns", space)
        run("ip", "-n", space, "addr", "add", f"{address}/24", "dev", inner)
        run("ip", "-n", space, "link", "set", inner, "up")
        run("ip", "-n", space, "link", "set", "lo", "up")
        self.addresses[name] = address

    def cut_one_way(self, sender: str, receiver: str) -> None:
        """Nothing that `sender` sends reaches `receiver`."""
        if (sender, receiver) not in self.cuts:
            route = ("route", "add", "blackhole", f"{self.addresses[receiver]}/32")
            run("ip", "-n", self.tag + sender, *route)
            self.cuts.add((sender, receiver))

    def cut(self, one: str, other: str) -> None:
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def cut_etcd(self, node: str) -> None:
        """`node` from all of etcd."""
        for etcd in self.rig.etcds:
            self.cut(node, etcd.name)

    def heal(self) -> None:
        for sender, receiver in self.cuts:
            route = ("route", "del", "blackhole", f"{self.addresses[receiver]}/32")
            run("ip", "-n", self.tag + sender, *route)
        self.cuts.clear()

    def close(self) -> None:
        for name in self.addresses:
            run("ip", "netns", "del", self.tag + name, check=False)
        run("ip", "link", "del", f"{self.tag}br", check=False)
