"""Entries that a crash has left twice, as a segment was being compacted: the newer copy counts.

The older one is settled where it stands. As long as it was only passed over, it was there again at
the next start after its newer copy had been settled and that one's segment had gone: what consumers
had acknowledged came back.
"""

from bisect import bisect_left
from collections.abc import Sequence

from penstock.storage.layout.acks import write_slot
from penstock.storage.layout.format import SETTLED
from penstock.storage.layout.segment import Segment
from penstock.storage.recovery.old_segment import OldSegment


class OlderCopies:
    """Those that a start has found, by segment and queue."""

    def __init__(self) -> None:
        self._found: dict[Segment, dict[int, list[int]]] = {}

    def note(self, segment: Segment, queue_id: int, position: int) -> None:
        """The entry at `position` has a newer copy than that in `segment`."""
        self._found.setdefault(segment, {}).setdefault(queue_id, []).append(position)

    def settle(self, wrecks: Sequence[OldSegment]) -> dict[Segment, None]:
        """Their acknowledgements, to be written before anything is removed; the segments that have
        got some. Also in those that go now: a loss of power may undo that. Raises: OSError."""
        for wreck in wrecks:
            if wreck.segment in self._found and wreck.segment.live == 0:
                # Of others that was done before.
                wreck.remove_strange_acks()
        for segment, queues in self._found.items():
            for queue_id, positions in queues.items():
                _settle(segment, queue_id, sorted(positions))
        return dict.fromkeys(self._found)


def _settle(segment: Segment, queue_id: int, positions: list[int]) -> None:
    """As few slots as there may be: none reaches over an entry of the segment that counts."""
    counting = _counting(segment, queue_id)
    first = last = positions[0]
    for position in positions[1:]:
        if bisect_left(counting, last) != bisect_left(counting, position):
            write_slot(segment, SETTLED, queue_id, first, last)
            first = position
        last = position
    write_slot(segment, SETTLED, queue_id, first, last)


def _counting(segment: Segment, queue_id: int) -> list[int]:
    found: list[int] = []
    for run in segment.runs:
        if run.table.queue_id != queue_id:
            continue
        at = int(run.next_live(run.first))
        while 0 <= at <= run.last:
            found.append(at)
            at = int(run.next_live(at + 1))
    return sorted(found)
