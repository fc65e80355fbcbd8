"""The broker's own stream of events as an input: what it has, over lives of the broker."""

import asyncio
from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.server.boot.node import Node
from penstock.spark.input.pipeline_input import FileInput, PipelineInput
from penstock.spark.input.stream_input import InputAway, StreamInput, is_address
from penstock.spark.job.about import About
from penstock.spark.job.pipeline import BUCKET_NS, PLAIN_ASKED, follow, open_updater, stored_tables
from penstock.spark.schema.formats import EventLog, FlowEvent, read_events
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


def updated(place: PipelineInput, tables: Path) -> About:
    with open_updater(place, tables, PLAIN_ASKED, BUCKET_NS) as updater:
        return updater.update()


def test_file_and_stream_have_the_same_events_over_two_lives_and_a_third_reads_them(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        kept = {"data_dir": str(tmp_path / "data"), "disk_free_min": "0"}
        writing = {"event_stream": "/", "events_dir": str(tmp_path / "events")}
        queries = set()
        for count in (1500, 10):
            async with running(tmp_path, **kept, **writing) as node:
                await put(node, count)
                queries.add(await asyncio.to_thread(StreamInput(address(node)).query))
        assert len(queries) == 1
        async with running(tmp_path, **kept) as node:
            stream = StreamInput(address(node))
            assert await asyncio.to_thread(stream.events) == read_events(tmp_path / "events")
            about = await asyncio.to_thread(updated, stream, tmp_path / "of stream")
            assert about == updated(FileInput(tmp_path / "events"), tmp_path / "of files")
            assert about.source.event_count > 1510 and about.source.events_missing == 0
            tables = [stored_tables(tmp_path / f"of {one}", about) for one in ("stream", "files")]
            assert tables[0] == tables[1] and tables[0].event_kinds

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
            assert (await asyncio.to_thread(stream.events)).events
            shown = {**stream.options(), "url": ""}
            assert not any(value == SECRET for value in shown.values())

    asyncio.run(scene())


class Shaky(PipelineInput):
    """An input that is there at first, then away twice, then there again with more."""

    def __init__(self) -> None:
        self.looks = 0

    def events(self) -> EventLog:
        self.looks += 1
        if self.looks in (2, 3):
            raise InputAway("the broker is away")
        events = [FlowEvent("b", n, n, "actor_up", "a", "", "", 0, {}) for n in range(self.looks)]
        return EventLog(tuple(events), 0, 0)


def test_a_broker_that_is_away_is_waited_for_and_told_once(tmp_path: Path) -> None:
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 3:
            raise KeyboardInterrupt

    with (
        open_updater(Shaky(), tmp_path, PLAIN_ASKED, BUCKET_NS) as updater,
        pytest.raises(KeyboardInterrupt),
    ):
        follow(updater, 0.0, say)
    assert [line.partition(" lines")[0] for line in said] == [
        "+1",
        "the broker is away; it is tried again every 0 s",
        "+3",
    ]
