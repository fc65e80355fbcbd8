"""pika and aio-pika hear of the memory alarm, and only publishing waits for its end.

The broker runs with a watermark low enough to fill. Publishing passes it; purging the queue frees
the memory, and the broker looks once a second.
"""

import asyncio
import logging
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from pika import BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ConnectionClosedByBroker, NackError

from tests.conformance.live import Broker, penstock_process
from tests.conformance.through_pika import connect, counts, wait
from tests.patience import PATIENCE_S, undisturbed, until

pytestmark = pytest.mark.slow

MIB = 2**20
# A fresh broker resides in well under half of this, so purging always ends the alarm.
MEMORY_HIGH_BYTES = 160 * MIB
FILL_BYTES = MEMORY_HIGH_BYTES + 32 * MIB
BODY = bytes(256 * 1024)
CONSUMED = 20


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker whose alarm is within reach; no queue is throttled on the way there."""
    # Everybody at once, because one of the two publishers here holds next to nothing.
    config = (
        f"memory_high_bytes = {MEMORY_HIGH_BYTES}\nqueue_depth_bytes = {4 * FILL_BYTES}\n"
        'alarm_mode = "all"\n'
    )
    with penstock_process(tmp_path_factory.mktemp("alarm"), config=config) as running:
        yield running


def consume_some(broker: Broker, queue: str) -> None:
    """On a connection of its own: deliveries arrive and acks count while the alarm is on."""
    with connect(broker) as connection:
        channel = connection.channel()
        before, _ = counts(channel, queue)
        channel.basic_qos(prefetch_count=CONSUMED // 4)
        messages = channel.consume(queue, inactivity_timeout=PATIENCE_S)
        for method, _, _ in islice(messages, CONSUMED):
            assert method is not None, "nothing was delivered"
            channel.basic_ack(method.delivery_tag)
        channel.cancel()
        assert counts(channel, queue) == (before - CONSUMED, 0)


def purge(broker: Broker, queue: str) -> None:
    """Free the memory, on a connection of its own."""
    with connect(broker) as connection:
        connection.channel().queue_purge(queue)


def fill_until(
    broker: Broker, connection: BlockingConnection, channel: BlockingChannel, queue: str
) -> list[str]:
    """Publish past the watermark, then a little now and then; the reasons told until now.

    The next one waits for the one before it: what the sockets do not take when the alarm comes
    would keep pika in its publish until the end of the alarm."""
    reasons: list[str] = []
    connection.add_on_connection_blocked_callback(
        lambda _connection, frame: reasons.append(frame.method.reason)
    )
    with connect(broker) as other:
        watching = other.channel()
        before = 0

        def is_taken() -> bool:
            return bool(reasons) or counts(watching, queue)[0] >= before

        for _ in range(FILL_BYTES // len(BODY)):
            if not reasons:
                channel.basic_publish("", queue, BODY)
                listen = partial(connection.process_data_events, time_limit=0)
                until(is_taken, "the message before this one", listen)
                before += 1

    def is_told() -> bool:
        if not reasons:
            channel.basic_publish("", queue, b"is it on?")
        return bool(reasons)

    wait(channel, is_told)
    return reasons


def test_pika_is_told_why_it_waits_and_when_it_goes_on(small: Broker, name: str) -> None:
    with connect(small) as connection:
        channel = connection.channel()
        channel.queue_declare(name)
        ended: list[object] = []
        connection.add_on_connection_unblocked_callback(lambda *told: ended.append(told))
        reasons = fill_until(small, connection, channel, name)
        assert len(reasons) == 1
        assert reasons[0].startswith("low on memory"), reasons
        assert name in reasons[0], "the biggest queue is named"
        consume_some(small, name)
        connection.process_data_events(time_limit=0.2)
        assert not ended
        purge(small, name)
        wait(channel, lambda: ended)
        assert len(ended) == 1
        channel.confirm_delivery()
        channel.queue_purge(name)
        channel.basic_publish("", name, b"goes on")
        assert channel.basic_get(name, auto_ack=True)[2] == b"goes on"
        channel.queue_delete(name)


async def said(caplog: pytest.LogCaptureFixture, text: str) -> str:
    """The line with `text` that aiormq writes about the connection, once it is there."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for record in caplog.records:
                if record.name.startswith("aiormq") and text in record.getMessage():
                    return record.getMessage()
            await asyncio.sleep(0.02)


async def publish(channel: AbstractChannel, queue: str, body: bytes) -> None:
    await channel.default_exchange.publish(aio_pika.Message(body), routing_key=queue)


def test_aio_pika_waits_and_goes_on(
    small: Broker, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "aiormq")

    async def play() -> None:
        async with asyncio.timeout(4 * PATIENCE_S), await aio_pika.connect(small.url) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(name)
            with connect(small) as filler:
                fill_until(small, filler, filler.channel(), name)
                held = asyncio.create_task(publish(channel, name, b"held"))
                assert "low on memory" in await said(caplog, "was blocked by")
                assert not held.done(), "its confirm waits for the end of the alarm"
                consume_some(small, name)
                purge(small, name)
                await said(caplog, "was unblocked")
                async with asyncio.timeout(PATIENCE_S):
                    await held
            await queue.purge()
            await publish(channel, name, b"goes on")
            message = await queue.get(timeout=PATIENCE_S, no_ack=True)
            assert message is not None and message.body == b"goes on"
            await queue.delete(if_unused=False, if_empty=False)

    asyncio.run(play())


# -- changed while it runs -----------------------------------------------------------------------


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Broker]:
    """A broker as it comes."""
    with penstock_process(tmp_path) as running:
        yield running


def used_bytes(broker: Broker) -> int:
    """Memory, as the broker measured it last."""
    used = broker.asked("status")["memory_bytes"]
    assert isinstance(used, int)
    return used


class Told:
    """What pika says of one connection: reasons of blocked, moments of unblocked."""

    def __init__(self, connection: BlockingConnection) -> None:
        self.reasons: list[str] = []
        self.ended_s: list[float] = []
        connection.add_on_connection_blocked_callback(
            lambda _connection, frame: self.reasons.append(frame.method.reason)
        )
        connection.add_on_connection_unblocked_callback(
            lambda *_told: self.ended_s.append(time.monotonic())
        )


def test_a_mark_changed_at_run_time_stops_publishers_and_lets_them_on_within_a_second(
    plain: Broker, name: str
) -> None:
    """Scenarios 63 and 64, with consumers that drain all the while."""
    with connect(plain) as connection:
        channel = connection.channel()
        channel.queue_declare(name)
        told = Told(connection)
        for _ in range(4 * CONSUMED):
            channel.basic_publish("", name, bytes(1000))
        plain.change("memory.high", "0")
        channel.basic_publish("", name, b"held")
        wait(channel, lambda: told.reasons)
        assert told.reasons[0].startswith("low on memory (")
        assert told.reasons[0].endswith(f"/0.00 MB); biggest: queue /{name} 100 %")
        consume_some(plain, name)
        assert not told.ended_s

        def ended_after_s() -> float:
            if told.ended_s:
                plain.change("memory.high", "0")
                channel.basic_publish("", name, b"held again")
                wait(channel, lambda: len(told.reasons) > len(told.ended_s))
            changed_s = time.monotonic()
            plain.change("memory.high", "95%")
            wait(channel, lambda: len(told.ended_s) == len(told.reasons))
            return told.ended_s[-1] - changed_s

        assert undisturbed(ended_after_s, 0.2, plain.pid) < 1.0
        times = len(told.reasons)
        wait(channel, lambda: counts(channel, name)[0] == 3 * CONSUMED + times)
        assert (len(told.reasons), len(told.ended_s)) == (times, times)


def test_a_targeted_alarm_stops_the_one_that_fills_the_memory(plain: Broker, name: str) -> None:
    with connect(plain) as big, connect(plain) as small:
        filling, confirming = big.channel(), small.channel()
        filling.queue_declare(name)
        told = Told(big)
        for _ in range(100 * MIB // len(BODY)):
            filling.basic_publish("", name, BODY)
        confirming.confirm_delivery()
        confirming.basic_publish("", name, b"1")
        # The broker looks once a second, and when its mark is changed. A hundredth below what it
        # uses the alarm is on, and the second mark, which stops everybody, is a twentieth above:
        # what it uses must not grow any more.
        wait(filling, lambda: counts(filling, name)[0] == 1 + 100 * MIB // len(BODY))
        plain.change("memory.high", "95%")
        assert used_bytes(plain) > 100 * MIB

        def lower() -> None:
            plain.change("memory.high", str(used_bytes(plain) * 99 // 100))
            filling.basic_publish("", name, b"is it on?")
            big.process_data_events(time_limit=0.2)

        until(lambda: told.reasons, "an alarm below what is used", lower)
        confirming.basic_publish("", name, b"goes on, and is confirmed")
        assert not told.ended_s
        plain.change("memory.high", "95%")
        wait(filling, lambda: told.ended_s)


def test_an_alarm_may_nack_or_close_instead(plain: Broker, name: str) -> None:
    with connect(plain) as connection:
        channel = connection.channel()
        channel.queue_declare(name)
        channel.confirm_delivery()
        plain.change("alarm.action", "nack")
        plain.change("disk.free_min", "1000000GB")
        with pytest.raises(NackError):
            channel.basic_publish("", name, b"refused")
        assert counts(channel, name) == (0, 0)
        plain.change("alarm.action", "close")
        with pytest.raises(ConnectionClosedByBroker, match="low on disk") as closed:
            channel.basic_publish("", name, b"refused")
        assert closed.value.reply_code == 320
