"""The directory of a virtual host that was deleted goes, and never one that somebody has."""

import asyncio
import shutil
from pathlib import Path

from penstock.broker.admin import vhosts
from penstock.server.boot.node import Node
from penstock.server.disk.data_directory import DELETED, remove_deleted, vhost_folder
from tests.unit.server.wire import book_of, running, until


def folder(directory: Path, name: str) -> Path:
    return directory / "vhosts" / vhost_folder(name)


async def made_and_deleted(node: Node, directory: Path) -> None:
    vhosts.add(node.broker, "shop")
    assert (folder(directory, "shop") / "persistent").is_dir()
    deletion = vhosts.delete(node.broker, "shop")
    node.poller.request()
    await until(lambda: deletion.is_done and (folder(directory, "shop") / DELETED).exists())


def test_it_goes_when_the_broker_stops(tmp_path: Path) -> None:
    data = tmp_path / "data"

    async def scenario() -> None:
        async with running(tmp_path, data_dir=str(data)) as node:
            await made_and_deleted(node, data)
        assert not folder(data, "shop").exists() and folder(data, "/").is_dir()
        async with running(tmp_path, data_dir=str(data)) as node:
            assert list(node.broker.vhosts) == ["/"] and not book_of(node).lines

    asyncio.run(scenario())


def test_after_a_kill_the_next_start_removes_it(tmp_path: Path) -> None:
    data, left = tmp_path / "data", tmp_path / "left"

    async def scenario() -> None:
        async with running(tmp_path, data_dir=str(data)) as node:
            await made_and_deleted(node, data)
            assert node.keeping is not None
            node.keeping.catalogue.hand_over()
            await until(lambda: not node.keeping or not node.keeping.catalogue.waiting)
            shutil.copytree(data, left)
        assert folder(left, "shop").is_dir()
        async with running(tmp_path, data_dir=str(left)) as node:
            assert list(node.broker.vhosts) == ["/"]
            assert not folder(left, "shop").exists()

    asyncio.run(scenario())


def test_one_that_is_there_again_keeps_it(tmp_path: Path) -> None:
    data = tmp_path / "data"

    async def scenario() -> None:
        async with running(tmp_path, data_dir=str(data)) as node:
            await made_and_deleted(node, data)
            vhosts.add(node.broker, "shop")
            await until(lambda: not (folder(data, "shop") / DELETED).exists())
        assert folder(data, "shop").is_dir()
        async with running(tmp_path, data_dir=str(data)) as node:
            assert list(node.broker.vhosts) == ["/", "shop"]

    asyncio.run(scenario())


def test_a_mark_that_a_kill_has_left_counts_for_nothing(tmp_path: Path) -> None:
    """The catalogue still has the virtual host; without a mark, nobody is told that it has not."""
    for name, is_marked in (("kept", True), ("gone", True), ("unknown", False)):
        path = folder(tmp_path, name) / "persistent"
        path.mkdir(parents=True)
        (path / "0000000001.log").write_bytes(b"x")
        if is_marked:
            (path.parent / DELETED).touch()
    assert remove_deleted(tmp_path, ["/", "kept"]) == []
    there = {path.name for path in (tmp_path / "vhosts").iterdir()}
    assert there == {vhost_folder("kept"), vhost_folder("unknown")}
    assert not (folder(tmp_path, "kept") / DELETED).exists()
