"""A file of messages that is gone is told of by the next start and by `store check`, and the
offsets of a stream are not given again (reliability F14)."""

import asyncio
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.base.errors import OperatorError
from penstock.cli.store import store as store_commands
from penstock.protocol import methods as m
from penstock.server.boot.node import Node
from penstock.server.disk.inventory import (
    INVENTORY,
    NAMED_MAX,
    VhostFiles,
    missing_segments,
    read_inventory,
    take_inventory,
    write_inventory,
)
from tests.unit.broker.peer import publish
from tests.unit.server.disk.test_stream_boot import published as streamed
from tests.unit.server.disk.test_stream_boot import stream
from tests.unit.server.wire import Wire, book_of, running

QUEUES = {"orders": 40, "bills": 3}
PERSISTENT = (0x1000, b"\x02")


async def published(directory: Path) -> None:
    """One run of a node, in which `orders` gets forty messages of 100 bytes and `bills` three, in
    segments of 1 KiB; of `orders` the first is acknowledged."""
    async with started(directory) as node:
        wire = await Wire.opened(node)
        wire.say(1, m.ConfirmSelect())
        await wire.expect(m.ConfirmSelectOk)
        for name, count in QUEUES.items():
            wire.say(1, m.QueueDeclare(name, durable=True))
            await wire.expect(m.QueueDeclareOk)
            for _ in range(count):
                wire.writer.write(publish(1, "", name, b"x" * 100, PERSISTENT))
                await wire.expect(m.BasicAck)
        wire.say(1, m.BasicGet("orders", no_ack=True))
        await wire.expect(m.BasicGetOk)
        await wire.close()


def started(directory: Path):  # type: ignore[no-untyped-def]
    return running(directory, data_dir=str(directory / "data"), store_segment_bytes=1024)


def ready(node: Node, name: str) -> int:
    return int(node.broker.vhosts["/"].queues[name].messages.ready_count())


def checked(directory: Path) -> tuple[int, str]:
    """Exit code and text of `penstock store check`."""
    done = CliRunner().invoke(store_commands, ["check", "--data", str(directory / "data")])
    return done.exit_code, done.stdout


def one_file(directory: Path, pattern: str) -> Path:
    """The oldest."""
    return sorted((directory / "data" / "vhosts").glob(f"*/{pattern}"))[0]


def test_nothing_is_missing_after_a_clean_stop(tmp_path: Path) -> None:
    async def scenario() -> None:
        await published(tmp_path)
        async with started(tmp_path) as node:
            assert (ready(node, "orders"), ready(node, "bills")) == (39, 3)
        assert not book_of(node).lines

    asyncio.run(scenario())
    code, text = checked(tmp_path)
    assert code == 0 and "nothing is damaged" in text


def test_a_segment_that_is_gone(tmp_path: Path) -> None:
    asyncio.run(published(tmp_path))
    gone = one_file(tmp_path, "persistent/*.log")
    count = read_inventory(tmp_path / "data")["/"].segments[gone.name][1]
    assert 0 < count < 39
    gone.unlink()
    code, text = checked(tmp_path)
    assert code == 1 and f"{gone.name}: is not there" in " ".join(text.split())
    assert f"{count} messages lost" in text

    async def scenario() -> None:
        async with started(tmp_path) as node:
            assert (ready(node, "orders"), ready(node, "bills")) == (39 - count, 3)
            orders = node.broker.vhosts["/"].queues["orders"]
            assert orders.damaged_count == count and node.broker.vhosts["/"].queues["bills"]
            lines = book_of(node).lines
            assert any(f"{gone.name} is not there" in line for line in lines)
            assert any("orders: damaged, " in line for line in lines)
        async with started(tmp_path) as node:
            assert not book_of(node).lines, "that was said"

    asyncio.run(scenario())


def test_acknowledgements_that_are_gone(tmp_path: Path) -> None:
    asyncio.run(published(tmp_path))
    one_file(tmp_path, "persistent/*.acks").unlink()
    assert checked(tmp_path)[0] == 1

    async def scenario() -> None:
        async with started(tmp_path) as node:
            assert ready(node, "orders") == 40
            assert any("that were acknowledged come again" in one for one in book_of(node).lines)

    asyncio.run(scenario())


@pytest.mark.parametrize("was_killed", [False, True])
def test_a_virtual_host_that_is_gone(tmp_path: Path, was_killed: bool) -> None:
    asyncio.run(published(tmp_path))
    shutil.rmtree(tmp_path / "data" / "vhosts")
    if was_killed:
        take_inventory(tmp_path / "data")
    code, text = checked(tmp_path)
    said = " ".join(text.split())
    assert code == 1 and "2 durable queues had their messages in it" in said
    assert ("42 messages lost" in said) is not was_killed

    async def scenario() -> None:
        async with started(tmp_path) as node:
            lines = book_of(node).lines
            assert any("2 durable queues had their messages in it" in line for line in lines)
            assert ready(node, "orders") == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("lives_between", [0, 1])
@pytest.mark.parametrize("dies", [False, True])
def test_the_offsets_of_a_tail_that_is_gone_stay_taken(
    tmp_path: Path, lives_between: int, dies: bool
) -> None:
    async def scenario() -> None:
        await streamed(tmp_path, b"a" * 600, b"b" * 600, b"c" * 600)
        sorted((tmp_path / "data" / "vhosts").glob("*/streams/*"))[-1].unlink()
        for _ in range(lives_between):
            async with running(tmp_path, data_dir=str(tmp_path / "data")) as node:
                lines = book_of(node).lines
                assert any("messages 2..2 of a stream are gone" in line for line in lines)
                assert any("/s: damaged, 1 of its messages" in line for line in lines)
        if dies:
            # All that a kill leaves of it.
            take_inventory(tmp_path / "data")
        await streamed(tmp_path, b"d")
        async with running(tmp_path, data_dir=str(tmp_path / "data")) as node:
            log = stream(node).counts.log
            assert log is not None
            assert [(one.first, one.next) for one in log.segments][-1] == (3, 4)

    asyncio.run(scenario())


def test_a_start_that_fails_does_not_forget(tmp_path: Path) -> None:
    asyncio.run(published(tmp_path))
    gone = one_file(tmp_path, "persistent/*.log")
    gone.unlink()
    folder = gone.parent
    folder.rename(folder.with_name("away"))
    folder.write_text("no folder")

    async def scenario() -> None:
        with suppress(OperatorError):
            async with started(tmp_path):
                raise AssertionError("it cannot start")
        folder.unlink()
        folder.with_name("away").rename(folder)
        async with started(tmp_path) as node:
            assert any(f"{gone.name} is not there" in one for one in book_of(node).lines)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-1],
        lambda data: b"",
        lambda data: b"xyz\n" + data,
        lambda data: data.replace(b"1", b"2"),
    ],
)
def test_an_inventory_that_is_damaged(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    asyncio.run(published(tmp_path))
    path = tmp_path / "data" / INVENTORY
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(OperatorError, match="INVENTORY is damaged"):
        read_inventory(tmp_path / "data")
    code, text = checked(tmp_path)
    assert code == 1 and "INVENTORY is damaged" in " ".join(text.split())

    async def scenario() -> None:
        async with started(tmp_path) as node:
            assert ready(node, "orders") == 39
            assert any("INVENTORY is damaged" in one for one in book_of(node).lines)
        assert read_inventory(tmp_path / "data")["/"].segments

    asyncio.run(scenario())


def test_many_files_are_counted(tmp_path: Path) -> None:
    files = VhostFiles(segments={f"{number:010d}.log": {1: 2} for number in range(100)})
    found = missing_segments(files, tmp_path)
    assert found.lost == {1: 200}
    assert len(found.words()) == NAMED_MAX + 1
    assert found.words()[-1] == "80 more files are not there"


def test_what_a_start_keeps_of_it(tmp_path: Path) -> None:
    files = VhostFiles(segments={"0000000001.log": {1: 2}}, ends={7: 1 << 40})
    write_inventory(tmp_path, {"a": files})
    assert take_inventory(tmp_path) == {"a": files}
    assert take_inventory(tmp_path) == {"a": VhostFiles(ends={7: 1 << 40})}
