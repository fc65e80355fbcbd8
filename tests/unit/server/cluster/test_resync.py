"""A directory is copied while its owner writes: the copy is what the leader had, byte for byte."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from penstock.broker.vhost.catalogue_rows import BindingRow, CatalogueChange, StoredQueue, VhostRow
from penstock.replication.operations import OperationFault, decode
from penstock.server.cluster import resync, resync_rows, resync_source
from penstock.server.cluster.catalogue_replica import RecordedDb
from penstock.server.cluster.child_pipe import ChildPipe
from penstock.server.cluster.follower_files import DATABASE
from penstock.server.cluster.position import PositionFile, Stored
from penstock.server.cluster.recorder import (
    RecordedDirectory,
    Recorder,
    make_folder,
    put_whole,
    take_away,
)
from penstock.server.cluster.resync import ResyncReport, run_resync
from penstock.server.cluster.resync_rows import ResyncFault
from penstock.server.cluster.resync_source import ResyncSource
from penstock.storage.layout.files import File
from tests.unit.server.cluster.member_bed import Follower, contents

RANGE = 4096
EPOCH = 5


class KeptPipe(ChildPipe):
    """Keeps entries instead of sending them: there is nobody at the other end."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.sent = 0
        self.unsafe_bytes = 0

    def check(self) -> None:
        pass

    def send_entry(self, parts: list[bytes], publishes: bytes = b"") -> int:
        self.entries.append(b"".join(parts))
        self.sent += 1
        return self.sent

    def send_done(self, count: int) -> None:
        pass

    def wait_room(self) -> None:
        pass


class Writer:
    """A leader that goes on: files written, cut, made and removed, marks, folders, rows."""

    def __init__(self, root: Path, seed: int) -> None:
        root.mkdir(exist_ok=True)
        self.root = root
        self.chance = Random(seed)
        self.pipe = KeptPipe()
        self.recorder = Recorder(root, self.pipe)
        for name in ("vhosts", "vhosts/one", "vhosts/two"):
            make_folder(root / name, self.recorder)
        self.folders = [
            RecordedDirectory(root / name / "persistent", self.recorder, None)
            for name in ("vhosts/one", "vhosts/two")
        ]
        self.files: dict[tuple[int, str], File] = {}
        self.number = 0
        self.db = RecordedDb(root / DATABASE, self.recorder)
        self.queues: list[StoredQueue] = []
        self.queue_id = 0

    def step(self) -> None:
        """One thing, drawn."""
        with self.recorder.working():
            self._step()

    def _step(self) -> None:
        chance = self.chance
        what = chance.randrange(14)
        keys = sorted(self.files)
        if what < 2 or not keys:
            where = chance.randrange(2)
            self.number += 1
            name = f"{self.number:010}.log"
            self.files[where, name] = self.folders[where].create(name)
        elif what < 7:
            file = self.files[chance.choice(keys)]
            at = chance.randrange(file.size() + 1) if chance.randrange(2) else file.size()
            file.write_parts(at, [chance.randbytes(chance.randrange(3 * RANGE)), b"end"])
        elif what == 7:
            file = self.files[chance.choice(keys)]
            file.truncate(chance.randrange(file.size() + 1))
        elif what == 8:
            self.files[chance.choice(keys)].sync()
        elif what == 9:
            where, name = chance.choice(keys)
            self.files.pop((where, name)).close()
            if chance.randrange(3):
                self.folders[where].remove(name)
            else:
                self.folders[where].rename(name, name + ".damaged")
            self.folders[where].sync()
        elif what == 10:
            mark = self.root / "vhosts" / chance.choice(("one", "two")) / "CLEAN"
            if mark.exists():
                take_away(mark, self.recorder)
            else:
                put_whole(mark, chance.randbytes(3), self.recorder)
        else:
            self._change_rows()

    def _change_rows(self) -> None:
        chance = self.chance
        changes: list[CatalogueChange] = []
        if self.queues and chance.randrange(3) == 0:
            changes.append(
                CatalogueChange(False, self.queues.pop(chance.randrange(len(self.queues))))
            )
        for _ in range(chance.randrange(1, 3)):
            self.queue_id += 1
            queue = StoredQueue(self.queue_id, "/", f"q{self.queue_id}", False, b"")
            self.queues.append(queue)
            changes.append(CatalogueChange(True, queue))
            binding = BindingRow("/", "amq.fanout", False, queue.name, "", b"{}", b"")
            changes.append(CatalogueChange(True, binding))
        changes.append(CatalogueChange(bool(chance.randrange(2)), VhostRow("more")))
        self.db.apply(self.db.applied, tuple(changes))

    def close(self) -> None:
        for file in self.files.values():
            file.close()
        self.db.close()


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row of a database, and the highest number that was ever given."""
    db = sqlite3.connect(path)
    tables = ("vhosts", "users", "exchanges", "queues", "bindings", "parameters", "sqlite_sequence")
    found = {name: list(db.execute(f"SELECT * FROM {name} ORDER BY 1, 2")) for name in tables}
    found["sqlite_sequence"] = [row for row in found["sqlite_sequence"] if row[0] == "queues"]
    db.close()
    return found


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (resync_rows, resync, resync_source):
        monkeypatch.setattr(module, "RANGE", RANGE)
    bound = type("Bound", (), {"default": 3 * RANGE, "highest": 1 << 24})
    monkeypatch.setattr(resync_source, "RESYNC_HASHED_BYTES", bound)
    monkeypatch.setattr(
        resync_source, "RESYNC_PAGE_ROWS", type("Bound", (), {"default": 5, "highest": 100})
    )


class BrokenOff(OSError):
    """The follower is gone."""


def copy(
    writer: Writer, follower: Path, steps: int, between: Callable[[int], None] | None = None
) -> tuple[ResyncReport, int]:
    """A resync during which the writer goes on for `steps` at every question: what was done, and
    the entry at which it began."""
    source = ResyncSource(writer.root)
    begin = writer.pipe.sent
    asked = 0

    def ask(question: bytes) -> bytes:
        nonlocal asked
        asked += 1
        for _ in range(writer.chance.randrange(steps + 1)):
            writer.step()
        answer = source.answer(question)
        for _ in range(writer.chance.randrange(steps + 1)):
            writer.step()
        if between is not None:
            between(asked)
        return answer

    report = run_resync(follower, PositionFile(follower), EPOCH, begin, ask)
    return report, begin


def follow(writer: Writer, directory: Path, begin: int) -> None:
    """Apply what came since, and become whole."""
    follower = Follower(directory, is_whole=False)
    end = writer.pipe.sent
    follower.applier.whole_at(EPOCH, end)
    for seq in range(begin + 1, end + 1):
        stored = follower.position.read() if seq < end - 1 else None
        assert stored is None or not stored.is_whole
        follower.put(seq, writer.pipe.entries[seq - 1], EPOCH)
    follower.wait(end)
    follower.close()
    assert PositionFile(directory).read() == Stored(EPOCH, end, True)


def differences(writer: Writer, directory: Path) -> list[str]:
    """Files, folders and tables that are not as the leader's. Names only: where CI is set, pytest
    would look for what two dictionaries of files have in common byte by byte, for minutes."""
    found: list[str] = []
    for here, there in (
        (contents(directory), contents(writer.root)),
        (rows(directory / DATABASE), rows(writer.root / DATABASE)),
    ):
        names = sorted({*here, *there})
        found += [name for name in names if here.get(name) != there.get(name)]
    return found


def check_same(writer: Writer, directory: Path) -> None:
    assert differences(writer, directory) == []


@pytest.mark.parametrize("seed", range(10))
def test_a_copy_of_a_directory_in_use(seed: int, tmp_path: Path) -> None:
    """The follower has older things, and things of its own; it dies at a drawn question first."""
    writer = Writer(tmp_path / "leader", seed)
    directory = tmp_path / "follower"
    directory.mkdir()
    for _ in range(60):
        writer.step()
    if seed % 2:
        _, begin = copy(writer, directory, 0)
        follow(writer, directory, begin)
        check_same(writer, directory)
        for _ in range(40):
            writer.step()
    (directory / "vhosts" / "three").mkdir(parents=True)
    (directory / "vhosts" / "three" / "stray.log").write_bytes(b"of another life")
    (directory / "cluster").mkdir(exist_ok=True)
    (directory / "cluster" / "identity").write_bytes(b"mine")
    last = writer.chance.randrange(1, 12)

    def dies(asked: int) -> None:
        if asked >= last:
            raise BrokenOff("gone")

    try:
        copy(writer, directory, 3, dies)
    except BrokenOff:
        stored = PositionFile(directory).read()
        assert stored is not None
        assert not stored.is_whole
    report, begin = copy(writer, directory, 3)
    assert report.files > 0
    for _ in range(20):
        writer.step()
    follow(writer, directory, begin)
    check_same(writer, directory)
    assert (directory / "cluster" / "identity").read_bytes() == b"mine"
    writer.close()


def test_what_is_there_already_is_not_fetched(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "leader", 1)
    for _ in range(150):
        writer.step()
    directory = tmp_path / "follower"
    directory.mkdir()
    first, begin = copy(writer, directory, 0)
    follow(writer, directory, begin)
    assert first.bytes_copied > 20 * RANGE
    again, begin = copy(writer, directory, 0)
    assert again.bytes_copied == 0
    assert again.bytes_same == sum(
        len(data) for data in contents(writer.root).values() if data != b"<folder>"
    )
    path = next(
        one
        for one in sorted((directory / "vhosts").rglob("*.log"))
        if one.stat().st_size > 3 * RANGE
    )
    data = bytearray(path.read_bytes())
    data[2 * RANGE] ^= 1
    path.write_bytes(bytes(data))
    third, begin = copy(writer, directory, 0)
    assert third.bytes_copied == RANGE
    follow(writer, directory, begin)
    check_same(writer, directory)
    writer.close()


def test_the_folder_of_a_leader_may_have_any_name(tmp_path: Path) -> None:
    """Some characters mean something in the URI by which its catalogue is read."""
    for name in ("a#b", "a?b", "a%20b", "ä ö"):
        writer = Writer(tmp_path / name, 4)
        for _ in range(40):
            writer.step()
        directory = tmp_path / f"follower of {name}"
        directory.mkdir()
        _, begin = copy(writer, directory, 4)
        follow(writer, directory, begin)
        check_same(writer, directory)
        writer.close()


def test_a_bug_of_the_copy_is_found(tmp_path: Path) -> None:
    """Planted: entries from the end of the copy on, instead of from its beginning."""
    found = 0
    for seed in range(6):
        folder = tmp_path / str(seed)
        folder.mkdir()
        writer = Writer(folder / "leader", seed)
        for _ in range(60):
            writer.step()
        directory = folder / "follower"
        directory.mkdir()
        copy(writer, directory, 4)
        position = PositionFile(directory)
        position.write(EPOCH, writer.pipe.sent, False)
        position.close()
        follow(writer, directory, writer.pipe.sent)
        found += bool(differences(writer, directory))
        writer.close()
    assert found >= 3


def test_its_pace_is_bounded(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "leader", 2)
    file = writer.folders[0].create("big.log")
    file.write(0, Random(1).randbytes(50 * RANGE))
    directory = tmp_path / "follower"
    directory.mkdir()
    source = ResyncSource(writer.root)
    began = time.monotonic()
    run_resync(directory, PositionFile(directory), 1, 0, source.answer, 400_000)
    assert time.monotonic() - began > 50 * RANGE / 400_000 * 0.8
    file.close()
    writer.close()


def test_it_can_be_broken_off(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "leader", 2)
    directory = tmp_path / "follower"
    directory.mkdir()
    source = ResyncSource(writer.root)
    with pytest.raises(OSError, match="broken off"):
        run_resync(directory, PositionFile(directory), 1, 0, source.answer, 0, lambda: True)
    writer.close()


def test_nothing_leads_out_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "leader").mkdir()
    directory = tmp_path / "follower"
    directory.mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    source = ResyncSource(tmp_path / "leader")
    for path in ("../secret", "/etc/passwd", "lock", "cluster/position", "metadata.sqlite"):
        question = resync_rows.RangesAsk([resync_rows.Range(path, 0, 10)])
        with pytest.raises(ResyncFault):
            source.answer(resync_rows.encode(question))
        page = resync_rows.ManifestPage([resync_rows.FileRow(path, 10, 0, [bytes(16)])], "", 0)
        answer = resync_rows.encode(page)
        with pytest.raises(OperationFault):
            run_resync(directory, PositionFile(directory), 1, 0, lambda _, one=answer: one)  # type: ignore[misc]
    for noise in (b"", b"\xc1", b"\x80", resync_rows.encode(resync_rows.RowsPage(b"", True))):
        with pytest.raises(ResyncFault):
            source.answer(noise)


def test_entries_of_a_writer_can_be_read(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "leader", 3)
    for _ in range(50):
        writer.step()
    assert sum(1 for entry in writer.pipe.entries for _ in decode(entry)) > 50
    writer.close()
