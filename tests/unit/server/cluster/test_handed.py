"""Clients that another broker of this node has heard, relayed to the node that leads."""

import asyncio
import socket

from penstock.base.config import Config
from penstock.broker.session.handover import Handover, encode
from penstock.server.cluster.forward import Forwarder
from penstock.server.cluster.handed import Handed
from penstock.server.cluster.kept_client import Place, Reach
from penstock.server.cluster.link_frames import DATA, HANDED, TAKEN, Hello
from penstock.server.cluster.link_io import LinkConnection
from penstock.server.net.handover_messages import CONNECTION, handover_pair, put
from tests.unit.broker.peer import LogBook
from tests.unit.server.cluster.test_forward import nothing_seen
from tests.unit.server.cluster.test_links import End
from tests.unit.server.wire import until

SAID = b"x" * 16_000
"""Three of them wait in this process for a client who does not read."""
RECORD = Handover(
    *("127.0.0.1", "127.0.0.1:5", None, "RABBIT-CR-DEMO", "guest", False, "", b"\0\0\0\0", ()),
    *(2047, 131_072, 0, b"connection.open"),
)


class Leader:
    """The node that leads, as far as links go: it takes a client, says something, and is gone."""

    def __init__(self) -> None:
        self.records: list[bytes] = []

    async def take(self, hello: Hello, link: LinkConnection) -> None:
        kind, record = await link.read()
        assert kind == HANDED
        self.records.append(record)
        link.write(TAKEN)
        for _ in range(3):
            link.write(DATA, SAID)
        # All of it is received before the end is.
        await asyncio.sleep(0.3)


async def test_what_a_leader_said_before_it_was_gone_reaches_a_slow_client() -> None:
    leader, dialling, follower = Leader(), End("a"), End("b")
    dialling.links.on_forward = leader.take
    address = await dialling.listen()
    reach = Reach(follower.links, lambda: Place("a", address, 1), str, nothing_seen)
    receive, own = handover_pair()
    forwarder = Forwarder([], Config(), reach, LogBook())
    handed = Handed(receive, own, reach, forwarder, 5.0, 10, LogBook())
    handed.open()
    client, theirs = socket.socketpair()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    client.setblocking(False)
    with theirs:
        put(own, CONNECTION, encode(RECORD), theirs.fileno())
    try:
        await until(lambda: leader.records != [])
        await until(lambda: not handed.relays)
        reader, writer = await asyncio.open_connection(sock=client)
        async with asyncio.timeout(60):
            assert await reader.read() == SAID * 3
        writer.close()
        assert leader.records == [encode(RECORD)]
    finally:
        await handed.close()
        await forwarder.close()
        for end in (dialling, follower):
            await end.links.close()
        receive.close()
        own.close()
