"""Acknowledgements that somebody waits for survive a loss of power; others may come back."""

import pytest

from penstock.simulation.machine.crash import Image, Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.recovery import recovery
from tests.crash.rig import Rig


def after_power_cut(disk: SimDisk) -> Image:
    """What is on the disk for certain."""
    replay = Replay(disk)
    while replay.step():
        continue
    return replay.certain()


@pytest.mark.parametrize("is_awaited", [True, False])
@pytest.mark.parametrize("is_with_records", [True, False])
def test_what_was_settled_stays_settled_if_somebody_waits(
    is_awaited: bool, is_with_records: bool
) -> None:
    disk = SimDisk()
    rig = Rig(disk, {1})
    entries = [rig.publish(1)[0] for _ in range(3)]
    rig.flush()
    rig.settle(1, entries[0][1], entries[1][1])
    if is_with_records:
        rig.publish(1)
    rig.log.wants_ack_sync = is_awaited
    rig.flush()
    assert not rig.log.wants_ack_sync
    recovered = recovery.recover(SimDisk(after_power_cut(disk)), Dice(2), 700, {1})
    count = recovered.log.live_count(recovered.queues[1])
    settled = 2 if is_awaited else 0
    assert count == 3 + is_with_records - settled


def test_a_wait_alone_is_worth_a_batch() -> None:
    """The slots were written with an earlier batch, which had no reason to sync them."""
    disk = SimDisk()
    rig = Rig(disk, {1})
    entries = rig.publish(1)
    rig.flush()
    rig.settle(1, entries[0][1])
    rig.flush()
    assert not rig.log.has_work()
    rig.log.wants_ack_sync = True
    # The rig leaves acknowledgements out of every third batch.
    while rig.log.has_work():
        rig.flush()
    recovered = recovery.recover(SimDisk(after_power_cut(disk)), Dice(2), 700, {1})
    assert recovered.log.live_count(recovered.queues[1]) == 0
