"""Listening: a port in use names its owner, and the bound on connections holds."""

import os
from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.protocol import methods as m
from penstock.server.net.listener import open_socket
from tests.unit.server.wire import Wire, book_of, running, until


def test_a_port_in_use_names_its_owner_and_the_way_out() -> None:
    with open_socket("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(OperatorError) as caught:
            open_socket("127.0.0.1", port)
        with pytest.raises(OperatorError, match="with --cluster-listen"):
            open_socket("127.0.0.1", port, "--cluster-listen")
    text = str(caught.value)
    assert text.startswith(f"port {port} on 127.0.0.1 is used by pid {os.getpid()} (")
    assert "--port" in text


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("127.0.0.1", -1)])
def test_a_port_that_does_not_exist_is_the_operators_fault(host: str, port: int) -> None:
    with pytest.raises(OperatorError, match=r"0\.\.65535"):
        open_socket(host, port)


def test_an_address_of_another_machine_is_the_operators_fault() -> None:
    with pytest.raises(OperatorError, match=r"cannot listen on 192\.0\.2\.1:0"):
        open_socket("192.0.2.1", 0)


async def test_the_last_handles_are_not_for_clients(tmp_path: Path) -> None:
    """A store that cannot open a file cannot confirm."""
    async with running(tmp_path) as node:
        first = await Wire.opened(node)
        assert node.listener is not None
        node.listener.handles_end = 0
        for refused in (1, 2):
            late = await Wire.connect(node)
            assert await late.rest() == b""
            assert node.listener.refused == refused
            await late.close()
        said = [line for line in book_of(node).lines if "is for the disk" in line]
        assert len(said) == 1, "clients try again and again"
        first.say(1, m.ChannelClose(200, "", 0, 0))
        await first.expect(m.ChannelCloseOk)
        await first.close()


async def test_beyond_the_bound_sockets_are_closed_at_once_and_counted(tmp_path: Path) -> None:
    async with running(tmp_path, connections_max=1) as node:
        first = await Wire.opened(node)
        second = await Wire.connect(node)
        assert await second.rest() == b""
        assert node.listener is not None and node.listener.refused == 1
        await first.close()
        await second.close()


async def test_the_log_says_of_a_client_that_it_has_gone_without_a_word(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        gone, polite, last = [await Wire.opened(node) for _ in range(3)]
        address = "127.0.0.1:{}".format(gone.writer.get_extra_info("sockname")[1])
        gone.writer.transport.abort()
        await until(lambda: len(node.broker.connections) == 2)
        polite.say(0, m.ConnectionClose(200, "", 0, 0))
        await polite.expect(m.ConnectionCloseOk)
        await polite.close()
        await until(lambda: len(node.broker.connections) == 1)
    said = [line for line in book_of(node).lines if ": closed" in line]
    assert len(said) == 3
    assert said[0] == f"{address}: closed: its socket ended without connection.close"
    assert said[1].endswith(": closed") and said[2].endswith(": closed")
    await last.close()
