"""A node with a data directory: opened before it listens, let go of at the end, and in failure."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.broker.vhost.catalogue_rows import CatalogueChange
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.server.disk.data_directory import DataDirectory
from penstock.server.disk.metadata_db import MetadataDb
from tests.patience import PATIENCE_S
from tests.unit.broker.peer import publish
from tests.unit.server.wire import Wire, book_of, running, until


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


def test_what_is_parked_on_the_disk_does_not_outlive_the_broker(tmp_path: Path) -> None:
    """A publisher ends before a queue that is full has taken what it sent: that is dropped, said,
    and gone from the disk."""

    async def scenario() -> None:
        parked = tmp_path / "data" / "parked"
        parked.mkdir(parents=True)
        (parked / "000000000007.parked").write_bytes(b"of another life")
        (tmp_path / "data" / "VERSION").write_text("1\n")
        async with running(tmp_path, data_dir=str(tmp_path / "data"), parked_bytes=400_000) as node:
            assert not list(parked.iterdir())
            wire = await Wire.opened(node)
            full: Table = {"x-max-length": 5, "x-overflow": "backpressure"}
            for name, arguments in (("full", full), ("other", {})):
                wire.say(1, m.QueueDeclare(name, arguments=arguments))
                await wire.expect(m.QueueDeclareOk)
            sent = publish(1, "", "other", b"y") + publish(1, "", "full", b"x" * 1000) * 3000
            wire.writer.write(sent)
            files = parked.iterdir
            await until(lambda: len(list(files())) > 2 and node.broker.parking.bytes < 400_000)
            await wire.close()
            book = book_of(node)
        assert not list(parked.iterdir())
        assert any("are dropped; none of them was confirmed" in line for line in book.lines)

    asyncio.run(scenario())


def test_a_start_that_fails_lets_go_of_the_directory(tmp_path: Path) -> None:
    async def scenario() -> None:
        await declared(tmp_path, "q")
        path = tmp_path / "data" / "metadata.sqlite"
        with closing(MetadataDb(path)) as database:
            (row,) = database.read().queues
            spoilt = CatalogueChange(True, replace(row, arguments=b"\0"))
            database.apply(0, (CatalogueChange(False, row), spoilt))
        with pytest.raises(OperatorError, match=r"metadata\.sqlite: cannot bring back StoredQueue"):
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


def test_a_catalogue_that_is_older_than_the_messages_costs_none(tmp_path: Path) -> None:
    """As after restoring half a backup: they are set aside, and people are told."""

    async def confirmed(name: str, arguments: Table) -> None:
        async with running(tmp_path, data_dir=str(data)) as node:
            wire = await Wire.connect(node)
            await wire.open()
            wire.say(1, m.QueueDeclare(name, durable=True, arguments=arguments))
            await wire.expect(m.QueueDeclareOk)
            wire.say(1, m.ConfirmSelect())
            await wire.expect(m.ConfirmSelectOk)
            wire.writer.write(publish(1, "", name, b"kept", (0x1000, b"\x02")))
            await wire.expect(m.BasicAck)
            await wire.close()

    async def scenario() -> None:
        await confirmed("early", {})
        for name in names:
            (away / name).write_bytes((data / name).read_bytes())
        await confirmed("late", {})
        await confirmed("stream", {"x-queue-type": "stream"})
        for name in names:
            (data / name).write_bytes((away / name).read_bytes())
        async with running(tmp_path, data_dir=str(data)) as node:
            queues = node.broker.vhosts["/"].queues
            assert set(queues) == {"early"} and queues["early"].messages.ready_count() == 1
            told = [line for line in book_of(node).lines if "were set aside as *.orphaned" in line]
            assert len(told) == 2 and all("the disk was full" in line for line in told)
        async with running(tmp_path, data_dir=str(data)) as node:
            wire = await Wire.connect(node)
            await wire.open()
            wire.say(1, m.QueueDeclare("new", durable=True))
            await wire.expect(m.QueueDeclareOk)
            assert int(node.broker.vhosts["/"].queues["new"].queue_id) == 4, "3 is the lost stream"
            await wire.close()
        left = sorted(path.suffixes[-2] for path in data.rglob("*.orphaned"))
        assert left == [".log", ".stream"]

    data = tmp_path / "data"
    away = tmp_path / "away"
    away.mkdir()
    names = ["metadata.sqlite"]
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
            await asyncio.wait_for(asked.wait(), PATIENCE_S)
            assert node.failure is not None and "failed" in str(node.failure)
            assert any("cannot be kept" in text for text, _ in book_of(node).errors)
            await wire.close()

    asyncio.run(scenario())
