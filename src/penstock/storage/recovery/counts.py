"""How often messages came back, as a start finds it beside their segments; and what a start adds to
their acknowledgements."""

from collections.abc import Sequence
from errno import EDQUOT, ENOSPC

from penstock.storage.layout.acks import write_slot
from penstock.storage.layout.files import Directory, File, SyncFailed, write_fully
from penstock.storage.layout.format import RETURNED, acks_name
from penstock.storage.layout.segment import Segment
from penstock.storage.log.log import MessageLog
from penstock.storage.recovery.old_segment import OldSegment


def carry_counts(
    log: MessageLog,
    wrecks: Sequence[OldSegment],
    directory: Directory,
    changed: dict[Segment, None],
) -> None:
    """Give the queues of `log` the counts of what they have. A crash while a segment was compacted
    leaves some beside the older copy of a message only: they are made safe beside the newer one,
    before the older may go, and so is what else the segments `changed` have got slots for. Without
    room for that the first batch does it. Raises: OSError, SyncFailed."""
    for wreck in wrecks:
        for queue_id, counts in wreck.returned.items():
            index = log.queues[queue_id]
            for position, count in counts.items():
                run = index.find(position)
                if run is not None and run.has(position):
                    index.returned[position] = max(index.returned.get(position, 0), count)
    known = {int(wreck.segment.number): wreck.returned for wreck in wrecks}
    for index in log.queues.values():
        for position, count in index.returned.items():
            run = index.find(position)
            assert run is not None, "only what counts has a count"
            segment = run.table.segment
            beside = known[int(segment.number)].get(int(index.queue_id), {})
            if beside.get(position, 0) < count:
                write_slot(segment, RETURNED, index.queue_id, position, position, count)
                changed[segment] = None
    for segment in changed:
        if not _write(segment, directory) and segment.live > 0:
            log.acking[segment] = None
    if changed:
        directory.sync()


def _write(segment: Segment, directory: Directory) -> bool:
    """Write what waits for the acknowledgements of `segment`, behind them; False when there is no
    room. Raises: OSError, SyncFailed."""
    writer = segment.acks
    assert writer is not None, "it has got slots"
    data = writer.getvalue()
    name = acks_name(segment.number)
    is_new = segment.acks_end == 0
    file = directory.create(name) if is_new else directory.open(name)
    try:
        # A slot of which a part was written is written over.
        file.truncate(int(segment.acks_end))
        write_fully(file, segment.acks_end, data)
        _sync(file)
    except SyncFailed:
        raise
    except OSError as error:
        if error.errno not in (ENOSPC, EDQUOT):
            raise
        if is_new:
            directory.remove(name)
        return False
    finally:
        file.close()
    segment.acks = None
    segment.acks_end += len(data)
    return True


def _sync(file: File) -> None:
    try:
        file.sync()
    except OSError as error:
        raise SyncFailed(error.errno, "syncing the message store failed") from error
