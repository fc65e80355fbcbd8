"""A node with a data directory: opened before it listens, let go of at the end, and in failure."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.protocol import methods as m
from penstock.server.data_directory import DataDirectory
from tests.unit.server.wire import Wire, book_of, running


async def declared(directory: Path, name: str) -> None:
    async with running(directory, data_dir=str(directory / "data")) as node:
        wire = await Wire.connect(node)
        await wire.open()
        wire.say(1, m.QueueDeclare(name, durable=True))
        await wire.expect(m.QueueDeclareOk)
        await wire.close()


def test_a_clean_stop_keeps_what_was_declared(tmp_path: Path) -> None:
    async def scenario() -> None:
        await declared(tmp_path, "one")
        await declared(tmp_path, "two")
        async with running(tmp_path, data_dir=str(tmp_path / "data")) as node:
            assert set(node.broker.vhosts["/"].queues) == {"one", "two"}
            assert node.keeping is not None and node.keeping.restored.queues == 2
        DataDirectory(tmp_path / "data", "after").close()

    asyncio.run(scenario())


def test_a_start_that_fails_lets_go_of_the_directory(tmp_path: Path) -> None:
    async def scenario() -> None:
        await declared(tmp_path, "q")
        path = tmp_path / "data" / "metadata.sqlite"
        with sqlite3.connect(path) as db:
            db.execute("UPDATE queues SET arguments = x'00'")
        db.close()
        with pytest.raises(OperatorError, match=r"metadata\.sqlite: cannot bring back QueueRow"):
            async with running(tmp_path, data_dir=str(tmp_path / "data")):
                pass
        DataDirectory(tmp_path / "data", "after").close()

    asyncio.run(scenario())


def test_messages_whose_catalogue_is_gone_are_left_alone(tmp_path: Path) -> None:
    """An empty catalogue would make them those of deleted queues, which a start removes."""

    async def scenario() -> None:
        await declared(tmp_path, "q")
        data = tmp_path / "data"
        (data / "metadata.sqlite").rename(tmp_path / "away")
        # Without messages there is nothing that could be lost.
        await declared(tmp_path, "r")
        (data / "metadata.sqlite").unlink()
        segment = next((data / "vhosts").iterdir()) / "persistent" / "0000000001.log"
        segment.write_bytes(b"what it holds is not looked at")
        with pytest.raises(OperatorError, match=r"1 files with messages are.*move the directory"):
            async with running(tmp_path, data_dir=str(data)):
                pass
        assert segment.exists()
        DataDirectory(data, "after").close()

    asyncio.run(scenario())


def test_f04_a_disk_that_fails_ends_the_broker(tmp_path: Path) -> None:
    """F4: the database is taken away under it, which is what a broken disk looks like."""

    async def scenario() -> None:
        async with running(tmp_path, data_dir=str(tmp_path / "data")) as node:
            asked = asyncio.Event()
            node.on_failure = asked.set
            with sqlite3.connect(tmp_path / "data" / "metadata.sqlite") as db:
                db.execute("DROP TABLE queues")
            db.close()
            wire = await Wire.connect(node)
            await wire.open()
            wire.say(1, m.QueueDeclare("q", durable=True))
            await wire.expect(m.QueueDeclareOk)
            await asyncio.wait_for(asked.wait(), 10)
            assert node.failure is not None and "failed" in str(node.failure)
            assert any("cannot be kept" in text for text, _ in book_of(node).errors)
            await wire.close()

    asyncio.run(scenario())
