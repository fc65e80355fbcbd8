"""A running node: handshakes that never end, dead peers, hostile bytes, and a clean stop."""

import asyncio
import gc
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.server.boot.node import Node
from penstock.server.machine.machine import resident_bytes
from tests.patience import PATIENCE_S, undisturbed
from tests.unit.broker.peer import publish
from tests.unit.server.wire import Wire, book_of, running, until


async def test_whoever_does_not_open_in_time_is_closed(tmp_path: Path) -> None:
    """F68: nothing at all, one byte, half a handshake; a good client does not notice."""
    async with running(tmp_path) as node:
        silent, slow, half, good = [await Wire.connect(node) for _ in range(4)]
        slow.writer.write(b"A")
        half.writer.write(PROTOCOL_HEADER)
        await half.expect(m.ConnectionStart)
        await good.open()
        node.config = replace(node.config, handshake_ms=100)
        for one in (silent, slow, half):
            assert await one.rest() == b""
        assert len(node.broker.connections) == 1
        good.say(1, m.QueueDeclare("q"))
        await good.expect(m.QueueDeclareOk)
        for one in (silent, slow, half, good):
            await one.close()
        assert len([line for line in book_of(node).lines if "not open in time" in line]) == 3


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"AMQP\x00\x01\x00\x00",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 500,
        b"\x00" * 100_000,
    ],
    ids=["http", "amqp-1.0", "tls", "zeros"],
)
async def test_other_protocols_are_told_what_this_is(tmp_path: Path, said: bytes) -> None:
    async with running(tmp_path) as node:
        wire = await Wire.connect(node)
        wire.writer.write(said)
        heard = await wire.rest()
        # A reset may overtake the answer when the peer had more to say.
        assert heard == PROTOCOL_HEADER or (len(said) > 8 and heard == b"")
        await wire.close()
        assert book_of(node).errors == []


@pytest.mark.parametrize("is_open", [False, True])
async def test_a_frame_of_four_gigabytes_costs_nothing(tmp_path: Path, is_open: bool) -> None:
    """F59, F60."""
    async with running(tmp_path) as node:
        wire = await Wire.connect(node)
        if is_open:
            await wire.open()
        else:
            wire.writer.write(PROTOCOL_HEADER)
            await wire.expect(m.ConnectionStart)
        node.config = replace(node.config, handshake_ms=100)
        before = resident_bytes()
        wire.writer.write(b"\x01\x00\x00\xff\xff\xff\xff")
        for _ in range(64):
            wire.writer.write(b"x" * 65_536)
        heard = await wire.rest()
        assert b"FRAME_ERROR" in heard or heard == b""
        gc.collect()
        assert resident_bytes() - before < 16_000_000
        await wire.close()
        assert node.broker.connections == {}
        assert book_of(node).errors == []


def test_heartbeats_go_out_and_a_silent_peer_is_closed(tmp_path: Path) -> None:
    """F69: silent for two intervals."""

    async def scenario() -> None:
        async with running(tmp_path) as node:
            wire = await Wire.opened(node, heartbeat_s=1)
            heard = await wire.rest()
            assert heard.count(b"\x08\x00\x00\x00\x00\x00\x00\xce") >= 1
            assert [line for line in book_of(node).lines if "missed heartbeats" in line]
            await wire.close()

    # After two seconds without a turn it would close before it has sent anything.
    undisturbed(lambda: asyncio.run(scenario()), 0.4)


def test_a_dead_peer_that_takes_nothing_is_closed(tmp_path: Path) -> None:
    """Output that nobody takes must not keep its socket."""

    async def scenario() -> None:
        async with running(tmp_path) as node:
            wire = await Wire.opened(node, heartbeat_s=1)
            wire.say(1, m.QueueDeclare("q"), m.BasicConsume("q", "t", no_ack=True))
            await wire.expect(m.QueueDeclareOk)
            await wire.expect(m.BasicConsumeOk)
            other = await Wire.opened(node)
            for _ in range(300):
                other.writer.write(publish(1, "", "q", b"x" * 100_000))
                await other.writer.drain()
            listener = node.listener
            assert listener is not None
            wire.reader._transport.pause_reading()  # type: ignore[attr-defined]
            await until(lambda: len(node.broker.connections) == 1)
            assert len(listener.shells) == 1
            await wire.close()
            await other.close()

    # The silent consumer is closed after two seconds, which is too early while it is being set up.
    undisturbed(lambda: asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S)), 1.0)


async def test_stop_says_farewell(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        wire = await Wire.opened(node)
        stopping = asyncio.create_task(node.stop())
        close = await wire.expect(m.ConnectionClose)
        assert close.reply_code == 320 and "shutdown" in close.reply_text
        assert await wire.rest() == b""
        await stopping
        await wire.close()
        assert not (tmp_path / "control.sock").exists()


async def test_memory_alarm_comes_and_goes_with_the_watermark(tmp_path: Path) -> None:
    async with running(tmp_path, memory_high_bytes=1) as node:
        node.tick()
        assert "alarm:memory" in node.broker.alarms
        wire = await Wire.opened(node)
        wire.writer.write(publish(1, "", "q", b"x"))
        assert (await wire.expect(m.ConnectionBlocked)).reason.startswith("low on memory")
        node.broker.settings.write("memory.high", "95%")
        await wire.expect(m.ConnectionUnblocked)
        await wire.close()


async def test_periodic_work_that_fails_is_logged_and_tried_again(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        calls = []
        done = asyncio.Event()

        def work() -> None:
            # Only the first fails: on a busy machine a third comes before the wait is over.
            calls.append(1)
            if len(calls) == 1:
                raise OSError(28, "no space left on device")
            done.set()

        node._every(0.001, work)
        await asyncio.wait_for(done.wait(), PATIENCE_S)
        assert len(book_of(node).errors) == 1
        book_of(node).errors.clear()


async def test_memory_stays_flat_under_connection_churn(tmp_path: Path) -> None:
    """F70, in small."""

    async def churn(count: int, node: Node) -> None:
        for _ in range(count):
            wire = await Wire.opened(node)
            wire.say(1, m.QueueDeclare("", exclusive=True))
            await wire.expect(m.QueueDeclareOk)
            await wire.close()

    async with running(tmp_path) as node:
        await churn(20, node)
        await until(lambda: not node.broker.connections)
        gc.collect()
        objects = len(gc.get_objects())
        await churn(40, node)
        await until(lambda: not node.broker.connections)
        gc.collect()
        # Events in the recorder's ring are all that may be new.
        assert len(gc.get_objects()) - objects < 500
        assert node.broker.vhosts["/"].queues == {}
