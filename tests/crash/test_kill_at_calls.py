"""`kill -9` at chosen calls that the broker makes to the disk: writes, syncs, renames, removals.

A few by default; PENSTOCK_KILL_CALLS=300 takes every call up to that one, PENSTOCK_COMPACTION_CALLS
does so for the compaction. `make crash-kill` takes both.
"""

import contextlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from penstock.protocol import methods as m
from penstock.server.disk.data_directory import vhost_folder
from penstock.server.disk.disk_files import DiskDirectory
from penstock.server.machine.machine import SystemChance
from penstock.storage.layout.format import HEADER_BYTES, was_used
from penstock.storage.recovery.recovery import recover
from tests.crash.life import message
from tests.crash.live import Lost, Publisher, Served, recovered, served
from tests.crash.test_kill import body, check_back, needs_strace
from tests.patience import PATIENCE_S

CALLS = "pwrite64,fdatasync,fsync,rename,unlink,ftruncate"
SMALL_SEGMENTS = "store_segment_bytes = 65536\n"
KEPT_EVERY = 5
SPARSE = 400


def calls(variable: str, sample: list[int]) -> list[int]:
    most = int(os.environ.get(variable, "0"))
    return list(range(1, most + 1)) if most else sample


def killing(call: int) -> tuple[str, ...]:
    """What runs a broker that dies as it makes its `call`-th call to the disk."""
    return (
        "strace", "-f", "-o", "/dev/null", "-e", f"trace={CALLS}",
        "-e", f"inject={CALLS}:signal=KILL:when={call}",
    )  # fmt: skip


def store_of(data: Path) -> Path:
    return data / "vhosts" / vhost_folder("/") / "persistent"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with two durable queues: what a first start writes is not looked at."""
    folder = tmp_path_factory.mktemp("begun")
    with served(folder / "data", folder) as broker:
        publisher = Publisher(broker)
        publisher.declare("d1", "d2")
        publisher.close()
        assert broker.stop() == 0
    return folder / "data"


@pytest.fixture(scope="module")
def sparse(begun: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with many segments of which one message in KEPT_EVERY counts, so that the next
    broker has much to compact. The log itself writes them, because a broker would compact."""
    data = tmp_path_factory.mktemp("sparse") / "data"
    shutil.copytree(begun, data)
    with closing(sqlite3.connect(data / "metadata.sqlite")) as database:
        [queue_id] = database.execute("SELECT id FROM queues WHERE name = 'd1'").fetchone()
    directory = DiskDirectory(str(store_of(data)))
    found = recover(directory, SystemChance(), 65_536, {queue_id})
    index = found.queues[queue_id]
    for number in range(SPARSE):
        found.log.append(index, message(body(number)), 1_700_000_000_000)
    for number in range(SPARSE):
        if number % KEPT_EVERY:
            found.log.settle(index, number + 1)
    last = found.log.take_last_batch()
    last.run()
    found.log.done(last)
    assert len(list(store_of(data).glob("*.log"))) > 5
    return data


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """Where this test's copy goes; gone afterwards, because there are hundreds."""
    yield tmp_path / "data"
    shutil.rmtree(tmp_path / "data")


@needs_strace
@pytest.mark.parametrize("call", calls("PENSTOCK_KILL_CALLS", [4, 29, 118, 300]))
def test_f01_f05_killed_at_a_call(call: int, begun: Path, data: Path, tmp_path: Path) -> None:
    """In a life that publishes to two queues, empties one and deletes the other."""
    shutil.copytree(begun, data)
    confirmed: set[int] = set()
    purged: set[int] = set()
    said = 0
    try:
        with served(data, tmp_path, killing(call), SMALL_SEGMENTS) as broker:
            publisher = Publisher(broker)
            try:
                publisher.declare("d1", "d2")
                for said in range(1, 10_000):
                    publisher.publish("amq.fanout", "", body(said - 1))
                    if said % 100 == 0:
                        publisher.ask(m.QueueDelete("d2") if said == 300 else m.QueuePurge("d1"))
                        purged |= set(range(said)) if said != 300 else set()
            except Lost:
                confirmed = publisher.confirmed
            finally:
                publisher.close()
            assert broker.process.wait(PATIENCE_S) != 0
    except (AssertionError, Lost):
        # Killed before it was ready: a start makes some of these calls, too.
        assert said == 0, "the broker died of something else"
    with served(data, tmp_path) as broker:
        check_back(broker, "d1", range(said), confirmed - purged)


@needs_strace
@pytest.mark.parametrize("call", calls("PENSTOCK_KILL_CALLS", [290]))
def test_f06_killed_while_files_are_written_over(call: int, begun: Path, data: Path) -> None:
    """Everything is purged again and again, so that files of segments are used again; the next life
    does the same, and is killed as well."""
    shutil.copytree(begun, data)
    folder = data.parent
    confirmed: set[int] = set()
    purged: set[int] = set()
    said = 0
    is_used_again = False
    for life in range(2):
        first = said
        try:
            with served(data, folder, killing(call + life), SMALL_SEGMENTS) as broker:
                publisher = Publisher(broker)
                try:
                    publisher.declare("d1")
                    while said < first + 10_000:
                        # Before it: when it is lost, the message may have been sent.
                        said += 1
                        publisher.publish("", "d1", body(said - 1))
                        if said % 60 == 0:
                            purged |= set(range(said))
                            publisher.ask(m.QueuePurge("d1"))
                except Lost:
                    confirmed |= {first + number for number in publisher.confirmed}
                finally:
                    publisher.close()
                assert broker.process.wait(PATIENCE_S) != 0
        except (AssertionError, Lost):
            assert said == first, "the broker died of something else"
        is_used_again = is_used_again or any(map(was_written_over, store_of(data).glob("*.log")))
    with served(data, folder) as broker:
        check_back(broker, "d1", range(said), confirmed - purged)
    assert (is_used_again and len(confirmed) > 60) or call < 150, "a file had an earlier life"
    assert not list(store_of(data).glob("*.spare"))


def was_written_over(path: Path) -> bool:
    head = path.read_bytes()[:HEADER_BYTES]
    return len(head) == HEADER_BYTES and was_used(head)


@needs_strace
@pytest.mark.parametrize("call", calls("PENSTOCK_COMPACTION_CALLS", [5, 19, 38]))
def test_f15_killed_while_compacting(call: int, sparse: Path, data: Path, tmp_path: Path) -> None:
    """The compaction that begins with the first publish is cut short: everything that counted comes
    back once, and when the queue is empty the next start leaves no file of it behind."""
    shutil.copytree(sparse, data)
    kept = set(range(0, SPARSE, KEPT_EVERY))
    with served(data, tmp_path, settings=SMALL_SEGMENTS) as broker, killed_later(broker, call):
        said, confirmed = publish_until_it_dies(broker)
    with served(data, tmp_path, settings=SMALL_SEGMENTS) as broker:
        numbers = [int(one[:8]) for one in recovered(broker, "d1")]
        assert numbers == sorted(set(numbers)), "out of order, or twice"
        assert kept | confirmed <= set(numbers) <= kept | set(range(SPARSE, said))
        assert broker.stop() == 0
    with served(data, tmp_path) as broker:
        assert recovered(broker, "d1") == []
        assert broker.stop() == 0
    left = [path.name for path in store_of(data).iterdir()]
    assert left == [], "files of messages that are gone"


@contextmanager
def killed_later(broker: Served, call: int) -> Iterator[None]:
    """It dies as its disk thread makes the `call`-th call from now on."""
    tracer = subprocess.Popen(
        [*killing(call), "-p", str(broker.process.pid)], stderr=subprocess.PIPE, text=True
    )
    assert tracer.stderr is not None
    try:
        said = tracer.stderr.readline()
        if "attached" not in said:
            pytest.skip(f"NO KILLS HERE: {said.strip()}")
        yield
    finally:
        tracer.kill()
        tracer.communicate()


def publish_until_it_dies(broker: Served) -> tuple[int, set[int]]:
    """One message now and then, because the compaction goes on by itself; (the number behind the
    last that was published, which were confirmed)."""
    publisher = Publisher(broker)
    said = SPARSE
    try:
        publisher.ask(m.ConfirmSelect())
        while said < SPARSE + 100:
            said += 1
            publisher.publish("", "d1", body(said - 1))
            publisher.finish()
            with contextlib.suppress(subprocess.TimeoutExpired):
                broker.process.wait(0.5)
                break
    except Lost:
        pass
    finally:
        publisher.close()
    assert broker.process.wait(PATIENCE_S) != 0, "it made so many calls"
    return said, {SPARSE + number for number in publisher.confirmed}
