"""The broker's own stream of events as an input: what it has, over lives of the broker."""

import asyncio
from pathlib import Path

import pytest

import penstock
from penstock.base.errors import OperatorError
from penstock.server.boot.node import Node
from penstock.spark.input.stream_input import InputAway, StreamInput, is_address
from penstock.telemetry.events import ACTOR_UP
from tests.conformance.live import free_port
from tests.unit.server.wire import running

SECRET = "guest"


def address(node: Node, more: str = "") -> str:
    assert node.listener is not None
    return f"amqp://guest:{SECRET}@127.0.0.1:{node.listener.port}/%2F{more}"


async def put(node: Node, count: int) -> int:
    """`count` events more in the stream, and all before them; the number behind the last."""
    for number in range(count):
        node.broker.recorder.record(ACTOR_UP, f"queue:/{number}", "", "", 0)
    assert node.events is not None and node.events.feed is not None
    behind = node.broker.recorder.next_seq
    feed = node.events.feed
    while feed.next_seq < behind or feed.is_under_way:
        feed.finish()
        node.poller.request()
        await asyncio.sleep(0.005)
    return behind


def test_a_stream_is_one_query_over_two_lives(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")

    async def scene() -> None:
        kept = {"data_dir": str(tmp_path / "data"), "disk_free_min": "0", "event_stream": "/"}
        found = []
        for count in (1500, 10):
            async with running(tmp_path, **kept) as node:
                await put(node, count)
                stream = StreamInput(address(node))
                found.append(await asyncio.to_thread(stream.check))
                facts = stream.run().facts
                assert facts["broker"].startswith(f"Penstock {penstock.__version__}, stream ")
                assert f":{SECRET}" not in facts["broker"] and "with Spark 4." in facts["read by"]
        assert found[0].stream_id == found[1].stream_id
        assert found[0].first == found[1].first and found[0].next < found[1].next

    asyncio.run(scene())


def test_another_stream_of_that_name_is_another_query(tmp_path: Path) -> None:
    async def scene() -> None:
        queries = set()
        for _ in range(2):
            async with running(tmp_path, event_stream="/") as node:
                await put(node, 10)
                queries.add(await asyncio.to_thread(StreamInput(address(node)).query))
        assert len(queries) == 2

    asyncio.run(scene())


def test_faults_say_what_to_do_and_no_password(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path) as node:
            plain = StreamInput(address(node))
            with pytest.raises(OperatorError, match="--event-stream"):
                await asyncio.to_thread(plain.check)
        gone = f"amqp://guest:{SECRET}@127.0.0.1:{free_port()}/%2F"
        with pytest.raises(InputAway) as fault:
            StreamInput(gone).check()
        shown = f"{fault.value} {plain}"
        assert f":{SECRET}" not in shown and "guest@127.0.0.1" in shown

    asyncio.run(scene())
    with pytest.raises(OperatorError, match="unknown parameter"):
        StreamInput("amqp://localhost?queues=a")
    with pytest.raises(OperatorError, match=r"u:\*\*\*@\[::1' is not an address: "):
        StreamInput("amqp://u:p@[::1?passwordEnv=A")
    assert is_address("amqps://h") and not is_address("/events")


def test_parameters_of_the_address_are_those_of_the_connector(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("guest\n")

    async def scene() -> None:
        async with running(tmp_path, event_stream="/") as node:
            await put(node, 1)
            more = f"?heartbeat=50&passwordFile={tmp_path / 'secret'}"
            text = address(node, more).replace(f":{SECRET}@", "@")
            stream = StreamInput(text)
            assert stream.endpoint.url.heartbeat_s == 50
            assert (await asyncio.to_thread(stream.check)).next > 0
            shown = {**stream.options(), "url": ""}
            assert not any(value == SECRET for value in shown.values())

    asyncio.run(scene())
