"""Clients that another process hands in, whose header comes in pieces."""

import asyncio
import socket
import time

from penstock.server.net.proxied_clients import ProxiedClients
from penstock.server.net.proxy_header import Header, header_of
from tests.unit.server.wire import until


async def test_a_header_may_come_in_pieces_and_costs_nothing_meanwhile() -> None:
    served: list[tuple[socket.socket, Header]] = []
    clients = ProxiedClients(
        asyncio.get_running_loop(), lambda sock, header: served.append((sock, header))
    )
    ours, theirs = socket.socketpair()
    clients.take(ours)
    said = header_of("192.0.2.7", 40_312)
    for at in range(len(said) - 1):
        theirs.send(said[at : at + 1])
        await asyncio.sleep(0)
    began_s = time.process_time()
    await asyncio.sleep(0.5)
    assert time.process_time() - began_s < 0.2
    assert served == []
    theirs.send(said[-1:] + b"AMQP")
    await until(lambda: served)
    sock, header = served[0]
    assert (header.host, header.port) == ("192.0.2.7", 40_312)
    assert sock.recv(8) == b"AMQP"
    sock.close()
    theirs.close()


async def test_one_that_goes_in_the_middle_of_it_is_forgotten() -> None:
    clients = ProxiedClients(asyncio.get_running_loop(), lambda sock, header: None)
    ours, theirs = socket.socketpair()
    clients.take(ours)
    theirs.send(b"PROXY TCP4 ")
    theirs.close()
    await until(lambda: ours.fileno() < 0)
