"""Streams of a node with a data directory: there again after a stop, damage told, nothing left."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from penstock.broker.actors.lane import Answerable
from penstock.broker.store.commit_state import CommitState
from penstock.broker.stream.stream_actor import Outbox, StreamActor
from penstock.protocol import methods as m
from penstock.protocol.values import Table, Value
from penstock.server.boot.node import Node
from penstock.streams.log import StreamLog
from tests.patience import PATIENCE_S
from tests.unit.broker.peer import publish
from tests.unit.server.control.asked import asked as answered
from tests.unit.server.wire import Wire, book_of, running


async def published(directory: Path, *bodies: bytes) -> None:
    """One run of a node, in which stream `s` gets `bodies`, confirmed."""
    async with running(directory, data_dir=str(directory / "data")) as node:
        wire = await Wire.connect(node)
        await wire.open()
        table: Table = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 1000}
        wire.say(1, m.QueueDeclare("s", durable=True, arguments=table))
        await wire.expect(m.QueueDeclareOk)
        wire.say(1, m.ConfirmSelect())
        await wire.expect(m.ConfirmSelectOk)
        for body in bodies:
            wire.writer.write(publish(1, "", "s", body))
            await wire.expect(m.BasicAck)
        await wire.close()


async def until(is_there: Callable[[], bool]) -> None:
    """Wait for something that happens by itself."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_there():
            await asyncio.sleep(0.01)


def stream(node: Node) -> StreamActor:
    actor = node.broker.vhosts["/"].queues["s"]
    assert isinstance(actor, StreamActor)
    return actor


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("data/vhosts/*/streams/*"))


def test_a_stream_is_there_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        await published(tmp_path, b"a" * 600, b"b" * 600, b"c")
        await published(tmp_path, b"d")
        async with running(tmp_path, data_dir=str(tmp_path / "data")) as node:
            assert stream(node).messages.ready_count() == 4
            assert node.keeping is not None and node.keeping.streams.count == 4
            (row,) = json.loads(msgspec.json.encode(answered(node.broker, {"op": "store"})))[
                "vhosts"
            ]
            told = {key: row["streams"][0][key] for key in ("stream", "messages", "segments")}
            assert told == {"stream": "s", "messages": 4, "segments": 3}
            wire = await Wire.connect(node)
            await wire.open()
            wire.say(1, m.BasicQos(0, 10, False))
            await wire.expect(m.BasicQosOk)
            wire.say(1, m.BasicConsume("s", "tag", arguments={"x-stream-offset": 2}))
            await wire.expect(m.BasicConsumeOk)
            assert (await wire.expect(m.BasicDeliver)).delivery_tag == 1
            await wire.close()
        assert not book_of(node).errors

    asyncio.run(scenario())


def test_a_stop_keeps_what_was_taken_behind_a_commit(tmp_path: Path) -> None:
    """From a publisher that has gone without asking for confirms."""

    async def scenario() -> None:
        await published(tmp_path, b"a")
        async with running(tmp_path, data_dir=str(tmp_path / "data")) as node:
            stream(node).hold(Answerable())
            wire = await Wire.connect(node)
            await wire.open()
            wire.writer.write(publish(1, "", "s", b"b") + publish(1, "", "s", b"c"))
            wire.say(0, m.ConnectionClose(200, "", 0, 0))
            await wire.expect(m.ConnectionCloseOk)
            await until(lambda: len(stream(node).behind) > 0)
            await wire.close()
        async with running(tmp_path, data_dir=str(tmp_path / "data")) as node:
            assert stream(node).messages.ready_count() == 3

    asyncio.run(scenario())


def test_a_commit_that_had_not_got_into_its_stream_does_at_the_start(tmp_path: Path) -> None:
    async def asked(wire: Wire, verb: str, **arguments: Value) -> Table:
        wire.say(1, m.RequestAsk(f"transaction.{verb}", arguments))
        return (await wire.expect(m.RequestAskOk)).answer

    def has_all(log: StreamLog) -> bool:
        return log.count() == 3

    async def scenario() -> None:
        await published(tmp_path, b"before")
        async with running(tmp_path, data_dir=str(tmp_path / "data")) as node:
            store = stream(node).store
            assert store is not None
            # From here on it writes nothing, so the commit gets as far as the message log.
            store.state = CommitState.FAILED
            wire = await Wire.connect(node)
            await wire.open()
            identity = (await asked(wire, "begin", app="a", batch=7, max_bytes=10_000))["id"]
            wire.writer.write(publish(1, "", "s", b"one") + publish(1, "", "s", b"two"))
            await asked(wire, "stage", id=identity)
            table: Table = {"app": "a", "batch": 7, "ids": [identity]}
            wire.say(1, m.RequestAsk("transaction.commit", table))
            last = node.broker.transactions.marks_of("/").last
            await until(lambda: "a" in last)
            await wire.close()
        for _ in range(2):
            async with running(tmp_path, data_dir=str(tmp_path / "data")) as node:
                log = stream(node).counts.log
                assert log is not None
                await until(partial(has_all, log))
                assert node.keeping is not None and node.keeping.streams.count == 3
                wire = await Wire.connect(node)
                await wire.open()
                assert (await asked(wire, "last", app="a"))["batch"] == 7
                outbox = stream(node).outbox
                assert isinstance(outbox, Outbox) and outbox.index.live_count() == 0
                await wire.close()

    asyncio.run(scenario())


def test_a_deleted_stream_leaves_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        await published(tmp_path, b"a")
        assert len(files(tmp_path)) == 1
        async with running(tmp_path, data_dir=str(tmp_path / "data")) as node:
            wire = await Wire.connect(node)
            await wire.open()
            wire.say(1, m.QueueDelete("s"))
            await wire.expect(m.QueueDeleteOk)
            await wire.close()
        assert files(tmp_path) == []

    asyncio.run(scenario())


async def asked(wire: Wire, verb: str, arguments: Table) -> Table:
    wire.say(1, m.RequestAsk(verb, {"queue": "s", **arguments}))
    return (await wire.expect(m.RequestAskOk)).answer


def test_a_reader_group_is_there_again_where_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        await published(tmp_path, b"a", b"b", b"c", b"d")
        async with running(tmp_path, data_dir=str(tmp_path / "data")) as node:
            wire = await Wire.connect(node)
            await wire.open()
            for name in ("stays", "moves", "goes"):
                table: Table = {"group": name, "offset": 1, "max_lag_messages": 7}
                await asked(wire, "stream.group.register", table)
            await asked(wire, "stream.group.advance", {"group": "moves", "offset": 3})
            await asked(wire, "stream.group.remove", {"group": "goes"})
            await wire.close()
        async with running(tmp_path, data_dir=str(tmp_path / "data")) as node:
            groups = stream(node).groups
            assert groups is not None
            assert {name: int(one.position) for name, one in groups.groups.items()} == {
                "stays": 1,
                "moves": 3,
            }
            assert groups.groups["moves"].bound.messages == 7
            assert groups.log.keep_from == 1
        assert not book_of(node).errors

    asyncio.run(scenario())


def test_damage_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        await published(tmp_path, b"a" * 1200, b"b" * 1200, b"c" * 1200)
        middle = files(tmp_path)[1]
        middle.write_bytes(b"?" * 2000)
        async with running(tmp_path, data_dir=str(tmp_path / "data")) as node:
            said = " ".join(book_of(node).lines)
            assert "cannot be read; it was renamed to" in said
            assert "queue:/s: damaged, 1 of its messages cannot be read" in said
            assert stream(node).counts.log is not None
        assert middle.with_name(middle.name + ".damaged") in files(tmp_path)

    asyncio.run(scenario())
