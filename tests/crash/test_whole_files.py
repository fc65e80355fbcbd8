"""Files that are written as a whole – exported definitions, VERSION, the mark of a clean stop – in
every state in which a crash may leave them (row F8).

The real calls are made and written down as the simulated disk has them; a crash then is any of the
states that `simulation/machine/crash` finds in that record.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from penstock.server.disk.whole_file import write_whole
from penstock.simulation.machine.crash import Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import (
    CREATE,
    REMOVE,
    RENAME,
    SYNC,
    SYNC_DIRECTORY,
    WRITE,
    Op,
    SimDisk,
)

NAME = "definitions.json"
OLD, NEW, OTHER = b"old" * 50, b"new" * 90, b"other" * 70


class Written:
    """disk: the record of what is done in a folder that has one file, OLD. at_call: called with the
    number of each call before it is made. deaf: kinds of operations that are not written down."""

    def __init__(self, patch: pytest.MonkeyPatch, deaf: tuple[int, ...] = ()) -> None:
        self.disk = SimDisk({NAME: OLD})
        self.deaf = deaf
        self.calls = 0
        self.at_call: Callable[[int], None] = lambda number: None
        self._names: dict[str, int] = {NAME: 0}
        self._open: dict[int, list[int]] = {}
        self._make, self._write, self._sync = tempfile.mkstemp, os.write, os.fsync
        self._close, self._replace, self._unlink = os.close, os.replace, os.unlink
        patch.setattr(tempfile, "mkstemp", self.make)
        patch.setattr(os, "write", self.write)
        patch.setattr(os, "fsync", self.sync)
        patch.setattr(os, "close", self.close)
        patch.setattr(os, "replace", self.replace)
        patch.setattr(os, "unlink", self.unlink)

    def _did(self, op: Op) -> None:
        if op.kind not in self.deaf:
            self.disk.ops.append(op)

    def _call(self) -> None:
        self.calls += 1
        self.at_call(self.calls)

    def make(self, prefix: str, dir: Path) -> tuple[int, str]:
        self._call()
        handle, name = self._make(prefix=prefix, dir=dir)
        node = len(self._names)
        self._names[os.path.basename(name)] = node
        self._open[handle] = [node, 0]
        self._did(Op(CREATE, node, name=os.path.basename(name)))
        return handle, name

    def write(self, handle: int, data: bytes) -> int:
        """A little at a time, as on a disk that is filling up."""
        self._call()
        taken = self._write(handle, bytes(data[:100]))
        node, at = self._open[handle]
        self._did(Op(WRITE, node, at, bytes(data[:taken])))
        self._open[handle][1] += taken
        return taken

    def sync(self, handle: int) -> None:
        self._call()
        self._sync(handle)
        if handle in self._open:
            self._did(Op(SYNC, self._open[handle][0]))
        else:
            self._did(Op(SYNC_DIRECTORY))

    def close(self, handle: int) -> None:
        self._open.pop(handle, None)
        self._close(handle)

    def replace(self, old: str, new: Path) -> None:
        self._call()
        self._replace(old, new)
        name = os.path.basename(old)
        self._did(Op(RENAME, self._names[name], name=name, new_name=new.name))

    def unlink(self, path: str) -> None:
        self._call()
        self._unlink(path)
        name = os.path.basename(path)
        self._did(Op(REMOVE, self._names[name], name=name))


def check_states(written: Written, allowed: list[tuple[int, set[bytes]]]) -> int:
    """In every state the file is one of those allowed there; how many states. allowed: from which
    number of operations on, ascending, which contents may be there."""
    replay = Replay(written.disk)
    dice = Dice(3)
    count = 0
    while True:
        may_be = [contents for start, contents in allowed if start <= replay.at][-1]
        for image in replay.states(dice, 10):
            count += 1
            assert image[NAME] in may_be, f"after operation {replay.at}: {image[NAME][:20]!r}"
        if not replay.step():
            return count


def save(folder: Path, data: bytes) -> None:
    write_whole(folder / NAME, data)


def saved(folder: Path, written: Written) -> int:
    (folder / NAME).write_bytes(OLD)
    save(folder, NEW)
    assert (folder / NAME).read_bytes() == NEW
    return check_states(written, [(0, {OLD, NEW}), (len(written.disk.ops), {NEW})])


def test_f08_a_crash_leaves_the_old_or_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert saved(tmp_path, Written(monkeypatch)) > 60


@pytest.mark.parametrize("kind", [SYNC, SYNC_DIRECTORY], ids=["file", "directory"])
def test_f08_a_sync_that_is_missing_would_be_found(
    kind: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AssertionError, match="after operation"):
        saved(tmp_path, Written(monkeypatch, (kind,)))


@pytest.mark.parametrize("call", range(1, 8))
def test_f08_two_at_once_both_succeed(
    call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole other save happens between any two calls of the first; the one that took its place
    last is there in the end, whole, and nothing else is left."""
    written = Written(monkeypatch)
    (tmp_path / NAME).write_bytes(OLD)
    others: list[Thread] = []

    def interrupt(number: int) -> None:
        if number == call and not others:
            others.append(Thread(target=save, args=(tmp_path, OTHER)))
            others[0].start()
            others[0].join()

    written.at_call = interrupt
    save(tmp_path, NEW)
    assert others, "the other one came in between"
    last = [op for op in written.disk.ops if op.kind == RENAME][-1]
    ends = (tmp_path / NAME).read_bytes()
    assert ends == (OTHER if last.node == written_by(written, OTHER) else NEW)
    assert os.listdir(tmp_path) == [NAME]
    assert check_states(written, [(0, {OLD, NEW, OTHER}), (len(written.disk.ops), {ends})]) > 100


def written_by(written: Written, data: bytes) -> int:
    """The node that got `data`."""
    return next(
        op.node for op in written.disk.ops if op.kind == WRITE and op.at == 0
        and op.data == data[:100]
    )  # fmt: skip
