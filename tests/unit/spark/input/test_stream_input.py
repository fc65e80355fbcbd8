"""Events read from a running broker's own stream: each once, whatever is cut short, gaps told."""

import asyncio
import json
import logging
import random
from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.server.boot.node import Node
from penstock.spark.input import stream_input
from penstock.spark.input.intake import FileInput, Intake, PipelineInput, read_range
from penstock.spark.input.stream_input import InputAway, StreamInput, is_address
from penstock.spark.job.about import About
from penstock.spark.job.pipeline import BUCKET_NS, PLAIN_ASKED, follow, open_updater, stored_tables
from penstock.spark.schema.formats import EVENT_FILES, TRACE_FILES, EventLog, FlowEvent, read_events
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


def sequences(found: Intake) -> list[int]:
    lines = b"".join(read_range(one) for one in found.ranges).splitlines()
    rows = [json.loads(line) for line in lines if line.startswith(b"{")]
    return [row["seq"] for row in rows if "seq" in row]


async def fresh(stream: StreamInput, marks: dict[str, int]) -> Intake:
    return await asyncio.to_thread(stream.fresh, EVENT_FILES, lambda key: marks.get(key, 0))


def updated(place: PipelineInput, tables: Path) -> About:
    with open_updater(place, tables, PLAIN_ASKED, BUCKET_NS) as updater:
        return updater.update()


def test_rounds_that_are_cut_short_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path, event_stream="/") as node:
            stream = StreamInput(address(node), tmp_path / "fetched")
            dice = random.Random(5)
            marks: dict[str, int] = {}
            read: list[int] = []
            for round_number in range(12):
                await put(node, dice.choice((0, 1, 40, 2500)))
                found = await fresh(stream, marks)
                if dice.random() < 0.5 or round_number == 11:
                    read += sequences(found)
                    marks.update(found.marks)
                else:
                    # Killed before the commit; the next process knows nothing but the tables.
                    stream = StreamInput(address(node), tmp_path / "fetched")
            assert read == list(range(len(read))) and len(read) > 2500
            assert all(one.node and one.boot_id == node.boot_id for one in found.ranges)
            # The broker may have said more meanwhile; where that ends nothing is new.
            ended = dict.fromkeys(marks, 1_000_000)
            assert await fresh(stream, ended) == Intake((), {})
            assert list((tmp_path / "fetched").iterdir()) == []
            assert stream.fresh(TRACE_FILES, marks.__getitem__) == Intake((), {})

    asyncio.run(scene())


def test_a_round_ends_with_what_was_there_when_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_input, "ROUND_BYTES", 100_000)

    async def scene() -> None:
        async with running(tmp_path, event_stream="/") as node:
            stream = StreamInput(address(node), tmp_path / "fetched")
            await put(node, 3000)
            marks: dict[str, int] = {}
            assert (await fresh(stream, marks)).has_more, "3000 events are more than 100 kB"
            monkeypatch.setattr(stream_input, "ROUND_BYTES", 10_000_000)
            found = await fresh(stream, marks)
            await put(node, 10)
            assert not found.has_more, "what came meanwhile is for the next update"

    asyncio.run(scene())


def test_what_retention_took_before_it_was_read_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        async with running(tmp_path, event_stream="/", event_stream_bytes=1_000_000) as node:
            stream = StreamInput(address(node), tmp_path / "fetched")
            await put(node, 100)
            marks = (await fresh(stream, {})).marks
            for _ in range(20):
                await put(node, 1000)
            # It goes on while the broker writes about itself.
            earliest = (await asyncio.to_thread(stream.check)).first
            found = await fresh(stream, marks)
            latest = (await asyncio.to_thread(stream.check)).first
            first, *_ = found.ranges
            line = read_range(first).decode()
            (before,) = marks.values()
            assert line in [
                f"{behind - before} messages of amq.flow.telemetry (offsets {before}..{behind - 1})"
                " were gone before they were read\n"
                for behind in range(earliest, latest + 1)
            ]
            assert "event_stream_bytes" in caplog.text
            assert sequences(found)[-1] >= 20_099
            # Who begins only now has missed nothing.
            assert all(one.boot_id for one in (await fresh(stream, {})).ranges)

    with caplog.at_level(logging.WARNING, "penstock.spark"):
        asyncio.run(scene())


def test_file_and_stream_have_the_same_events_over_two_lives_and_a_third_reads_them(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        kept = {"data_dir": str(tmp_path / "data"), "disk_free_min": "0"}
        writing = {"event_stream": "/", "events_dir": str(tmp_path / "events")}
        marks: dict[str, int] = {}
        read: list[str] = []
        for count in (1500, 10):
            async with running(tmp_path, **kept, **writing) as node:
                await put(node, count)
                stream = StreamInput(address(node), tmp_path / "fetched")
                found = await fresh(stream, marks)
                marks.update(found.marks)
                read += [f"{one.boot_id}" for one in found.ranges]
        async with running(tmp_path, **kept) as node:
            stream = StreamInput(address(node), tmp_path / "fetched")
            assert await asyncio.to_thread(stream.events) == read_events(tmp_path / "events")
            about = await asyncio.to_thread(updated, stream, tmp_path / "of stream")
            assert about == updated(FileInput(tmp_path / "events"), tmp_path / "of files")
            assert about.source.event_count > 1510 and about.source.events_missing == 0
            assert any(name.startswith("penstock pipeline") for name in about.run.names.values())
            tables = [stored_tables(tmp_path / f"of {one}", about) for one in ("stream", "files")]
            assert tables[0] == tables[1] and tables[0].event_kinds
            found = await fresh(stream, marks)
            read += [f"{one.boot_id}" for one in found.ranges]
            assert len(marks) == 1 and len(set(read)) == 2

    asyncio.run(scene())


def test_another_stream_of_that_name_is_read_from_its_beginning(tmp_path: Path) -> None:
    async def scene() -> None:
        marks: dict[str, int] = {}
        for life in (1, 2):
            async with running(tmp_path, event_stream="/") as node:
                await put(node, 10)
                stream = StreamInput(address(node), tmp_path / "fetched")
                found = await fresh(stream, marks)
                assert sequences(found)[0] == 0
                marks.update(found.marks)
                assert len(marks) == life

    asyncio.run(scene())


def test_faults_say_what_to_do_and_no_password(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path) as node:
            plain = StreamInput(address(node), tmp_path / "fetched")
            with pytest.raises(OperatorError, match="--event-stream"):
                await asyncio.to_thread(plain.check)
        gone = f"amqp://guest:{SECRET}@127.0.0.1:{free_port()}/%2F"
        with pytest.raises(InputAway) as fault:
            StreamInput(gone, tmp_path).check()
        shown = f"{fault.value} {plain}"
        assert f":{SECRET}" not in shown and "guest@127.0.0.1" in shown

    asyncio.run(scene())
    with pytest.raises(OperatorError, match="unknown parameter"):
        StreamInput("amqp://localhost?queues=a", tmp_path)
    assert is_address("amqps://h") and not is_address("/events")


def test_parameters_of_the_address_are_those_of_the_connector(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("guest\n")

    async def scene() -> None:
        async with running(tmp_path, event_stream="/") as node:
            await put(node, 1)
            more = f"?heartbeat=50&passwordFile={tmp_path / 'secret'}"
            text = address(node, more).replace(f":{SECRET}@", "@")
            stream = StreamInput(text, tmp_path / "fetched")
            assert stream.endpoint.url.heartbeat_s == 50
            assert sequences(await fresh(stream, {}))

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
