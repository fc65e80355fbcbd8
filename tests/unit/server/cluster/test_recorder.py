"""What real stores do to a recorded directory is done again elsewhere, byte for byte."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from penstock.replication.operations import Operation, decode
from penstock.server.cluster.child_pipe import ChildPipe
from penstock.server.cluster.follower_files import FollowerFiles
from penstock.server.cluster.pipe import PipeEnded
from penstock.server.cluster.position import LeaderPosition, PositionFile, Stored
from penstock.server.cluster.recorder import PIECE_BYTES, RecordedDirectory, Recorder, put_whole
from penstock.simulation.machine import disk as sim
from penstock.storage.layout.files import File
from penstock.storage.log.roster import ROSTER
from tests.crash import histories
from tests.crash.rig import Rig
from tests.unit.server.cluster.member_bed import Member, contents, wait_until

FOLDER = "vhosts/one/persistent"


class Bed:
    """A leader's directory, recorded, and a member that takes the entries."""

    def __init__(self, folder: Path, kind: type[ChildPipe] = ChildPipe) -> None:
        self.root = folder / "leader"
        (self.root / "vhosts" / "one").mkdir(parents=True)
        ours, theirs = socket.socketpair()
        self.member = Member(theirs)
        self.pipe = kind(ours)
        self.recorder = Recorder(self.root, self.pipe)
        self.directory = RecordedDirectory(self.root / FOLDER, self.recorder, None)

    def operations(self) -> list[Operation]:
        with self.recorder.working():
            pass
        wait_until(lambda: self.member.count == self.pipe.sent, "every entry")
        return [one for entry in self.member.entries for one in decode(entry)]

    def close(self) -> None:
        self.pipe.close()
        self.member.close()


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    made = Bed(tmp_path)
    yield made
    made.close()


def replay(
    ops: list[sim.Op], directory: RecordedDirectory, files: dict[int, File], names: dict[int, str]
) -> None:
    """Do to `directory` what was done to a simulated disk. names: of `files`, as they are now."""
    for op in ops:
        if op.kind == sim.CREATE:
            files[op.node] = directory.create(op.name)
            names[op.node] = op.name
        elif op.kind == sim.WRITE:
            assert files[op.node].write(op.at, op.data) == len(op.data)
        elif op.kind == sim.TRUNCATE:
            files[op.node].truncate(op.at)
        elif op.kind == sim.SYNC:
            files[op.node].sync()
        elif op.kind == sim.REMOVE:
            directory.remove(op.name)
            for node in [one for one, name in names.items() if name == op.name]:
                del names[node]
        elif op.kind == sim.RENAME:
            directory.rename(op.name, op.new_name)
            # As the store does: nobody goes on with a handle of the name before.
            [moved] = [node for node, name in names.items() if name == op.name]
            names[moved] = op.new_name
            files[moved] = directory.open(op.new_name)
        else:
            directory.sync()


class WithoutSpares(Rig):
    """As a node of a cluster has it."""

    def __init__(self, *args: object, **named: object) -> None:
        super().__init__(*args, **{**named, "spares_max": 0})  # type: ignore[arg-type]


WITHOUT_SPARES = [name for name in histories.HISTORIES if not name.startswith("reused")]


@pytest.mark.parametrize("name", WITHOUT_SPARES)
def test_every_prefix_of_a_history_is_a_directory_that_opens(
    name: str, bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each operation the follower's files are the leader's at that point, and recovery finds
    in them everything that was confirmed by then."""
    monkeypatch.setattr(histories, "Rig", WithoutSpares)
    life = histories.HISTORIES[name]()
    files: dict[int, File] = {}
    names: dict[int, str] = {}
    for node, (file_name, data) in enumerate(life.disk.image.items()):
        files[node] = bed.directory.create(file_name)
        names[node] = file_name
        files[node].write(0, data)
    root = bed.root / FOLDER
    begun = len(bed.operations())
    images = [{path.name: path.read_bytes() for path in root.iterdir()}]
    for op in life.disk.ops:
        replay([op], bed.directory, files, names)
        images.append({path.name: path.read_bytes() for path in root.iterdir()})
    assert len(images) > 10
    follower = FollowerFiles(tmp_path / "follower")
    follower.root.mkdir()
    expected = life.start.copy()
    waiting = list(reversed(life.events))
    at = 0
    for number, one in enumerate(bed.operations()):
        follower.apply(one)
        if number + 1 < begun:
            continue
        here = {path.name: path.read_bytes() for path in (follower.root / FOLDER).iterdir()}
        if f"{ROSTER}.new" in here:
            # A renaming is recorded as a removal, a copy and another removal; a store whose roster
            # is in the middle of that is one without.
            continue
        while at < len(images) and images[at] != here:
            at += 1
        assert at < len(images), f"{one.kind} {one.path}: no state that the leader had"
        while waiting and waiting[-1][0] <= at:
            _, kind, entries = waiting.pop()
            expected.happened(kind, entries, life.bodies)
        life.check(here, expected)
    assert contents(follower.root) == contents(bed.root)
    follower.close()


def test_a_long_write_is_several_operations(bed: Bed) -> None:
    file = bed.directory.create("long")
    data = bytes(range(256)) * (PIECE_BYTES // 100)
    assert file.write_parts(5, [data[:1000], data[1000:]]) == len(data)
    written = [one for one in bed.operations() if one.data]
    assert len(written) > 2
    assert b"".join(one.data for one in written) == data
    assert [one.number for one in written] == [5 + n * PIECE_BYTES for n in range(len(written))]


def test_an_entry_leaves_before_the_sync_that_it_ends_with(bed: Bed) -> None:
    seen: list[int] = []

    class Watched(File):
        def sync(self) -> None:
            wait_until(lambda: bed.member.count > 1, "the entry")
            seen.append(bed.member.count)

    file = bed.directory.create("one.log")
    before = bed.member.count
    file._file = Watched()  # type: ignore[attr-defined]
    file.sync()
    assert seen == [before + 1]


def test_publishes_leave_with_the_entry_behind_what_was_written_of_them(bed: Bed) -> None:
    file = bed.directory.create("one.log")
    data = b"x" * (3 * PIECE_BYTES)
    file.write(0, data)
    bed.directory.note_publishes(b"first ")
    bed.directory.note_publishes(b"second")
    file.sync()
    file.write(len(data), b"more")
    bed.operations()
    ((before, said),) = bed.member.publishes
    assert said == b"first second"
    entries = bed.member.entries[: before + 1]
    written = sum(len(one.data) for entry in entries for one in decode(entry))
    assert written == len(data), "all of it, and nothing behind it"


def test_without_a_member_nothing_is_changed(bed: Bed) -> None:
    file = bed.directory.create("one.log")
    file.write(0, b"before")
    bed.member.close()
    wait_until(lambda: not bed.pipe.receive() and bed.pipe.ended != "", "the end")
    before = contents(bed.root)
    for attempt in (
        lambda: file.write(6, b"after"),
        lambda: file.truncate(0),
        lambda: bed.directory.create("two.log"),
        lambda: bed.directory.remove("one.log"),
        lambda: bed.directory.rename("one.log", "three.log"),
        lambda: put_whole(bed.root / "CLEAN", b"", bed.recorder),
    ):
        with pytest.raises(PipeEnded):
            attempt()
    assert contents(bed.root) == before


def test_what_is_done_counts_when_everybody_is_through(bed: Bed) -> None:
    """DONE never covers an entry of a job that is still at work, whoever sends it."""
    recorder = bed.recorder
    recorder.begin()
    file = bed.directory.create("one.log")
    file.sync()

    def other() -> None:
        with recorder.working():
            put_whole(bed.root / "CLEAN", b"", recorder)

    thread = Thread(target=other)
    thread.start()
    thread.join()
    wait_until(lambda: bed.member.count >= bed.pipe.sent, "entries")
    sent = bed.pipe.sent
    assert bed.member.done() < sent
    assert recorder.end() == sent
    wait_until(lambda: bed.member.done() == sent, "done")


def leading(bed: Bed, epoch: int = 7, base: int = 100) -> PositionFile:
    """Have the bed's broker lead, in an epoch of its own; what says how far its directory is."""
    position = LeaderPosition(bed.root, epoch, base)
    bed.recorder.position = position
    return position.file


class Looking(ChildPipe):
    """Looks at the position whenever it says how far the directory is."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.root = Path()
        self.told: list[tuple[Stored | None, int]] = []

    def send_done(self, count: int) -> None:
        self.told.append((PositionFile(self.root).read(), count))
        super().send_done(count)


def test_the_position_is_written_before_anybody_is_told_of_it(tmp_path: Path) -> None:
    bed = Bed(tmp_path, Looking)
    pipe = bed.pipe
    assert isinstance(pipe, Looking)
    pipe.root = bed.root
    written = leading(bed)
    for number in range(3):
        with bed.recorder.working():
            put_whole(bed.root / "CLEAN", bytes([number]), bed.recorder)
    wait_until(lambda: bed.member.done() == pipe.sent, "done")
    assert [count for _, count in pipe.told] == list(range(pipe.sent - 2, pipe.sent + 1))
    assert [one for one, _ in pipe.told] == [Stored(7, 100 + count, True) for _, count in pipe.told]
    written.close()
    bed.close()


def test_a_position_is_synced_only_where_somebody_waits_for_it(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = leading(bed)
    file = bed.directory.create("one.log")
    with bed.recorder.working():
        file.sync()
    synced: list[int] = []
    real = os.fdatasync

    def counted(fd: int) -> None:
        synced.append(fd)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", counted)
    with bed.recorder.working():
        file.write(0, b"nobody waits for it")
    assert synced == []
    sent = bed.pipe.sent
    assert PositionFile(bed.root).read() == Stored(7, 100 + sent, True)
    with bed.recorder.working():
        file.write(19, b", and now somebody does")
        file.sync()
    assert len([fd for fd in synced if fd == written._handle]) == 1
    written.close()


def test_a_position_that_cannot_be_written_ends_the_broker(bed: Bed) -> None:
    written = leading(bed)
    with bed.recorder.working():
        put_whole(bed.root / "CLEAN", b"1", bed.recorder)
    wait_until(lambda: bed.member.done() == bed.pipe.sent, "done")
    before = bed.member.done()
    written.close()
    (bed.root / "cluster" / "position").unlink()
    (bed.root / "cluster").rmdir()
    (bed.root / "cluster").write_bytes(b"no folder")
    with pytest.raises(PipeEnded, match="position"), bed.recorder.working():
        put_whole(bed.root / "CLEAN", b"2", bed.recorder)
    assert bed.member.done() == before
    assert "position" in bed.pipe.ended
