"""What a follower has told is there after a kill, and after a loss of power that leaves what was
synced and nothing else, whichever way its entries went."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from penstock.replication.operations import (
    CREATE,
    MAKE_FOLDER,
    MAKES_SAFE,
    REMOVE,
    SYNC_FILE,
    SYNC_FOLDER,
    TRUNCATE,
    WRITE,
    Operation,
    decode,
    encode,
)
from penstock.replication.state import MemberState
from penstock.server.cluster import applier as applier_module
from penstock.server.cluster.applier import IN_A_ROW, replay
from penstock.server.cluster.journal import HEAD_BYTES, Journal
from penstock.server.cluster.member_files import leave, write_state
from penstock.server.cluster.position import LeaderPosition, PositionFile, Stored
from penstock.server.disk.data_directory import DataDirectory
from tests.unit.server.cluster.member_bed import Follower, contents, wait_until

FOLDER = "vhosts/one/persistent"
BOUND = 6000


def name(number: int) -> str:
    return f"{FOLDER}/{number}.log"


class History:
    """Entries as a leader makes them: most of them write a little behind the end and sync."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.files: dict[int, int] = {}
        self.number = 0
        self.entries = [encode([Operation(MAKE_FOLDER, FOLDER), *self._made()])]

    def _made(self) -> list[Operation]:
        self.number += 1
        self.files[self.number] = 4
        path = name(self.number)
        return [Operation(CREATE, path), Operation(WRITE, path, 0, b"head")]

    def _written(self, most: int) -> list[Operation]:
        number = self.chance.choice(list(self.files))
        data = self.chance.randbytes(self.chance.randint(1, most))
        at = self.files[number]
        if self.chance.random() < 0.3:
            # A segment that is used again.
            at = self.chance.randint(0, at)
        self.files[number] = max(self.files[number], at + len(data))
        return [Operation(WRITE, name(number), at, data)]

    def add(self) -> None:
        kind = self.chance.random()
        if kind < 0.9:
            operations = self._written(300)
            if self.chance.random() < 0.7:
                operations.append(Operation(SYNC_FILE, operations[0].path))
        elif kind < 0.94:
            operations = [*self._made(), Operation(SYNC_FOLDER, FOLDER)]
            if self.chance.random() < 0.5:
                operations.append(Operation(SYNC_FILE, name(self.number)))
        elif kind < 0.97 and len(self.files) > 1:
            gone = self.chance.choice(list(self.files))
            del self.files[gone]
            operations = [Operation(REMOVE, name(gone)), Operation(SYNC_FOLDER, FOLDER)]
        else:
            cut = self.chance.choice(list(self.files))
            self.files[cut] //= 2
            operations = [
                Operation(TRUNCATE, name(cut), self.files[cut]),
                Operation(SYNC_FILE, name(cut)),
            ]
        self.entries.append(encode(operations))


class Power:
    """safe: of each file, what it was when it was synced last."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.safe: dict[str, bytes] = {}
        for call in ("fdatasync", "fsync"):
            monkeypatch.setattr(os, call, self._synced(getattr(os, call)))

    def _synced(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def synced(handle: int) -> None:
            real(handle)
            path = Path(os.readlink(f"/proc/self/fd/{handle}"))
            if path.is_file() and path.is_relative_to(self.root):
                self.safe[str(path.relative_to(self.root))] = path.read_bytes()

        return synced

    def leaves(self, to: Path, chance: Random) -> None:
        """Of each file what was safe, or all of it: the machine may have written it by itself."""
        for path in self.root.rglob("*"):
            inside = str(path.relative_to(self.root))
            (to / inside).parent.mkdir(parents=True, exist_ok=True)
            if path.is_file() and not inside.startswith("metadata"):
                is_written = chance.random() < 0.5
                data = path.read_bytes() if is_written else self.safe.get(inside, b"")
                (to / inside).write_bytes(data)


class Wanted:
    """What has to be there of a history: bytes, and for each whether its leader has synced it."""

    def __init__(self, entries: list[bytes]) -> None:
        self.files: dict[str, bytearray] = {}
        self.is_safe: dict[str, bytearray] = {}
        # The last entry that somebody may have waited for.
        self.safe_seq = 0
        for seq, entry in enumerate(entries, 1):
            for one in decode(entry):
                self._do(one)
                if one.kind in MAKES_SAFE:
                    self.safe_seq = seq

    def _do(self, one: Operation) -> None:
        path = one.path
        if one.kind == CREATE:
            self.files[path], self.is_safe[path] = bytearray(), bytearray()
        elif one.kind == WRITE:
            data, is_safe = self.files[path], self.is_safe[path]
            end = one.number + len(one.data)
            for bytes_ in (data, is_safe):
                bytes_.extend(bytes(max(0, end - len(bytes_))))
            data[one.number : end] = one.data
            is_safe[one.number : end] = bytes(len(one.data))
        elif one.kind == TRUNCATE:
            del self.files[path][one.number :], self.is_safe[path][one.number :]
        elif one.kind == REMOVE:
            del self.files[path], self.is_safe[path]
        elif one.kind == SYNC_FILE:
            self.is_safe[path] = bytearray(b"\1" * len(self.files[path]))

    def check(self, found: dict[str, bytes]) -> None:
        """All that was synced is there, and no file besides."""
        logs = {path: data for path, data in found.items() if data != b"<folder>"}
        assert set(logs) == set(self.files)
        for path, data in self.files.items():
            for at, is_safe in enumerate(self.is_safe[path]):
                assert not is_safe or logs[path][at : at + 1] == data[at : at + 1], (path, at)


def replayed(directory: Path) -> Stored | None:
    position = PositionFile(directory)
    try:
        return replay(directory, position)
    finally:
        position.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = type("Bound", (), {"default": BOUND})
    monkeypatch.setattr(applier_module, "CLUSTER_JOURNAL_BYTES", bound)


@pytest.mark.parametrize("seed", range(4))
def test_what_was_told_is_there_after_a_kill_and_without_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: None, seed: int
) -> None:
    history = History(seed)
    for _ in range(160):
        history.add()
    root = tmp_path / "follower"
    root.mkdir()
    power = Power(root, monkeypatch)
    follower = Follower(root)
    journaled = 0
    for seq, entry in enumerate(history.entries, 1):
        follower.put(seq, entry)
        follower.wait(seq)
        journaled += follower.applier._is_journaling
        if seq % 11 != seed:
            continue
        wanted = Wanted(history.entries[:seq])
        killed = tmp_path / f"killed{seq}"
        shutil.copytree(root, killed)
        assert replayed(killed) == Stored(1, seq, True)
        is_like = {path: bytes(data) for path, data in wanted.files.items()}
        found = contents(killed)
        assert {path: found[path] for path in is_like} == is_like
        for number in range(3):
            dark = tmp_path / f"dark{seq}.{number}"
            power.leaves(dark, history.chance)
            stored = replayed(dark)
            assert stored is not None
            assert wanted.safe_seq <= stored.seq <= seq
            wanted.check(contents(dark))
            assert replayed(dark) == stored, "again, as after a start that was killed itself"
    follower.close()
    assert journaled > 40, "most of it has gone through the journal"
    assert replayed(root) == Stored(1, len(history.entries), True)
    assert contents(root).keys() >= set(Wanted(history.entries).files)


PLAIN = [
    encode([Operation(WRITE, name(1), 4 * at, b"some"), Operation(SYNC_FILE, name(1))])
    for at in range(64)
]
BEGIN = encode([Operation(MAKE_FOLDER, FOLDER), Operation(CREATE, name(1))])


def journaling(root: Path) -> Follower:
    """A follower that has sixteen entries in its journal, and what it has is at 1/27."""
    follower = Follower(root)
    for seq, entry in enumerate([BEGIN, *PLAIN[: IN_A_ROW + 18]], 1):
        follower.put(seq, entry)
    follower.wait(IN_A_ROW + 19)
    assert follower.applier._is_journaling
    return follower


def test_small_entries_are_synced_once_and_in_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = journaling(tmp_path)
    synced: list[str] = []
    real = os.fdatasync

    def fdatasync(handle: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        real(handle)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    for at in range(5):
        follower.put(IN_A_ROW + 20 + at, PLAIN[40 + at])
        follower.wait(IN_A_ROW + 20 + at)
    assert synced == ["journal"] * 5
    assert follower.applier.settle()
    assert synced[5:] == ["1.log", "position"]
    follower.close()
    assert replayed(tmp_path) == Stored(1, IN_A_ROW + 24, True)


def test_a_stop_in_order_leaves_nothing_to_replay(tmp_path: Path) -> None:
    journaling(tmp_path).close()
    assert PositionFile(tmp_path).read() == Stored(1, IN_A_ROW + 19, True)
    (tmp_path / "cluster/journal").unlink()
    assert contents(tmp_path)[name(1)] == b"some" * (IN_A_ROW + 18)


def test_records_of_a_round_before_and_torn_ones_are_passed_over(tmp_path: Path) -> None:
    follower = journaling(tmp_path)
    killed = tmp_path.parent / f"{tmp_path.name}-killed"
    shutil.copytree(tmp_path, killed)
    follower.close()
    base = PositionFile(killed)
    stored = base.read()
    assert stored is not None
    records = list(Journal(killed).read(base.count, stored.seq))
    assert [seq for _, seq, _ in records] == list(range(stored.seq + 1, IN_A_ROW + 20))
    assert not list(Journal(killed).read(base.count + 1, stored.seq)), "of another round"
    assert not list(Journal(killed).read(base.count, stored.seq + 1)), "a gap"
    journal = killed / "cluster/journal"
    data = bytearray(journal.read_bytes())
    second = HEAD_BYTES + len(records[0][2])
    for at in (second, second + 20, second + HEAD_BYTES + 30):
        torn = bytearray(data)
        torn[at] ^= 1
        journal.write_bytes(torn)
        assert list(Journal(killed).read(base.count, stored.seq)) == records[:1], at
    journal.write_bytes(data[: second + 9])
    assert list(Journal(killed).read(base.count, stored.seq)) == records[:1]


def test_a_start_syncs_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many records are in the journal."""
    follower = journaling(tmp_path)
    killed = tmp_path.parent / f"{tmp_path.name}-killed"
    shutil.copytree(tmp_path, killed)
    follower.close()
    synced: list[str] = []
    real = os.fdatasync

    def fdatasync(handle: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        real(handle)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    assert replayed(killed) == Stored(1, IN_A_ROW + 19, True)
    assert synced == ["1.log", "position"]


def test_a_broker_that_wrote_a_position_ends_the_journal(tmp_path: Path) -> None:
    """What a leader's own broker did counts, and not what its node had applied before."""
    follower = journaling(tmp_path)
    killed = tmp_path.parent / f"{tmp_path.name}-killed"
    shutil.copytree(tmp_path, killed)
    follower.close()
    replayed(killed)
    leader = LeaderPosition(killed, 2, 100)
    leader.file.read()
    leader.write(1, must_sync=True)
    (killed / name(1)).write_bytes(b"what the broker wrote")
    assert replayed(killed) == Stored(2, 101, True)
    assert contents(killed)[name(1)] == b"what the broker wrote"
    leader.file.close()


def test_a_node_that_was_killed_leaves_its_cluster_with_what_it_had_told(tmp_path: Path) -> None:
    DataDirectory(tmp_path, "node").close()
    follower = journaling(tmp_path)
    killed = tmp_path.parent / f"{tmp_path.name}-killed"
    shutil.copytree(tmp_path, killed)
    follower.close()
    (killed / name(1)).write_bytes(b"")
    write_state(killed, MemberState(identity="one", cluster_id="c", is_whole=True))
    leave(killed)
    assert contents(killed)[name(1)].endswith(b"some" * 17)
    assert not (killed / "cluster").exists()


def test_a_disk_without_room_for_the_journal_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pwritev(handle: int, parts: list[bytes], at: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    follower = journaling(tmp_path)
    monkeypatch.setattr(os, "pwritev", pwritev)
    follower.put(IN_A_ROW + 20, PLAIN[60])
    wait_until(lambda: follower.failed != "", "the failure")
    assert "is full" in follower.failed
    follower.close()
    monkeypatch.undo()
    assert replayed(tmp_path) == Stored(1, IN_A_ROW + 19, True)
