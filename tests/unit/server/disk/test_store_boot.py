"""A start on what a crash has left: without syncs, or with a catalogue behind the messages."""

import asyncio
from errno import EIO
from pathlib import Path

import pytest

from penstock.broker.vhost.catalogue_rows import CatalogueChange, StoredQueue
from penstock.protocol import methods as m
from penstock.server.disk.data_directory import is_unsynced, mark_unsynced
from penstock.server.disk.metadata_db import MetadataDb
from penstock.storage.log.batch import Batch
from tests.unit.cli.test_store import Left
from tests.unit.server.wire import Wire, book_of, running


def started(left: Left, folder: Path, mode: str) -> tuple[dict[str, int], str]:
    """What came back, by queue, and what the log has said."""

    async def scenario() -> tuple[dict[str, int], str]:
        async with running(folder, data_dir=str(left.path), store_sync=mode) as node:
            queues = node.broker.vhosts["/"].queues
            found = {name: int(one.messages.ready_count()) for name, one in queues.items()}
            return found, str(vars(book_of(node)))

    return asyncio.run(scenario())


@pytest.mark.parametrize("mode", ["always", "none"])
def test_after_mode_none_only_what_is_whole_comes_back(tmp_path: Path, mode: str) -> None:
    """Records that a footer speaks of have not come to the disk: they are gone, which is no damage
    and stays so; the mode of the new life says whether the next start is as careful."""
    left = Left(tmp_path, is_clean=False)
    path = left.store / "persistent" / "0000000001.log"
    data = path.read_bytes()
    path.write_bytes(data[:300] + bytes(400) + data[700:])
    mark_unsynced(left.store, True)
    found, said = started(left, tmp_path, mode)
    assert found["orders"] == 10
    assert 0 < found["bills"] < 5
    assert "damaged" not in said
    assert ("messages are not synced" in said) == (mode == "none")
    assert is_unsynced(left.store) == (mode == "none")
    again, said = started(left, tmp_path, "interval")
    assert again == found and "damaged" not in said
    assert not is_unsynced(left.store)


def test_messages_of_a_queue_that_the_catalogue_never_got_find_no_other(tmp_path: Path) -> None:
    """A disk so full that a batch had room and the catalogue had not, and then a kill: the number
    of that queue, which the catalogue has not given, is not given to another one."""
    left = Left(tmp_path, is_clean=False)
    (left.path / "metadata.sqlite").unlink()
    database = MetadataDb(left.path / "metadata.sqlite")
    database.apply(0, (CatalogueChange(True, StoredQueue(1, "/", "orders")),))
    database.close()

    async def scenario() -> None:
        async with running(tmp_path, data_dir=str(left.path)) as node:
            wire = await Wire.connect(node)
            await wire.open()
            wire.say(1, m.QueueDeclare("new", durable=True))
            await wire.expect(m.QueueDeclareOk)
            await wire.close()

    asyncio.run(scenario())
    assert started(left, tmp_path, "always")[0] == {"orders": 10, "new": 0}


def test_a_store_that_cannot_write_its_end_keeps_no_other_from_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with running(tmp_path, data_dir=str(tmp_path / "data"), vhosts=("/", "b")) as node:
            first = next(iter(node.broker.stores.stores.values()))

            def fail(batch: Batch) -> None:
                if batch.handles is first.log.handles:
                    raise OSError(EIO, "the disk has gone")
                run(batch)

            run = Batch.run
            monkeypatch.setattr(Batch, "run", fail)

    asyncio.run(scenario())
    assert len(list((tmp_path / "data" / "vhosts").glob("*/CLEAN"))) == 1
