"""What a log may go through, short enough that every crash state of it can be looked at."""

from collections.abc import Callable

from penstock.simulation.machine.disk import SimDisk
from penstock.storage.log.recycled import GiveBack
from tests.crash.rig import Rig

History = Callable[[], Rig]


def one_queue() -> Rig:
    """Publish and settle in one queue, over several segments."""
    rig = Rig(SimDisk(), {1})
    for turn in range(8):
        for _ in range(3):
            rig.publish(1)
        rig.flush()
        if turn > 1:
            rig.settle(1, turn * 2 - 3, turn * 2 - 2)
    rig.flush()
    return rig


def fan_out() -> Rig:
    """One body for three queues, which settle at different times."""
    rig = Rig(SimDisk(), {1, 2, 3})
    for turn in range(6):
        rig.publish(1, 2, 3, size=90)
        rig.publish(2)
        rig.flush()
        rig.settle(1, turn + 1)
        if turn > 3:
            rig.settle(2, turn, turn + 2)
    rig.flush()
    return rig


def overlapping() -> Rig:
    """The next batch is filled, and settled in, while one is under way."""
    rig = Rig(SimDisk(), {1, 2})
    under_way = None
    for turn in range(9):
        rig.publish(1, 2, size=60)
        rig.publish(1)
        taken = rig.take()
        rig.publish(2, size=10)
        if under_way is not None:
            rig.run(under_way)
        under_way = taken
        if turn > 1:
            rig.settle(1, turn)
    rig.run(under_way)
    rig.flush()
    return rig


def large() -> Rig:
    """Messages larger than a segment, between small ones."""
    rig = Rig(SimDisk(), {1, 2})
    rig.publish(1)
    rig.flush()
    rig.publish(1, 2, size=1500)
    rig.publish(1)
    rig.flush()
    rig.publish(2, size=900)
    rig.publish(2, size=900)
    rig.flush()
    rig.settle(2, 1, 2)
    rig.settle(1, 2)
    rig.flush()
    rig.publish(1, 2)
    rig.flush()
    return rig


def purged() -> Rig:
    """A purge, then new messages; segments without anything that counts are removed."""
    rig = Rig(SimDisk(), {1, 2})
    for _ in range(12):
        rig.publish(1, size=70)
        rig.publish(2)
    rig.flush()
    rig.purge(1, 11)
    rig.flush()
    for _ in range(4):
        rig.publish(1, 2)
        rig.flush()
    rig.purge(2, 100)
    rig.flush()
    rig.publish(2)
    rig.flush()
    return rig


def deleted() -> Rig:
    """A queue is deleted while others of its segments go on."""
    rig = Rig(SimDisk(), {1, 2})
    for _ in range(8):
        rig.publish(1, 2, size=80)
        rig.flush()
    rig.drop(2)
    rig.publish(1)
    rig.flush()
    rig.settle(1, *range(1, 6))
    rig.flush()
    rig.publish(1)
    rig.flush()
    return rig


def unsynced() -> Rig:
    """Batches that are not synced, and one that is now and then."""
    rig = Rig(SimDisk(), {1})
    for turn in range(9):
        rig.publish(1, size=60)
        rig.publish(1)
        rig.flush(must_sync=turn % 3 == 2)
        if turn == 5:
            rig.settle(1, 1, 2, 3, 4)
    rig.flush()
    return rig


def stopped() -> Rig:
    """A clean stop and another life on the same disk."""
    rig = Rig(SimDisk(), {1, 2})
    for _ in range(5):
        rig.publish(1, 2)
        rig.flush()
    rig.settle(1, 1, 2, 3)
    rig.stop()
    return rig


def killed() -> Rig:
    """A process was killed: what it wrote is there for the next one, but not safe."""
    first = fan_out()
    first.publish(1, 2, size=120)
    first.run(first.take(must_sync=False))
    return next_life(first)


def compacted() -> Rig:
    """Most of several segments is settled, the rest is copied, and more happens meanwhile."""
    rig = Rig(SimDisk(), {1, 2}, segment_bytes=1200)
    for _ in range(14):
        rig.publish(1, 2, size=60)
    rig.flush()
    rig.settle(1, *(position for position in range(1, 15) if position % 4))
    rig.settle(2, *(position for position in range(1, 15) if position % 3))
    rig.flush()
    rig.publish(1, 2)
    job = rig.compactor.plan(150)
    assert job is not None, "there is something to compact"
    job.run()
    rig.settle(1, 4)
    rig.settle(2, 12)
    rig.compactor.copy(job)
    before = len(rig.log.segments)
    rig.compact()
    assert len(rig.log.segments) < before, "something was compacted"
    rig.publish(2)
    rig.settle(1, 8)
    rig.flush()
    return rig


def settled_at_once() -> Rig:
    """Messages are settled before they are on the disk."""
    rig = Rig(SimDisk(), {1}, segment_bytes=2000)
    for turn in range(6):
        first = rig.publish(1)[0][1]
        rig.publish(1, size=90)
        rig.publish(1)
        rig.settle(1, first, first + 2)
        rig.flush(must_sync=turn != 3)
    rig.flush()
    return rig


def killed_while_compacting() -> Rig:
    """A process was killed when copies were written and not yet safe; the next one finds both."""
    first = Rig(SimDisk(), {1}, segment_bytes=1200)
    for _ in range(14):
        first.publish(1, size=60)
    first.flush()
    first.settle(1, 1, 2, 3, 5, 6)
    first.flush()
    job = first.compactor.plan(10_000)
    assert job is not None, "there is something to compact"
    job.run()
    first.compactor.copy(job)
    first.run(first.take(must_sync=False))
    return next_life(first)


def grouped() -> Rig:
    """Groups for several queues, small and larger than a segment, between single messages."""
    rig = Rig(SimDisk(), {1, 2, 3})
    for turn in range(5):
        rig.publish(1)
        first = rig.publish_group((1, 2), (3,), (1, 2, 3), (2,))
        rig.publish(3)
        rig.flush(must_sync=turn != 2)
        if turn > 1:
            rig.settle(*first[0])
    rig.publish_group((1,), (2, 3), size=500)
    rig.publish_group((3,))
    rig.flush()
    rig.publish_group((2,), (2,))
    rig.publish(2)
    return rig


def grouped_and_compacted() -> Rig:
    """Segments with groups are compacted while others are appended."""
    rig = Rig(SimDisk(), {1, 2}, segment_bytes=1200)
    for turn in range(8):
        for each in rig.publish_group((1, 2), (1,), (2,), size=60):
            if turn % 3 and each[0] == 1:
                rig.settle(*each)
        rig.flush()
    rig.compact()
    rig.publish_group((1,), (2,))
    rig.settle(2, *range(1, 6))
    rig.compact()
    rig.flush()
    return rig


def reused() -> Rig:
    """Segments are emptied and written over, with records of the same size, so that those of an
    earlier life begin just where the new ones end."""
    rig = Rig(SimDisk(), {1})
    for turn in range(12):
        for _ in range(2):
            rig.publish(1, size=90)
        rig.flush()
        if turn > 1:
            rig.settle(1, turn * 2 - 3, turn * 2 - 2)
            rig.flush()
    assert rig.log.spares.taken_count > 2, "files were used again"
    return rig


def reused_by_others() -> Rig:
    """Every life of a file is of another shape: a body for three queues, groups, messages that need
    a segment for themselves; batches that are not synced, and several segments in one batch."""
    rig = Rig(SimDisk(), {1, 2, 3}, segment_bytes=900)
    for turn in range(11):
        rig.publish(1, 2, 3, size=20 + turn * 17 % 90)
        if turn % 3 == 1:
            rig.publish_group((1, 2), (3,), (2,), size=30)
        elif turn % 3 == 2:
            for _ in range(4):
                rig.publish(2, size=100)
        if turn == 6:
            rig.publish(3, size=1200)
        rig.flush(must_sync=turn % 4 != 1)
        if turn > 0:
            for queue_id in (1, 2, 3):
                rig.purge(queue_id, int(rig.queues[queue_id].next_position) - 2)
    rig.flush()
    assert rig.log.spares.taken_count > 2, "files were used again"
    return rig


def reused_by_copies() -> Rig:
    """What compaction copies goes into files that were used before, and so do new messages."""
    rig = Rig(SimDisk(), {1, 2}, segment_bytes=1200)
    for _ in range(4):
        for _ in range(10):
            rig.publish(1, 2, size=60)
        rig.flush()
        last = int(rig.queues[1].next_position)
        rig.purge(2, last - 1)
        rig.settle(1, *(position for position in range(last - 10, last) if position % 5))
        rig.flush()
        rig.compact()
    rig.publish(1, 2)
    rig.flush()
    assert rig.log.spares.taken_count > 1, "files were used again"
    return rig


def reused_and_given_back() -> Rig:
    """The next batch is filled while one is under way; now and then there is no room, or somebody
    else needs it, and nothing is kept; and a clean stop."""
    rig = Rig(SimDisk(), {1, 2})
    under_way = None
    for turn in range(15):
        rig.publish(1, 2, size=80)
        rig.publish(1, size=80)
        taken = rig.take()
        if under_way is not None:
            if turn == 10:
                rig.disk.room = 100
            rig.run(under_way)
            rig.disk.room = -1
        under_way = taken
        if turn == 12:
            GiveBack(rig.log.spares).run()
        if turn > 1:
            rig.purge(1, turn * 2 - 3)
            rig.purge(2, turn - 1)
    rig.run(under_way)
    assert rig.log.spares.taken_count > 2, "files were used again"
    rig.stop()
    return rig


def reused_and_killed() -> Rig:
    """A process was killed that had written over files and kept others."""
    first = reused()
    first.publish(1, size=90)
    first.purge(1, int(first.queues[1].next_position) - 1)
    first.flush(must_sync=False)
    first.publish(1, size=90)
    first.flush(must_sync=False)
    assert first.log.spares.kept_bytes > 0, "something is left behind"
    return next_life(first)


def next_life(first: Rig) -> Rig:
    """Another process on the disk of a killed one: what that wrote is there, safe or not."""
    before = len(first.disk.ops)
    life = Rig(first.disk, set(first.expected().queues), first.segment_bytes, seed=2)
    life.events = [event for event in first.events if event[0] <= before] + life.events
    life.bodies = dict(first.bodies)
    for _ in range(3):
        life.publish(1)
        life.flush()
    life.settle(1, int(life.queues[1].first_position()))
    life.flush()
    return life


HISTORIES: dict[str, History] = {
    history.__name__: history
    for history in (
        one_queue,
        fan_out,
        overlapping,
        large,
        purged,
        deleted,
        compacted,
        settled_at_once,
        killed_while_compacting,
        grouped,
        grouped_and_compacted,
        reused,
        reused_by_others,
        reused_by_copies,
        reused_and_given_back,
        reused_and_killed,
        unsynced,
        stopped,
        killed,
    )
}
