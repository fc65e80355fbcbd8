"""Which files there are is known after a kill: one that is gone is named by the next start and by
`store check`, and nothing is named that went for a good reason (rows F11, F13, F14)."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.server.disk.inventory import Missing
from penstock.server.machine.machine import machine_start
from penstock.simulation.machine.disk import (
    CREATE,
    REMOVE,
    RENAME,
    TRUNCATE,
    WRITE,
    SimDisk,
)
from penstock.storage.layout.format import acks_name, log_name
from penstock.storage.log.roster import (
    IS_ACKED,
    IS_LOG,
    IS_STREAM,
    ROSTER,
    SLOT_BYTES,
    UNKNOWN,
    Entry,
    Roster,
    read_roster,
)
from penstock.streams.format import file_name
from tests.crash.histories import HISTORIES
from tests.crash.life import MACHINE
from tests.crash.live import Publisher, recovered, served
from tests.crash.stream_rig import StreamRig, legible
from tests.crash.stream_rig import recovered as streams_of
from tests.crash.test_stream_crash_states import HISTORIES as STREAMS
from tests.patience import PATIENCE_S

CHECK = (sys.executable, "-m", "penstock.cli.main", "store", "check")


# -- what a kill may leave -------------------------------------------------------------------------


def kills(disk: SimDisk) -> Iterator[SimDisk]:
    """The disk as a process leaves it that is killed behind each of its operations."""
    now = SimDisk(disk.image)
    nodes = list(now.nodes)
    for op in disk.ops:
        if op.kind == CREATE:
            now.create(op.name)
            nodes.append(now.nodes[-1])
        elif op.kind == REMOVE:
            now.remove(op.name)
        elif op.kind == RENAME:
            now.rename(op.name, op.new_name)
        elif op.kind == WRITE:
            data = nodes[op.node].data
            data.extend(bytes(max(0, op.at - len(data))))
            data[op.at : op.at + len(op.data)] = op.data
        elif op.kind == TRUNCATE:
            del nodes[op.node].data[op.at :]
        yield now
    assert now.contents() == disk.contents()


def names_of(entry: Entry) -> list[str]:
    if entry.kind == IS_STREAM:
        return [file_name(entry.one, entry.two)]
    names = [log_name(entry.one)] if entry.kind in (IS_LOG, IS_ACKED) else []
    return [*names, acks_name(entry.one)] if entry.kind == IS_ACKED else names


def false_words(disk: SimDisk) -> tuple[int, list[str]]:
    """How many kills were looked at, and what each says is there and is not."""
    count = 0
    found: list[str] = []
    for left in kills(disk):
        kept = read_roster(left)
        if kept.machine != MACHINE:
            continue
        count += 1
        there = set(left.names())
        found += [name for one in kept.entries for name in names_of(one) if name not in there]
    return count, found


@pytest.mark.parametrize("name", HISTORIES)
def test_f14_a_kill_at_any_operation_leaves_no_false_word(name: str) -> None:
    count, found = false_words(HISTORIES[name]().disk)
    assert count > 10 and not found


@pytest.mark.parametrize("name", STREAMS)
def test_f14_nor_does_a_kill_of_streams(name: str) -> None:
    count, found = false_words(STREAMS[name]().disk)
    assert count > 10 and not found


def test_f14_every_file_of_a_life_is_in_it() -> None:
    for rig in (HISTORIES["fan_out"](), STREAMS["several"]()):
        if isinstance(rig, StreamRig):
            rig.flush()
        said = {name for one in read_roster(rig.disk).entries for name in names_of(one)}
        there = {one for one in rig.disk.names() if one.endswith((".log", ".acks", ".stream"))}
        assert said and said == {one for one in there if one in said or one.endswith(".log")}
        logs = {one for one in there if not one.endswith(".acks")}
        assert logs <= said, "acknowledgements of files that are gone are nobody's"


def test_nothing_of_it_is_left_by_a_clean_stop() -> None:
    assert ROSTER not in STREAMS["stopped"]().disk.names()


# -- the last chunks of a stream -------------------------------------------------------------------


def marked_streams(is_marked: bool = True) -> StreamRig:
    """Two streams, three batches each, of which the last is marked as safe."""
    rig = StreamRig(SimDisk(), {1, 2})
    for _ in range(3):
        rig.publish(1, 2)
        rig.publish(2, 1)
        rig.flush()
    if is_marked:
        rig.flush(is_prompt=False)
    return rig


def silent_states(rig: StreamRig) -> list[str]:
    """Every eighth bit of every file of a stream turned over, and cuts at every place: those of
    which a start says nothing although something confirmed cannot be read."""
    image = rig.disk.contents()
    required = set(rig.expected().required)
    found: list[str] = []
    for name in [one for one in image if one.endswith(".stream")]:
        data = image[name]
        spoilt = [
            (f"{name} bit {bit}", data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8])
             + data[bit // 8 + 1 :])
            for bit in range(0, len(data) * 8, 8)
        ]  # fmt: skip
        spoilt += [(f"{name} cut to {size}", data[:size]) for size in range(len(data))]
        for which, one in spoilt:
            disk = SimDisk({**image, name: one})
            logs, report = streams_of(disk, {1, 2})
            there: set[tuple[int, int]] = set()
            is_told = bool(report.lost or report.lines)
            for log in logs.values():
                each, lost = legible(disk, log)
                there |= set(each)
                is_told = is_told or lost > 0
                last = max(offset for queue, offset in required if queue == log.queue_id)
                if is_told and log.next <= last:
                    found.append(f"{which}: offset {last} is given again")
            if not is_told and not required <= there:
                found.append(which)
    return found


def test_f13_damage_before_the_mark_of_a_stream_is_told() -> None:
    assert silent_states(marked_streams()) == []


def test_f13_without_the_mark_the_last_chunk_is_taken_for_torn() -> None:
    assert silent_states(marked_streams(is_marked=False))


def test_f13_what_is_torn_behind_the_mark_is_silent() -> None:
    rig = marked_streams()
    before = {name: len(data) for name, data in rig.disk.contents().items()}
    rig.publish(1, 3)
    rig.flush(is_prompt=False)
    image = rig.disk.contents()
    (name,) = [one for one in image if one.endswith(".stream") and one.startswith("0000000001")]
    for size in range(before[name], len(image[name])):
        disk = SimDisk({**image, name: image[name][:size]})
        logs, report = streams_of(disk, {1, 2})
        assert not report.lost and not report.lines
        assert logs[1].next == 6


def test_a_mark_that_is_spoilt_says_nothing() -> None:
    rig = marked_streams()
    image = rig.disk.contents()
    data = image[ROSTER]
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        disk = SimDisk({**image, ROSTER: bytes(changed)})
        logs, report = streams_of(disk, {1, 2})
        assert not report.lost and not report.lines
        assert [int(log.next) for log in logs.values()] == [6, 3]


# -- the roster itself -----------------------------------------------------------------------------


def begun(disk: SimDisk, count: int = 0) -> Roster:
    roster = Roster(disk)
    roster.begin(MACHINE, [Entry(IS_LOG, number, 0) for number in range(1, count + 1)])
    return roster


def said(disk: SimDisk) -> set[tuple[int, int, int]]:
    return {(int(one.kind), int(one.one), int(one.two)) for one in read_roster(disk).entries}


def test_slots_are_used_again() -> None:
    disk = SimDisk()
    roster = begun(disk, 3)
    for number in range(4, 200):
        roster.note(IS_LOG, number, 0)
        roster.note(IS_ACKED, number, 0, 7)
        roster.drop(number - 3, 0)
    assert said(disk) == {(IS_ACKED, number, 0) for number in (197, 198, 199)}
    assert len(disk.contents()[ROSTER]) == 5 * SLOT_BYTES
    assert all(one.safe_next == 7 for one in read_roster(disk).entries)


def test_what_cannot_be_noted_takes_it_away_until_it_can() -> None:
    disk = SimDisk()
    roster = begun(disk, 2)
    disk.room = 0
    roster.note(IS_LOG, 3, 0)
    assert ROSTER not in disk.names(), "it would not have the third"
    roster.drop(1, 0)
    disk.room = -1
    roster.note(IS_LOG, 4, 0)
    assert said(disk) == {(IS_LOG, number, 0) for number in (2, 3, 4)}


def test_none_is_written_where_none_was_begun() -> None:
    disk = SimDisk()
    roster = Roster(disk)
    roster.note(IS_LOG, 1, 0)
    roster.drop(1, 0)
    roster.end()
    assert disk.ops == []
    assert read_roster(disk).machine == UNKNOWN


# -- real brokers ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker leaves that was idle before it was killed: a queue and a stream of ten each."""
    folder = tmp_path_factory.mktemp("killed")
    data = folder / "data"
    with served(data, folder) as broker:
        publisher = Publisher(broker)
        publisher.declare("d1")
        arguments: Table = {"x-queue-type": "stream"}
        publisher.ask(m.QueueDeclare("s1", durable=True, arguments=arguments))
        for number in range(10):
            publisher.publish("", "d1", b"%04d" % number + b"x" * 96)
            publisher.publish("", "s1", b"%04d" % number + b"y" * 96)
            publisher.finish()
        (roster,) = data.rglob("streams/ROSTER")
        deadline = time.monotonic() + PATIENCE_S
        while not list(data.rglob("*.acks")) or not is_marked(roster):
            assert time.monotonic() < deadline, "no mark"
            time.sleep(0.05)
        broker.process.send_signal(signal.SIGKILL)
        broker.process.wait()
        publisher.close()
    return data


def is_marked(path: Path) -> bool:
    marks = read_roster(SimDisk({ROSTER: path.read_bytes()})).marks()
    return any(one.safe_next == 10 for one in marks.values())


def checked(data: Path) -> tuple[int, str]:
    done = subprocess.run(
        [*CHECK, "--data", str(data)], capture_output=True, timeout=PATIENCE_S, check=False
    )
    return done.returncode, " ".join(done.stdout.decode().split())


def started(data: Path, folder: Path, queue: str) -> tuple[str, list[bytes]]:
    """What a start says, and what is in a queue then."""
    with served(data, folder) as broker:
        lines = broker.errors.read_text()
        return lines, [] if queue == "" else recovered(broker, queue)


@pytest.mark.parametrize(
    ("pattern", "words", "left"),
    [
        ("*.log", "up to 10 messages are gone", 0),
        ("*.acks", "that were acknowledged come again", 10),
        ("*.stream", "messages 0..9 of a stream are gone", -1),
    ],
)
def test_f14_a_file_that_is_gone_after_a_kill(
    killed: Path, tmp_path: Path, pattern: str, words: str, left: int
) -> None:
    data = tmp_path / "data"
    shutil.copytree(killed, data)
    (gone,) = data.rglob(pattern)
    gone.unlink()
    code, text = checked(data)
    assert code == 1 and f"{gone.name}: is not there" in text and words in text, text
    lines, found = started(data, tmp_path, "d1" if left >= 0 else "")
    assert f"{gone.name} is not there" in lines and words in lines
    assert left < 0 or len(found) == left
    lines, _ = started(data, tmp_path, "")
    assert "is not there" not in lines, "that was said"


def test_f14_a_whole_store_after_a_kill_is_told_nothing_of(killed: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(killed, data)
    assert checked(data)[0] == 0
    lines, found = started(data, tmp_path, "d1")
    assert "is not there" not in lines and len(found) == 10


def test_f14_after_a_start_of_the_machine_it_is_not_certain(killed: Path, tmp_path: Path) -> None:
    """A loss of power may undo what was noted of a removal."""
    (persistent,) = killed.rglob("persistent")
    folder = tmp_path / "persistent"
    shutil.copytree(persistent, folder)
    (gone,) = folder.glob("*.log")
    gone.unlink()
    for machine, is_sure in ((machine_start(), True), (b"another!", False)):
        found = Missing()
        found.add_listed(folder, machine)
        names = [name for name, _ in (found.files if is_sure else found.unsure)]
        assert names == [gone.name] and len(found.words()) == 1


def test_f13_the_last_chunk_of_a_stream_is_damaged_and_not_torn(
    killed: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(killed, data)
    (path,) = data.rglob("*.stream")
    spoilt = bytearray(path.read_bytes())
    spoilt[-10] ^= 0x10
    path.write_bytes(spoilt)
    code, text = checked(data)
    assert code == 1 and "of the stream cannot be read" in text, text
    lines, _ = started(data, tmp_path, "")
    assert "s1: damaged, " in lines


def test_a_folder_of_streams_that_is_gone_is_told(killed: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(killed, data)
    (folder,) = data.rglob("streams")
    shutil.rmtree(folder)
    lines, _ = started(data, tmp_path, "")
    assert "streams is not there, and 1 durable queues" in lines
