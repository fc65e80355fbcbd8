"""The other members of this node, each of a shard of its own: who leads them, and which shard has
which virtual host. All of it is told by the process above them (server/shards)."""

import socket
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from penstock.server.cluster.admission import Self
from penstock.server.cluster.kept_client import Place, Reach, Shards
from penstock.server.cluster.link_frames import FORWARD
from penstock.server.cluster.link_io import Client, LinkConnection
from penstock.server.cluster.link_tls import LinkTls
from penstock.server.cluster.links import forward_from
from penstock.server.cluster.pipe import Places, Shard

NOT_HERE: Final = -1
SAID_EVERY_S: Final = 1.0
"""A member that says nothing for longer stands still."""


class Lead(msgspec.Struct, frozen=True):
    """What one member of this node says of its shard.

    leader, address, epoch: who leads it, "" for none; is_here: this node does, and its broker
    serves; the address is that of this member then. private: path of the socket of that broker for
    forwarded clients; cluster_id, identity, boot_id: of this member; pids: its process and its
    broker's.
    """

    leader: str = ""
    address: str = ""
    epoch: int = 0
    is_here: bool = False
    private: str = ""
    cluster_id: str = ""
    identity: str = ""
    boot_id: str = ""
    pids: tuple[int, ...] = ()


class SiblingLinks:
    """Connections to other nodes in the name of another member of this one."""

    def __init__(
        self, group: str, name: str, tls: LinkTls | None, lead: Callable[[], Lead]
    ) -> None:
        self.group = group
        self.name = name
        self.tls = tls
        self.lead = lead

    async def forward(
        self,
        name: str,
        address: str,
        client: Client,
        purpose: str = FORWARD,
        unknown: bytes = b"",
    ) -> tuple[LinkConnection, bytes]:
        """As `forward_from`."""
        lead = self.lead()
        me = Self(self.group, lead.cluster_id, self.name, lead.identity, lead.boot_id)
        return await forward_from(me, self.tls, name, address, client, purpose, unknown)


class Sibling:
    """One of the others. receive: where connections come that are handed over to it, read here
    while it stands still; own: where they are sent; lead: as it was said last."""

    def __init__(
        self,
        number: int,
        group: str,
        name: str,
        tls: LinkTls | None,
        receive: socket.socket,
        own: socket.socket,
    ) -> None:
        self.number = number
        self.receive = receive
        self.own = own
        self.lead = Lead()
        links = SiblingLinks(group, name, tls, self._lead)
        self.reach = Reach(links, self.place, self._private, _nothing_seen)

    def _lead(self) -> Lead:
        return self.lead

    def _private(self) -> str:
        return self.lead.private

    def place(self) -> Place | None:
        """Who leads it, None while nobody does."""
        lead = self.lead
        if not lead.leader or not lead.address:
            return None
        return Place(lead.leader, lead.address, lead.epoch, lead.is_here, self.number)


async def _nothing_seen(_: bytes) -> bytes:
    """Its member is asked over a link."""
    raise AssertionError("a place with an address is asked there")


class Siblings(Shards):
    """number: of this member's shard; receive: where connections come that other brokers of this
    node hand over to it, given as descriptors of those of each shard; send: descriptors of the ends
    on which each shard is sent some, by number; own: that of this one; told: called with what this
    member has to say, when it is another."""

    def __init__(
        self,
        number: int,
        groups: Mapping[int, str],
        name: str,
        tls: LinkTls | None,
        receive: Mapping[int, int],
        send: Mapping[int, int],
        places: Places,
        tell: Callable[[Lead], None],
    ) -> None:
        """groups: of all shards, by number; name: of this node."""
        self.number = number
        self.receive = _end(receive[number])
        self.own = _end(send[number])
        self.send = {one: fd for one, fd in send.items() if one != number}
        self.places = places
        self.others = {
            one: Sibling(one, group, name, tls, _end(receive[one]), _end(send[one]))
            for one, group in groups.items()
            if one != number
        }
        self.mine: Reach | None = None
        self._tell = tell
        self._said: Lead | None = None
        self._again_s = 0.0

    # -- what a client is for ----------------------------------------------------------------------

    def first(self) -> Reach:
        """Whose broker hears the login: this shard's, another one's while nobody leads it."""
        mine = self.mine
        assert mine is not None, "the member has said it"
        if mine.place() is None:
            for other in self.others.values():
                if other.place() is not None:
                    return other.reach
        return mine

    def of(self, vhost: str) -> Reach | None:
        number = self.places.places.get(vhost, NOT_HERE)
        if number == self.number:
            return self.mine
        other = self.others.get(number)
        return None if other is None else other.reach

    def serve_here(self) -> bool:
        """Whether this node leads the shard of another member: its broker takes clients."""
        return any(other.lead.is_here for other in self.others.values())

    def reaches(self) -> list[Reach]:
        """All of them, this shard's first."""
        assert self.mine is not None, "the member has said it"
        return [self.mine, *(other.reach for other in self.others.values())]

    # -- what is told ------------------------------------------------------------------------------

    def hear(self, leads: Mapping[int, Lead], places: Places) -> None:
        self.places = places
        for number, lead in leads.items():
            if number in self.others:
                self.others[number].lead = lead

    def say(self, lead: Lead) -> None:
        """What this member knows of its own shard; told when it is another than before, and as a
        sign of life."""
        now_s = time.monotonic()
        if lead != self._said or now_s >= self._again_s:
            self._said = lead
            self._again_s = now_s + SAID_EVERY_S
            self._tell(lead)

    # -- what the broker has -----------------------------------------------------------------------

    def handles(self) -> tuple[int, ...]:
        """What a broker inherits."""
        return (self.receive.fileno(), *self.send.values())

    def for_broker(self) -> Shard:
        return Shard(self.number, self.receive.fileno(), dict(self.send), self.places)

    def close(self) -> None:
        for sock in (self.receive, self.own):
            sock.close()
        for one in self.others.values():
            one.receive.close()
            one.own.close()


def _end(fd: int) -> socket.socket:
    found = socket.socket(fileno=fd)
    found.setblocking(False)
    return found
