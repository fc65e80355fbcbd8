"""Rows of the failure list that a real broker on a real directory shows: damaged files, room that
comes back, a disk that fills, a probe that fails, a long history."""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import psutil
import pytest

from penstock.client.io_blocking import connect
from penstock.protocol import methods as m
from penstock.server.control.control_client import ask, control_path
from penstock.server.disk.data_directory import vhost_folder
from penstock.server.disk.disk_files import DiskDirectory
from penstock.server.machine.machine import SystemChance
from penstock.storage.recovery.recovery import recover
from tests.crash.life import message
from tests.crash.live import Lost, Publisher, Served, recovered, served
from tests.crash.mounts import NoMount, small_disk
from tests.crash.test_kill import body, check_back
from tests.patience import PATIENCE_S, Lateness, until

MB = 1_000_000
READY_S_MAX = 5.0
PURGE_MB = int(os.environ.get("PENSTOCK_PURGE_MB", "24"))
"""How large the queue is that is purged; `make crash-live` takes 1,000."""
HISTORY = int(os.environ.get("PENSTOCK_HISTORY", "20000"))
"""How many messages rest in 1,000 queues before a start; `make crash-live` takes 1,000,000."""


def logs_of(data: Path) -> list[Path]:
    return sorted((data / "vhosts" / vhost_folder("/") / "persistent").glob("*.log"))


def bytes_of(data: Path) -> int:
    return sum(path.stat().st_size for path in logs_of(data) if path.exists())


def published(broker: Served, queue: str, numbers: range) -> None:
    """Persistent and confirmed."""
    publisher = Publisher(broker)
    publisher.ask(m.QueueDeclare(queue, durable=True))
    publisher.ask(m.ConfirmSelect())
    for number in numbers:
        publisher.publish("", queue, body(number))
    publisher.finish()
    publisher.close()


def told(broker: Served, **question: object) -> dict[str, object]:
    """What the broker answers on its control socket."""
    return ask(control_path(broker.port), question, PATIENCE_S)


def start_s(broker: Served) -> float:
    """What the start has cost, in processor time: others may keep the machine busy."""
    used = psutil.Process(broker.process.pid).cpu_times()
    return float(used.user + used.system)


def state(broker: Served, queue: str) -> str:
    """As `penstock queues` lists it."""
    rows = told(broker, op="queues", do="list", vhost="", name=queue)["queues"]
    assert isinstance(rows, list)
    return str(rows[0]["state"])


def cut_in_a_record(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 5000)


def append_zeros(path: Path) -> None:
    with path.open("ab") as file:
        file.write(bytes(1 << 20))


def tear_the_end(path: Path) -> None:
    """The size has come, the last two pages have what was there before."""
    with path.open("r+b") as file:
        file.seek(-8192, os.SEEK_END)
        file.write(path.read_bytes()[100 : 100 + 8192])


@pytest.mark.parametrize("damage", [cut_in_a_record, append_zeros, tear_the_end])
def test_f05_a_torn_end_is_no_reason_not_to_start(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with served(data, tmp_path) as broker:
        published(broker, "d1", range(300))
        broker.kill()
    damage(logs_of(data)[-1])
    with served(data, tmp_path) as broker:
        assert start_s(broker) < READY_S_MAX
        lost_at_most = 0 if damage is append_zeros else 20
        back = check_back(broker, "d1", range(300), set(range(300 - lost_at_most)))
        assert back == set(range(len(back))), "everything before the tear"
        assert "bytes behind the last whole record were cut off" in broker.errors.read_text()


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_f13_f14_one_damaged_queue_is_closed_and_listed_and_the_others_serve(
    end: str, tmp_path: Path
) -> None:
    """Found when its files are searched after a crash, or else when it is read."""
    data = tmp_path / "data"
    with served(data, tmp_path) as broker:
        published(broker, "d1", range(50))
        published(broker, "d2", range(100, 150))
        if end == "killed":
            broker.kill()
        else:
            assert broker.stop() == 0
    [log] = logs_of(data)
    whole = bytearray(log.read_bytes())
    whole[whole.index(body(20)) + 30] ^= 4
    log.write_bytes(whole)
    with served(data, tmp_path) as broker:
        assert start_s(broker) < READY_S_MAX
        if end == "killed":
            assert state(broker, "d1") == "damaged"
        check_back(broker, "d2", range(100, 150), set(range(100, 150)))
        taken = taken_by_get(broker, "d1")
        assert taken == list(range(len(taken))) and len(taken) <= 20, "nothing behind the lost one"
        assert state(broker, "d1") == "damaged" and state(broker, "d2") == "running"
        assert "queue:/d1: damaged, 1 of its messages" in broker.errors.read_text()
        told(broker, op="queues", do="resume", name="d1")
        assert state(broker, "d1") == "running"
        check_back(broker, "d1", range(50), set(range(50)) - {20, *taken})
        assert broker.stop() == 0
    with served(data, tmp_path) as broker:
        assert taken_by_get(broker, "d1") == [] and state(broker, "d1") == "running"
        until(lambda: logs_of(data) == [], "what was given up takes no room")


def taken_by_get(broker: Served, queue: str) -> list[int]:
    """Until the queue has nothing to give."""
    taken = []
    with connect(broker.url) as connection:
        channel = connection.channel()
        while (got := channel.get(queue)) is not None:
            taken.append(int(got.body[:8]))
            channel.ack(got)
    return taken


@pytest.mark.parametrize("how", ["purge", "delete"])
def test_f16_room_comes_back_after_a_purge_or_a_delete(how: str, tmp_path: Path) -> None:
    """A large queue in many segments: within ten seconds less than two of them are left, and what
    another queue has in between is there."""
    data = tmp_path / "data"
    segment_bytes = max(4, PURGE_MB // 16) * MB
    with served(data, tmp_path, settings=f"store_segment_bytes = {segment_bytes}\n") as broker:
        publisher = Publisher(broker)
        publisher.ask(m.QueueDeclare("large", durable=True))
        publisher.ask(m.QueueDeclare("small", durable=True))
        publisher.ask(m.ConfirmSelect())
        for number in range(PURGE_MB * 10):
            publisher.publish("", "large", bytes(100_000))
            if number % 50 == 0:
                publisher.publish("", "small", body(number))
        publisher.finish()
        assert bytes_of(data) >= PURGE_MB * MB
        publisher.ask(m.QueuePurge("large") if how == "purge" else m.QueueDelete("large"))
        began_s = time.monotonic()
        with Lateness(broker.process.pid) as lateness:
            until(lambda: bytes_of(data) <= 2 * segment_bytes, "the room of what is gone")
        took_s = time.monotonic() - began_s
        assert took_s < 10 or lateness.worst_s > 1.0, f"{took_s:.1f} s, on a machine that works"
        publisher.close()
        numbers = range(0, PURGE_MB * 10, 50)
        check_back(broker, "small", range(PURGE_MB * 10), set(numbers))


class Flood(Thread):
    """Publishes as fast as it is let, until `ended` is set."""

    def __init__(self, broker: Served, queue: str, ended: Event) -> None:
        super().__init__(daemon=True)
        self.publisher = Publisher(broker)
        self.publisher.ask(m.QueueDeclare(queue, durable=True))
        self.queue = queue
        self.ended = ended
        self.start()

    def run(self) -> None:
        block = bytes(200_000)
        try:
            while not self.ended.is_set():
                self.publisher.publish_alone("", self.queue, block)
        except Lost:
            return
        finally:
            self.publisher.close()


def test_f18_a_flood_never_fills_the_disk(tmp_path: Path) -> None:
    """Publishers on a small disk, as fast as they can: the alarm is set before it is full, what is
    written after it is what was under way, and when room comes back they go on."""
    try:
        with small_disk(tmp_path, 100) as path:
            lowest = _flooded(path, tmp_path)
    except NoMount as reason:
        pytest.skip(f"NO SMALL DISKS HERE: {reason}")
    assert lowest > 50 * MB - 24 * MB, f"{lowest} bytes were free at the worst"


def _flooded(path: Path, tmp_path: Path) -> int:
    """The least that was free."""
    ended = Event()
    settings = 'memory_high = "8GB"\nqueue_depth_bytes = 4000000000\n'
    with served(path / "data", tmp_path, settings=settings) as broker:
        floods = [Flood(broker, f"d{number}", ended) for number in (1, 2)]
        lowest = free = _free(path)
        still_s = 0.0
        deadline_s = time.monotonic() + 2 * PATIENCE_S
        while still_s < 1.5:
            assert time.monotonic() < deadline_s, "publishing was never stopped"
            time.sleep(0.01)
            is_told = "disk alarm" in broker.errors.read_text()
            still_s = still_s + 0.01 if is_told and _free(path) == free else 0.0
            free = _free(path)
            lowest = min(lowest, free)
        with connect(broker.url) as connection:
            channel = connection.channel()
            # More than once: what was on its way when the broker stood still comes later.
            while _free(path) < 80 * MB:
                assert time.monotonic() < deadline_s, "no room came back"
                for name in ("d1", "d2"):
                    channel.purge_queue(name)
                time.sleep(0.05)
        # A changed mark is a look at once; by itself the next one may take ten seconds.
        _set(broker, "disk.free_min", "49MB")
        while "disk alarm is over" not in broker.errors.read_text():
            assert time.monotonic() < deadline_s, "the alarm was never cleared"
            time.sleep(0.05)
        ended.set()
        for flood in floods:
            flood.join(PATIENCE_S)
            assert not flood.is_alive(), "it goes on when there is room again"
    return lowest


def _free(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def test_f19_a_probe_that_fails_is_no_alarm_and_no_end(tmp_path: Path) -> None:
    """The directory that is looked at goes away under the broker: it says so, keeps what it knew,
    goes on, and ends in order although its reserve cannot be removed."""
    looked_at = tmp_path / "looked_at"
    looked_at.mkdir()
    settings = f'disk_dir = "{looked_at}"\ndisk_reserve_bytes = 4096\n'
    with served(tmp_path / "data", tmp_path, settings=settings) as broker:
        until((looked_at / ".penstock-reserve").exists, "the reserve")
        # In one step, because a look in between would make the reserve again.
        looked_at.rename(tmp_path / "away")
        looked_at.symlink_to(looked_at)
        _set(broker, "disk.free_min", "60MB")
        published(broker, "d1", range(50))
        assert recovered(broker, "d1") == [body(number) for number in range(50)]
        assert broker.stop() == 0
        said = broker.errors.read_text()
        assert "cannot read the free space" in said and "disk alarm:" not in said


def _set(broker: Served, key: str, value: str) -> None:
    told(broker, op="flow", do="set", changes={key: value})


def test_f22_a_long_history_is_started_with_in_time(tmp_path: Path) -> None:
    """Messages in 1,000 queues: in less than 30 s for a million of them the broker serves, with
    memory below its mark."""
    data = tmp_path / "data"
    with served(data, tmp_path) as broker:
        publisher = Publisher(broker)
        for number in range(1000):
            publisher.ask(m.QueueDeclare(f"h{number}", durable=True))
        publisher.close()
        assert broker.stop() == 0
    _fill(data)
    with served(data, tmp_path) as broker:
        seconds = start_s(broker)
        used = psutil.Process(broker.process.pid).memory_info().rss
        print(f"{HISTORY:,} messages: {seconds:.1f} s, {used // MB} MB")
        assert seconds < (30 if HISTORY >= 500_000 else READY_S_MAX)
        assert used < psutil.virtual_memory().total * 0.4
        assert "memory alarm" not in broker.errors.read_text()
        assert len(recovered(broker, "h7")) == HISTORY // 1000


def _fill(data: Path) -> None:
    """As many messages as HISTORY says, by the log itself: publishing them would take long."""
    with sqlite3.connect(data / "metadata.sqlite") as database:
        ids = [int(row[0]) for row in database.execute("SELECT id FROM queues")]
    database.close()
    folder = data / "vhosts" / vhost_folder("/") / "persistent"
    found = recover(DiskDirectory(str(folder)), SystemChance(), 64 << 20, set(ids))
    for number in range(HISTORY):
        index = found.queues[ids[number % len(ids)]]
        found.log.append(index, message(b"%08d" % number + bytes(92)), 1_700_000_000_000)
        if number % 20_000 == 19_999:
            batch = found.log.take_batch(False)
            assert batch is not None
            batch.run()
            found.log.done(batch)
    last = found.log.take_last_batch()
    last.run()
    found.log.done(last)
