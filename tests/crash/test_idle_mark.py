"""What a store says of itself once it is idle: after a kill damage in the last messages that were
confirmed is told, and never taken for a torn write (rows F11, F13)."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.broker.actors.syncing import ALWAYS, INTERVAL, MODES
from penstock.simulation.machine.crash import Image, Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import WRITE, SimDisk
from penstock.storage.layout.acks import Slot
from penstock.storage.recovery import old_segment
from tests.crash.life import flips
from tests.crash.live import Publisher, recovered, served
from tests.crash.rig import Rig, contents, legible, recovered_from
from tests.patience import PATIENCE_S
from tests.unit.broker.actors.test_syncing import Synced

LOG = "0000000001.log"
CHECK = (sys.executable, "-m", "penstock.cli.main", "store", "check")


def marked_rig(is_marked: bool = True) -> Rig:
    """Six messages in three batches, of which the last is marked as safe."""
    rig = Rig(SimDisk(), {1, 2}, segment_bytes=4096)
    for _ in range(3):
        rig.publish(1)
        rig.publish(1, 2)
        rig.flush()
    if is_marked:
        rig.log.mark_safe()
        rig.flush(must_sync=False)
        rig.flush(must_sync=False)
    return rig


def is_silent(image: Image, rig: Rig) -> bool:
    """Whether a start says nothing, though something confirmed is not there."""
    back = recovered_from(image, {1, 2}, 4096)
    expected = rig.expected()
    found: dict[tuple[int, int], bytes] = {}
    is_told = bool(back.report.lost or back.report.unreadable)
    for queue_id in (1, 2):
        each, damaged = legible(back, queue_id)
        found |= each
        is_told = is_told or bool(damaged)
    expected.compare(found)
    return not is_told and any(entry not in found for entry in expected.required)


def silent_states(rig: Rig) -> list[str]:
    """Every bit of every file turned over, and the log cut at every place."""
    image = rig.disk.contents()
    states = [(str(which), one) for which, one in flips(image, 1)]
    for size in range(len(image[LOG])):
        states.append((f"cut to {size}", {**image, LOG: image[LOG][:size]}))
    return [which for which, one in states if is_silent(one, rig)]


def test_f13_every_bit_and_every_cut_before_the_mark_is_told() -> None:
    assert silent_states(marked_rig()) == []


def test_f13_without_the_mark_the_last_batch_is_taken_for_torn() -> None:
    assert silent_states(marked_rig(is_marked=False))


def test_f13_a_recovery_that_ignores_the_mark_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def ignores(slots: list[Slot]) -> int:
        return 0

    monkeypatch.setattr(old_segment, "safe_to", ignores)
    assert silent_states(marked_rig())


def test_f13_what_was_torn_behind_the_mark_is_silent() -> None:
    """Whatever a loss of power leaves of what was never confirmed is no damage."""
    rig = marked_rig()
    before = contents(recovered_from(rig.disk.contents(), {1, 2}, 4096), 1)
    whole = len(rig.disk.contents()[LOG])
    rig.publish(1, size=300)
    rig.flush(must_sync=False)
    image = rig.disk.contents()
    for size in range(whole, len(image[LOG])):
        back = recovered_from({**image, LOG: image[LOG][:size]}, {1, 2}, 4096)
        assert not back.report.lost
        assert contents(back, 1) == before
    replay = Replay(rig.disk)
    count = 0
    while replay.step():
        for state in replay.states(Dice(3), 10):
            count += 1
            assert not recovered_from(state, {1, 2}, 4096).report.lost
    assert count > 50


@pytest.mark.parametrize("mode", MODES)
def test_an_idle_store_says_it_once(mode: str) -> None:
    depot = Synced(mode)

    def writes(milliseconds: int) -> int:
        """To any file, in so much time."""
        before = len(depot.files.ops)
        for _ in range(milliseconds // 50):
            depot.pass_ms(50)
        return sum(op.kind == WRITE for op in depot.files.ops[before:])

    for _ in range(2):
        count = 0
        for _ in range(20):
            depot.publish()
            depot.write()
            count += writes(100)
        count += writes(2500)
        assert count > 0 or mode not in (ALWAYS, INTERVAL)
        assert not depot.store.log.fresh
        assert writes(60_000) == 0, "an idle store writes nothing"


def damaged(path: Path, at: int, is_cut: bool) -> None:
    data = bytearray(path.read_bytes())
    if is_cut:
        del data[at:]
    else:
        data[at] ^= 0x10
    path.write_bytes(data)


def test_f13_a_killed_broker_tells_what_was_damaged(tmp_path: Path) -> None:
    """A real one, idle before it is killed: in the last message, in earlier ones, at the end."""
    data = tmp_path / "data"
    count = 10
    with served(data, tmp_path) as broker:
        publisher = Publisher(broker)
        publisher.declare("d1")
        for number in range(count):
            publisher.publish("", "d1", b"%04d" % number + b"x" * 96)
            publisher.finish()
        acks = next(iter(data.rglob("*.log"))).with_suffix(".acks")
        deadline = time.monotonic() + PATIENCE_S
        while not acks.exists() or acks.stat().st_size == 0:
            assert time.monotonic() < deadline, "no mark"
            time.sleep(0.05)
        broker.process.send_signal(signal.SIGKILL)
        broker.process.wait()
        publisher.close()
    (log,) = data.rglob("*.log")
    size = log.stat().st_size
    record = (size - 64) // count
    places = [(size - 10, False), (size - record + 9, False), (64 + 3 * record + 60, False)]
    places += [(size - 1, True), (size - record, True), (64 + 2 * record, True), (64, True)]
    for number, (at, is_cut) in enumerate(places):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(data, copy)
        damaged(copy / log.relative_to(data), at, is_cut)
        checked = subprocess.run(
            [*CHECK, "--data", str(copy)], capture_output=True, timeout=PATIENCE_S, check=False
        )
        assert checked.returncode == 1, (at, is_cut, checked.stdout.decode())
        if number in (0, 4):
            with served(copy, tmp_path) as broker:
                assert "damaged" in broker.errors.read_text(), (at, is_cut)
    with served(data, tmp_path) as broker:
        assert len(recovered(broker, "d1")) == count
        assert "damaged" not in broker.errors.read_text()
