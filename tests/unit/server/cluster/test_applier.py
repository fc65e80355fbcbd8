"""A follower applies in order, says what is safe, and says in words what is wrong."""

import errno
import os
from pathlib import Path
from threading import Event, Thread

import pytest

from penstock.replication.operations import (
    CREATE,
    MAKE_FOLDER,
    REMOVE,
    REMOVE_FOLDER,
    SYNC_FILE,
    TRUNCATE,
    WHOLE,
    WRITE,
    Operation,
    encode,
)
from penstock.server.cluster import applier as applier_module
from penstock.server.cluster.follower_files import FollowerFiles, is_own
from penstock.server.cluster.position import PositionFile, Stored
from tests.unit.server.cluster.member_bed import Follower, contents, wait_until

LOG = "vhosts/one/persistent/1.log"
BEGIN = [
    Operation(MAKE_FOLDER, "vhosts/one/persistent"),
    Operation(CREATE, LOG),
    Operation(WRITE, LOG, 0, b"one "),
    Operation(WRITE, LOG, 4, b"two"),
    Operation(SYNC_FILE, LOG),
]


def test_entries_are_applied_and_told(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    follower.put(1, encode(BEGIN))
    follower.put(2, encode([Operation(WHOLE, "INVENTORY", 0, b"what there is")]))
    follower.put(3, encode([Operation(TRUNCATE, LOG, 3)]))
    follower.wait(3)
    follower.close()
    assert contents(tmp_path)[LOG] == b"one"
    assert contents(tmp_path)["INVENTORY"] == b"what there is"
    assert PositionFile(tmp_path).read() == Stored(1, 3, True)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of files, as they are synced."""
    found: list[str] = []
    real = os.fdatasync

    def fdatasync(handle: int) -> None:
        found.append(os.readlink(f"/proc/self/fd/{handle}").rpartition("/")[2])
        real(handle)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    return found


def test_it_is_told_when_data_and_position_are_safe(tmp_path: Path, synced: list[str]) -> None:
    follower = Follower(tmp_path)
    synced.clear()
    at_tell: list[list[str]] = []
    follower.on_told = lambda _: at_tell.append(list(synced))
    follower.put(1, encode(BEGIN))
    follower.wait(1)
    follower.close()
    assert at_tell == [["1.log", "position"]]


def test_who_waits_until_all_is_safe_has_what_the_leader_did_not_sync(
    tmp_path: Path, synced: list[str]
) -> None:
    """Acknowledgements: the member's state says after a stop in order that all of it is there."""
    follower = Follower(tmp_path)
    follower.put(1, encode(BEGIN))
    follower.put(2, encode([Operation(WRITE, LOG.replace(".log", ".acks"), 0, b"settled")]))
    follower.wait(2)
    assert "1.acks" not in synced
    assert follower.applier.settle()
    assert synced[-2:] == ["1.acks", "position"]
    assert follower.applier.settle(), "again, with nothing to do"
    follower.close()
    assert not follower.applier.settle(), "nobody does it any more"


def test_who_waits_until_all_is_safe_hears_when_it_never_will_be(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    goes_on = Event()
    real = follower.applier._files.apply

    def slow(one: Operation) -> None:
        goes_on.wait()
        real(one)

    follower.applier._files.apply = slow  # type: ignore[method-assign]
    damaged = bytearray(encode(BEGIN))
    damaged[-1] ^= 1
    follower.put(1, encode(BEGIN))
    follower.put(2, bytes(damaged))
    found: list[bool] = []
    thread = Thread(target=lambda: found.append(follower.applier.settle()))
    thread.start()
    goes_on.set()
    thread.join()
    assert found == [False]
    wait_until(lambda: follower.failed != "", "the failure")
    follower.close()


def test_applying_again_changes_nothing(tmp_path: Path) -> None:
    """Every suffix of a history, done again on what all of it has left."""
    other = "vhosts/one/persistent/2.log"
    history = [
        *BEGIN,
        Operation(CREATE, other),
        Operation(WRITE, other, 10, b"gap before"),
        Operation(REMOVE, LOG),
        Operation(CREATE, LOG),
        Operation(WRITE, LOG, 0, b"second life"),
        Operation(TRUNCATE, other, 12),
        Operation(MAKE_FOLDER, "vhosts/two"),
        Operation(WHOLE, "vhosts/two/CLEAN", 0, b""),
        Operation(REMOVE_FOLDER, "vhosts/two"),
    ]
    files = FollowerFiles(tmp_path)
    for one in history:
        files.apply(one)
    wanted = contents(tmp_path)
    assert wanted[LOG] == b"second life"
    assert wanted[other] == bytes(10) + b"ga"
    for begin in range(len(history)):
        for one in history[begin:]:
            files.apply(one)
        assert contents(tmp_path) == wanted, begin
    files.close()


def test_what_is_of_each_node_alone_is_not_touched(tmp_path: Path) -> None:
    for path in (
        "lock",
        "cluster/position",
        "metadata.sqlite",
        "metadata.sqlite-wal",
        "audit.jsonl",
        "parked/1.parked",
        "vhosts/one/transient/1.log",
        ".penstock-reserve",
    ):
        assert is_own(path), path
        follower = Follower(tmp_path)
        follower.put(1, encode([Operation(CREATE, path)]))
        wait_until(lambda seen=follower: seen.failed != "", "a refusal")  # type: ignore[misc]
        assert "belongs to each node alone" in follower.failed
        follower.close()
    for path in ("VERSION", "INVENTORY", LOG, "vhosts/transient/persistent/1.log", "x/cluster"):
        assert not is_own(path), path


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "is full"), (errno.EIO, "look at the disk")]
)
def test_a_disk_that_takes_nothing_is_told_once_and_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    follower = Follower(tmp_path)
    follower.put(1, encode(BEGIN))
    follower.wait(1)

    def pwrite(handle: int, data: bytes, at: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwrite", pwrite)
    follower.put(2, encode([Operation(WRITE, LOG, 7, b" three"), Operation(SYNC_FILE, LOG)]))
    wait_until(lambda: follower.failed != "", "the failure")
    assert words in follower.failed
    assert str(tmp_path) in follower.failed
    assert not follower.applier.put(1, 3, b"")
    follower.close()
    monkeypatch.undo()
    assert PositionFile(tmp_path).read() == Stored(1, 1, True)
    again = Follower(tmp_path)
    again.put(2, encode([Operation(WRITE, LOG, 7, b" three"), Operation(SYNC_FILE, LOG)]))
    again.wait(2)
    again.close()
    assert contents(tmp_path)[LOG] == b"one two three"


def test_a_damaged_entry_changes_nothing(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    entry = bytearray(encode(BEGIN))
    entry[-1] ^= 1
    follower.put(1, bytes(entry))
    wait_until(lambda: follower.failed != "", "the failure")
    assert "checksum" in follower.failed
    follower.close()
    assert contents(tmp_path) == {}


def test_no_more_waits_than_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = Event()
    real = FollowerFiles.apply

    def slow(self: FollowerFiles, one: Operation) -> None:
        goes_on.wait()
        real(self, one)

    monkeypatch.setattr(FollowerFiles, "apply", slow)
    monkeypatch.setattr(
        applier_module, "CLUSTER_APPLY_BYTES", type("Bound", (), {"default": 10_000})
    )
    follower = Follower(tmp_path)
    entry = encode([Operation(WRITE, LOG, 0, bytes(4000))])
    taken = [follower.applier.put(1, number, entry) for number in range(1, 6)]
    assert taken == [True, True, False, False, False]
    goes_on.set()
    follower.wait(2)
    assert follower.applier.put(1, 3, entry)
    follower.wait(3)
    follower.close()


def test_a_copy_becomes_whole_where_it_is_told_to(tmp_path: Path) -> None:
    follower = Follower(tmp_path, is_whole=False)
    follower.applier.whole_at(1, 2)
    follower.put(1, encode(BEGIN))
    follower.wait(1)
    found = PositionFile(tmp_path).read()
    assert found is None or not found.is_whole
    follower.put(2, encode([Operation(WRITE, LOG, 7, b"!")]))
    follower.put(3, encode([Operation(WRITE, LOG, 8, b"!")]))
    follower.wait(3)
    follower.close()
    assert PositionFile(tmp_path).read() == Stored(1, 3, True)
