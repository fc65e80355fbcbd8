"""A clean stop while a batch is under way, or waits for room: what was taken is kept all the
same."""

from errno import ENOSPC
from pathlib import Path

from penstock.broker.store.store_actor import StoreActor
from penstock.server.disk.data_directory import CLEAN
from tests.unit.broker.peer import Peer, publish
from tests.unit.server.lease_bed import PERSISTENT, LeaseBed, spark


def store_of(bed: LeaseBed) -> StoreActor:
    return bed.broker.stores.stores["/"]


def sent(bed: LeaseBed, peer: Peer, body: bytes) -> None:
    """Published without a confirm; the disk does nothing."""
    peer.send(publish(1, "", "q", body, PERSISTENT))
    bed.run()


def begun(path: Path) -> tuple[LeaseBed, Peer]:
    bed = LeaseBed(path)
    peer = spark(bed)
    bed.work()
    return bed, peer


def is_clean(bed: LeaseBed) -> bool:
    return (bed.boot.paths["/"] / CLEAN).exists()


def test_a_batch_that_the_disk_was_given_too_late(tmp_path: Path) -> None:
    """The run after one batch ends sends the next, even if the disk thread has ended by then."""
    bed, peer = begun(tmp_path)
    sent(bed, peer, b"first")
    sent(bed, peer, b"second")
    bed.disk.work(1)
    bed.run()
    assert store_of(bed).batch is not None
    bed.disk.jobs.clear()
    bed.boot.close()
    assert is_clean(bed)
    bed.die()
    bed = LeaseBed(tmp_path)
    assert bed.ready() == 2
    bed.die()


def test_a_batch_that_waited_for_room_is_tried_once_more(tmp_path: Path) -> None:
    bed, peer = begun(tmp_path)
    sent(bed, peer, b"first")
    sent(bed, peer, b"second")
    bed.disk.fault = OSError(ENOSPC, "no space left on device")
    bed.disk.work(1)
    assert store_of(bed).is_full
    bed.boot.close()
    assert is_clean(bed) and not bed.log.errors
    bed.die()
    bed = LeaseBed(tmp_path)
    assert bed.ready() == 2
    bed.die()


def test_what_still_finds_no_room_is_said(tmp_path: Path) -> None:
    bed, peer = begun(tmp_path)
    sent(bed, peer, b"first")
    store_of(bed).log.handles.is_broken = True
    bed.boot.close()
    assert not is_clean(bed)
    assert [text for text, _ in bed.log.errors] == ["the last batch of messages is not on the disk"]
    bed.die()
