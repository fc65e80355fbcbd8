"""A member's directory: what its state claims was made safe before."""

import asyncio
import os
from pathlib import Path

import pytest

from penstock.replication.operations import (
    CREATE,
    MAKE_FOLDER,
    REMOVE,
    REMOVE_FOLDER,
    SYNC_FILE,
    WRITE,
    Operation,
    encode,
)
from penstock.replication.positions import Entry, Position
from penstock.replication.state import MemberState
from penstock.server.cluster import member_files, replica_disk
from penstock.server.cluster.member_events import DiskEvents
from penstock.server.cluster.replica_disk import ReplicaDisk

LOG = "vhosts/one/persistent/1.log"
ACKS = LOG.replace(".log", ".acks")
ENTRY = encode(
    [
        Operation(MAKE_FOLDER, "vhosts/one/persistent"),
        Operation(CREATE, LOG),
        Operation(WRITE, LOG, 0, b"one"),
        Operation(SYNC_FILE, LOG),
        Operation(CREATE, ACKS),
        Operation(WRITE, ACKS, 0, b"settled"),
    ]
)


class Told(DiskEvents):
    """What became of it. numbers: of states that are written; words: of the first failure."""

    def __init__(self) -> None:
        self.position = Position(0, 0)
        self.numbers: list[int] = []
        self.words = ""
        self.news = asyncio.Event()

    def applied(self, position: Position) -> None:
        self.position = position
        self.news.set()

    def persisted(self, number: int) -> None:
        self.numbers.append(number)
        self.news.set()

    def disk_failed(self, words: str) -> None:
        self.words = self.words or words
        self.news.set()

    async def until(self, number: int) -> None:
        """The state with that number is written, or never will be."""
        async with asyncio.timeout(30):
            while number not in self.numbers and not self.words:
                self.news.clear()
                await self.news.wait()


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of files as they are synced, and `state OPEN_EPOCH` when one is about to be written."""
    found: list[str] = []
    real_sync, real_write = os.fdatasync, member_files.write_state
    real_fsync = os.fsync

    def fdatasync(handle: int) -> None:
        found.append(os.readlink(f"/proc/self/fd/{handle}").rpartition("/")[2])
        real_sync(handle)

    def fsync(handle: int) -> None:
        found.append(os.readlink(f"/proc/self/fd/{handle}").rpartition("/")[2])
        real_fsync(handle)

    def write_state(path: Path, state: MemberState) -> None:
        found.append(f"state {state.open_epoch}")
        real_write(path, state)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(replica_disk, "write_state", write_state)
    return found


async def test_a_state_claims_only_what_is_safe(tmp_path: Path, happened: list[str]) -> None:
    told = Told()
    disk = ReplicaDisk(tmp_path, "boot", told)
    disk.open()
    disk.persist(1, MemberState(open_epoch=3))
    disk.apply((Entry(3, 1, ENTRY),))
    disk.persist(2, MemberState(open_epoch=3, starts=2))
    await told.until(2)
    assert "1.acks" not in happened, "a state that claims nothing waits for nothing"
    disk.persist(3, MemberState())
    disk.persist(4, MemberState(open_epoch=4))
    await told.until(4)
    assert told.numbers == [1, 2, 3, 4]
    assert told.position == Position(3, 1)
    assert happened.index("1.acks") < happened.index("state 0") < happened.index("state 4")
    await disk.close()


@pytest.mark.parametrize("change", [CREATE, WRITE, REMOVE, REMOVE_FOLDER])
async def test_a_state_claims_only_names_that_are_safe(
    change: int, tmp_path: Path, happened: list[str]
) -> None:
    """The leader syncs them when somebody relies on them, which may be much later."""
    path = LOG.replace("1.log", "2.log")
    if change == REMOVE:
        path = ACKS
    elif change == REMOVE_FOLDER:
        path = "vhosts/one/persistent"
    folder = path.split("/")[-2]
    told = Told()
    disk = ReplicaDisk(tmp_path, "boot", told)
    disk.open()
    disk.persist(1, MemberState(open_epoch=3))
    disk.apply((Entry(3, 1, ENTRY),))
    disk.persist(2, MemberState())
    await told.until(2)
    disk.persist(3, MemberState(open_epoch=3))
    await told.until(3)
    happened.clear()
    disk.apply((Entry(3, 2, encode([Operation(change, path)])),))
    disk.persist(4, MemberState())
    await told.until(4)
    assert folder in happened[: happened.index("state 0")]
    happened.clear()
    disk.persist(5, MemberState(open_epoch=3))
    disk.persist(6, MemberState())
    await told.until(6)
    assert folder not in happened, "it is safe already"
    await disk.close()


async def test_a_state_claims_nothing_when_the_disk_has_failed(
    tmp_path: Path, happened: list[str]
) -> None:
    told = Told()
    disk = ReplicaDisk(tmp_path, "boot", told)
    disk.open()
    disk.apply((Entry(3, 1, ENTRY[:-1] + b"?"),))
    disk.persist(1, MemberState())
    await told.until(1)
    assert "state 0" not in happened
    assert told.numbers == []
    assert "checksum" in told.words
    await disk.close()
