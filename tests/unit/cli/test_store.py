"""`penstock store` on directories that brokers left, whole, crashed and damaged."""

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.base.errors import OperatorError
from penstock.broker.vhost.catalogue_rows import CatalogueChange, StoredQueue
from penstock.cli.store import store
from penstock.server.disk.data_directory import (
    DataDirectory,
    leave_clean,
    mark_unsynced,
    vhost_folder,
)
from penstock.server.disk.disk_files import DiskDirectory
from penstock.server.disk.metadata_db import MetadataDb
from penstock.simulation.machine.dice import Dice
from penstock.storage.log.log import MessageLog
from penstock.streams.batch import StreamBatch
from penstock.streams.handles import StreamHandles
from penstock.streams.log import Retention, StreamLog
from tests.crash.life import message
from tests.unit.storage.making import fill, flush

NOW_S = 1_700_000_000


class Left:
    """A directory that a broker has left: queue orders with ten messages of sixty, bills with five,
    and five of a queue that was deleted."""

    def __init__(self, folder: Path, is_clean: bool = True) -> None:
        self.path = folder / "data"
        directory = DataDirectory(self.path, "test")
        database = MetadataDb(directory.metadata)
        rows = (
            StoredQueue(1, "/", "orders"),
            StoredQueue(2, "/", "bills"),
            StoredQueue(3, "/", "gone"),
        )
        database.apply(0, tuple(CatalogueChange(True, row) for row in rows))
        database.apply(3, (CatalogueChange(False, rows[2]),))
        database.close()
        self.store = directory.vhost("/")
        log = MessageLog(DiskDirectory(str(self.store / "persistent")), Dice(1), 4096)
        orders, bills, gone = (log.open_queue(number) for number in (1, 2, 3))
        fill(log, bills, 5)
        fill(log, gone, 5)
        fill(log, orders, 60)
        flush(log)
        for position in range(1, 61):
            if position % 6:
                log.settle(orders, position)
        if is_clean:
            log.take_last_batch().run()
            leave_clean(self.store)
        else:
            flush(log)
        directory.close()

    def stream(self, number: int, body: bytes, times_us: Iterable[int]) -> StreamLog:
        """The stream with this number gets a message at each of these times, a batch each."""
        handles = StreamHandles(DiskDirectory(str(self.store / "streams")))
        log = StreamLog(number, Retention(4096), Dice(1))
        for at_us in times_us:
            log.append(message(body), at_us)
            batch = StreamBatch(handles)
            log.take(batch)
            batch.run()
            for chunk in batch.chunks:
                log.done(chunk)
        return log

    def messages(self) -> dict[str, bytes]:
        return {name: data for name, data in self.files().items() if name.startswith("vhosts")}

    def files(self) -> dict[str, bytes]:
        return {
            str(one.relative_to(self.path)): one.read_bytes()
            for one in sorted(self.path.rglob("*"))
            if one.is_file()
        }

    def damage(self, number: int = 1) -> None:
        path = self.store / "persistent" / f"{number:010d}.log"
        data = bytearray(path.read_bytes())
        data[data.find(b"2.....")] ^= 1
        path.write_bytes(data)


def said(left: Left | Path, *words: str) -> Result:
    path = left.path if isinstance(left, Left) else left
    done = CliRunner().invoke(store, [*words, "--data", str(path)])
    if isinstance(done.exception, SystemExit) or done.exception is None:
        return done
    raise done.exception


@pytest.mark.parametrize("is_clean", [True, False])
def test_check_of_a_whole_one(tmp_path: Path, is_clean: bool) -> None:
    left = Left(tmp_path, is_clean)
    before = left.files()
    done = said(left, "check")
    assert done.exit_code == 0
    assert "read 70 records" in done.stdout and "nothing is damaged" in done.stdout
    assert "5 records are of 1 deleted queues" in done.stdout
    assert left.files() == before, "nothing is changed"


def test_check_names_damage(tmp_path: Path) -> None:
    left = Left(tmp_path)
    left.damage()
    done = said(left, "check")
    assert done.exit_code == 1
    first = done.stdout.splitlines()[0]
    assert first.startswith(" ✘ vhost /: 0000000001.log at ")
    assert "(queue bills, position 3: a message is lost)" in first
    assert "1 damaged, 1 messages lost" in done.stdout
    found = json.loads(said(left, "check", "--json").stdout)["vhosts"][0]
    assert (found["damaged"], found["lost"], found["records"]) == (1, 1, 69)
    (row,) = (one for one in found["findings"] if one["is_damage"])
    assert (row["queue"], row["position"], row["file"]) == ("bills", 3, "0000000001.log")


def test_check_without_a_catalogue(tmp_path: Path) -> None:
    left = Left(tmp_path)
    path = left.path / "metadata.sqlite"
    path.write_bytes(b"?" * 5000)
    done = said(left, "check")
    assert done.exit_code == 1
    assert f"✘ catalogue: {path} is damaged" in done.stdout
    path.unlink()
    text = said(left, "check").stdout
    assert "✘ catalogue: it cannot be read: No such file" in text
    assert "70 records are of 3 queues" in text and "deleted" not in text
    left.damage()
    text = said(left, "check").stdout
    assert "(queue number 2, position 3" in text and "deleted" not in text


def test_check_of_a_store_whose_catalogue_is_older(tmp_path: Path) -> None:
    left = Left(tmp_path)
    (left.path / "metadata.sqlite").unlink()
    MetadataDb(left.path / "metadata.sqlite").close()
    done = said(left, "check")
    assert done.exit_code == 1
    assert "the catalogue is older than the messages" in done.stdout


def test_after_a_crash_in_mode_none_footers_are_not_believed(tmp_path: Path) -> None:
    """Records that never came to the disk are no damage then."""
    left = Left(tmp_path, is_clean=False)
    path = left.store / "persistent" / "0000000001.log"
    data = path.read_bytes()
    path.write_bytes(data[:300] + bytes(400) + data[700:])
    assert said(left, "check").exit_code == 1
    mark_unsynced(left.store, True)
    assert said(left, "check").exit_code == 0


def test_stats(tmp_path: Path) -> None:
    left = Left(tmp_path)
    before = left.files()
    found = json.loads(said(left, "stats", "--json").stdout)["vhosts"]
    assert [row["vhost"] for row in found] == ["/"]
    rows = {row["queue"]: row for row in found[0]["queues"]}
    assert (rows["orders"]["messages"], rows["bills"]["messages"]) == (10, 5)
    assert rows["orders"]["disk_bytes"] > 2 * rows["orders"]["live_bytes"] > 0
    assert found[0]["messages"] == 15 and found[0]["garbage_share"] > 0.5
    text = said(left, "stats").stdout.splitlines()
    assert text[0].split() == [
        "vhost", "queue", "messages", "live", "on", "disk", "garbage", "segments", "oldest",
    ]  # fmt: skip
    assert any(line.split()[:3] == ["/", "orders", "10"] for line in text)
    assert left.files() == before


@pytest.mark.parametrize("is_clean", [True, False])
def test_compact(tmp_path: Path, is_clean: bool) -> None:
    left = Left(tmp_path, is_clean)
    mark_unsynced(left.store, True)
    done = said(left, "compact", "--json")
    (row,) = json.loads(done.stdout)["vhosts"]
    assert row["after_bytes"] < row["before_bytes"] * 0.6
    assert (left.store / "CLEAN").exists() == is_clean, "how the broker stopped is still known"
    assert not (left.store / "UNSYNCED").exists(), "what is there was synced"
    found = json.loads(said(left, "stats", "--json").stdout)["vhosts"][0]
    assert found["messages"] == 15
    assert said(left, "check").exit_code == 0
    assert "before" in said(left, "compact").stdout


def test_a_damaged_store_is_not_compacted(tmp_path: Path) -> None:
    """A segment whose damage only reading finds stays as it is, and is named."""
    left = Left(tmp_path)
    left.damage()
    done = said(left, "compact")
    assert done.exit_code == 1
    assert "segment 1 could not be read whole" in done.stdout
    crashed = Left(tmp_path / "crashed", is_clean=False)
    crashed.damage(len(list((crashed.store / "persistent").glob("*.log"))) - 1)
    assert said(crashed, "check").exit_code == 1


def test_check_looks_at_streams_too(tmp_path: Path) -> None:
    left = Left(tmp_path)
    left.stream(2, b"2.....", range(3))
    assert "read 73 records" in said(left, "check").stdout
    (path,) = (left.store / "streams").iterdir()
    data = bytearray(path.read_bytes())
    data[data.find(b"2.....")] ^= 1
    path.write_bytes(data)
    done = said(left, "check")
    assert done.exit_code == 1
    assert "message 0 of the stream cannot be read (queue bills, position 0)" in done.stdout
    assert "1 damaged, 1 messages lost" in done.stdout


def test_stats_of_streams(tmp_path: Path) -> None:
    """Found without a change to any file, also where a broker was killed; those of streams that are
    deleted have a number only."""
    left = Left(tmp_path, is_clean=False)
    left.stream(3, b"x" * 400, range(2))
    log = left.stream(2, b"x" * 400, [(NOW_S + turn) * 1_000_000 for turn in range(40)])
    bytes_, segments = int(log.disk_bytes), len(log.segments)
    before = left.files()
    (row,) = json.loads(said(left, "stats", "--json").stdout)["vhosts"]
    assert row["streams"] == [
        {
            "stream": "bills",
            "messages": 40,
            "disk_bytes": bytes_,
            "segments": segments,
            "oldest_ms": NOW_S * 1000,
        },
        row["streams"][1],
    ]
    assert segments > 3 and bytes_ > 16_000
    assert (row["streams"][1]["stream"], row["streams"][1]["messages"]) == ("number 3", 2)
    assert "bills (stream)" in said(left, "stats").stdout
    assert left.files() == before


@pytest.mark.parametrize("fault", ["damaged", "missing"])
@pytest.mark.parametrize("command", ["compact", "stats"])
def test_without_a_catalogue_nothing_is_taken_for_garbage(
    tmp_path: Path, command: str, fault: str
) -> None:
    left = Left(tmp_path)
    for name in ("metadata.sqlite", "metadata.sqlite-wal", "metadata.sqlite-shm"):
        (left.path / name).unlink(missing_ok=True)
    if fault == "damaged":
        (left.path / "metadata.sqlite").write_bytes(b"no database " * 500)
    before = left.messages()
    with pytest.raises(OperatorError, match=r"cannot be told without the catalogue: .*store check"):
        said(left, command)
    assert left.messages() == before


def test_a_catalogue_that_is_older_than_the_messages_is_not_compacted(tmp_path: Path) -> None:
    left = Left(tmp_path)
    log = MessageLog(DiskDirectory(str(left.store / "persistent")), Dice(2), 4096)
    log.next_number = 100
    fill(log, log.open_queue(9), 3)
    log.take_last_batch().run()
    before = left.messages()
    with pytest.raises(OperatorError, match=r"queue number 9, .* ever given is 3"):
        said(left, "compact")
    assert left.messages() == before


@pytest.mark.parametrize("options", [("--port", "5672"), ("--control", "/tmp/none.sock")])
def test_a_directory_and_a_running_broker_are_not_both_asked(
    tmp_path: Path, options: tuple[str, str]
) -> None:
    left = Left(tmp_path)
    with pytest.raises(OperatorError, match=rf"--data names a directory, and {options[0]} a"):
        said(left, "stats", *options)


def test_a_directory_in_use(tmp_path: Path) -> None:
    left = Left(tmp_path)
    holder = DataDirectory(left.path, "broker")
    try:
        for verb in ("check", "stats", "compact"):
            with pytest.raises(OperatorError, match=r"is used by pid [0-9]+.*stop that broker"):
                said(left, verb)
    finally:
        holder.close()
    assert said(left, "check").exit_code == 0


def test_mend(tmp_path: Path) -> None:
    left = Left(tmp_path)
    before = left.files()
    assert "nothing was changed" in said(left, "mend").stdout
    path = left.path / "metadata.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("UPDATE queues SET name = 'order5' WHERE name = 'orders'")
    database.close()
    done = said(left, "check")
    assert done.exit_code == 1 and "row 1 of queues" in " ".join(done.stdout.split())
    done = said(left, "mend")
    assert done.exit_code == 0 and "taken out: row 1 of queues" in done.stdout
    with closing(MetadataDb(path)) as mended:
        assert [one.name for one in mended.read().queues] == ["bills"]
    copy = left.path / "metadata.sqlite.damaged-1"
    assert copy.stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(copy) as database:
        assert database.execute("SELECT name FROM queues ORDER BY id").fetchall()[0] == ("order5",)
    database.close()
    found = json.loads(said(left, "mend", "--json").stdout)
    assert found == {"copy": str(path), "rows": []}
    assert left.messages() == {name: data for name, data in before.items() if "vhosts" in name}


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    for verb in ("check", "stats", "compact"):
        with pytest.raises(OperatorError, match="is not a data directory of Penstock"):
            said(tmp_path, verb)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_no_virtual_host_is_left_alone(tmp_path: Path) -> None:
    left = Left(tmp_path)
    strange = left.path / "vhosts" / "strange"
    (strange / "persistent").mkdir(parents=True)
    (strange / "persistent" / "0000000001.acks").write_bytes(b"")
    assert "no virtual host has this folder" in said(left, "check").stdout
    said(left, "compact")
    assert (strange / "persistent" / "0000000001.acks").exists()
    assert vhost_folder("/") == left.store.name


def test_files_that_were_kept_to_be_used_again(tmp_path: Path) -> None:
    """As a killed broker leaves them: no damage, told apart, and gone when somebody cleans up."""
    left = Left(tmp_path, is_clean=False)
    spare = left.store / "persistent" / "0000000009.spare"
    spare.write_bytes(bytes(5000))
    before = json.loads(said(left, "stats", "--json").stdout)["vhosts"][0]
    assert before["spare_bytes"] == 5000
    assert "(files to be used again)" in said(left, "stats").stdout
    done = said(left, "check")
    assert done.exit_code == 0 and "0000000009.spare: a file to be used again" in done.stdout
    assert spare.exists()
    assert said(left, "compact").exit_code == 0
    assert not spare.exists()
    assert "(files to be used again)" not in said(left, "stats").stdout
