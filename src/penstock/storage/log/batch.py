"""What is written at once: records, acknowledgements, footers, and files that are not needed."""

from mypy_extensions import i64, mypyc_attr

from penstock.base.wire import BytesWriter
from penstock.storage.layout.files import (
    File,
    SyncFailed,
    can_wait,
    is_scarce,
    write_all,
    write_fully,
)
from penstock.storage.layout.footer import make_footer
from penstock.storage.layout.format import LOG, WAS_USED, header
from penstock.storage.layout.pieces import Pieces
from penstock.storage.layout.segment import Segment
from penstock.storage.log.handles import Handles
from penstock.storage.log.job import Job
from penstock.storage.log.roster import IS_ACKED, IS_LOG, UNSAID


class SegmentWrite:
    """Bytes for the end of one segment. at, end: offsets in it, at 0 for its first, which begins
    with the headers; pieces: the bytes behind those; writer: see there."""

    __slots__ = ("at", "end", "pieces", "segment")

    def __init__(self, segment: Segment, at: i64, writer: BytesWriter) -> None:
        self.segment = segment
        self.at: i64 = at
        self.end: i64 = at
        self.pieces = Pieces(writer)


class AckDeed:
    """Bytes for the file of acknowledgements of one segment; at: 0 for a file that is new; live:
    messages that count in the segment, UNSAID when nobody is to be told."""

    __slots__ = ("at", "data", "is_created", "live", "number")

    def __init__(self, number: i64, at: i64, data: bytes, live: i64) -> None:
        self.number: i64 = number
        self.live: i64 = live
        self.at: i64 = at
        self.data = data
        self.is_created = at > 0


@mypyc_attr(allow_interpreted_subclasses=True)
class Batch(Job):
    """One batch. chunks, acks: what is written; full: segments that get their footer; removals:
    segments nobody needs; is_sync: whether it ends with a sync; is_last: of a clean stop, which
    syncs acknowledgements too, as one with syncs_acks does; ack_syncs: so many of their files at
    most that a batch without either syncs; owes_acks: some are not safe afterwards, is_in_round:
    among them such as had waited before (storage/log/handles); synced: what is safe afterwards, as
    segments and offsets; counted: the same of acknowledgements that it syncs; publishes: that are
    in the log with it, see `holds`.

    A run that found the disk full, or no handle to be had, may be run again: everything has its
    fixed place. Raises: SyncFailed once a sync has failed, at this and every later run.
    """

    __slots__ = (
        "ack_syncs",
        "acks",
        "chunks",
        "counted",
        "full",
        "handles",
        "is_in_round",
        "is_last",
        "is_sync",
        "owes_acks",
        "publishes",
        "removals",
        "synced",
        "syncs_acks",
    )

    def __init__(self, handles: Handles, is_sync: bool) -> None:
        self.handles = handles
        self.is_sync = is_sync
        self.is_last = False
        self.syncs_acks = False
        self.ack_syncs: i64 = 0
        self.owes_acks = False
        self.is_in_round = False
        self.publishes = b""
        self.chunks: list[SegmentWrite] = []
        self.acks: list[AckDeed] = []
        self.counted: list[tuple[Segment, int]] = []
        self.full: list[Segment] = []
        self.removals: list[Segment] = []
        self.synced: list[tuple[Segment, int]] = []

    def holds(self, publishes: bytes) -> None:
        self.publishes = publishes

    def run(self) -> None:
        handles = self.handles
        if handles.is_broken:
            raise SyncFailed("a sync of this message store has failed: nothing is written any more")
        try:
            self.write()
        except SyncFailed:
            raise
        except OSError as error:
            if not can_wait(error):
                handles.is_broken = True
                raise
            if not self._finds_more(error):
                raise
            self._write_again()
        handles.spares.has_no_room = False
        self.remove_acks()
        self.owes_acks = len(handles.owed_acks) > 0
        self.is_in_round = len(handles.ack_round) > 0
        if self.is_last:
            handles.roster.end()

    def _finds_more(self, error: OSError) -> bool:
        """Whether what was missing could be had from what is kept for speed alone."""
        handles = self.handles
        if is_scarce(error):
            return handles.give_up_idle()
        handles.spares.has_no_room = True
        return handles.spares.make_room()

    def _write_again(self) -> None:
        """There is room that only spares had taken, or handles that nobody was using."""
        try:
            self.write()
        except SyncFailed:
            raise
        except OSError as error:
            if not can_wait(error):
                self.handles.is_broken = True
            raise

    def write(self) -> None:
        """Everything but the removal of acknowledgements. Raises: OSError."""
        handles = self.handles
        # First, because it gives room, and nothing in this batch depends on what goes.
        self.remove_logs()
        self.write_chunks()
        if self.publishes:
            handles.directory.note_publishes(self.publishes)
        self.write_acks()
        if self.is_sync:
            self.sync()
        self.write_footers()
        if self.is_last:
            handles.spares.give_back()
            handles.sync_all()
            handles.close()

    def remove_logs(self) -> None:
        for segment in self.removals:
            self.handles.let_go(segment)

    def write_chunks(self) -> None:
        handles = self.handles
        for chunk in self.chunks:
            segment = chunk.segment
            file = handles.log(segment)
            if chunk.at == 0:
                write_all(file, 0, [first_bytes(segment), *chunk.pieces.parts])
            else:
                write_all(file, chunk.at, chunk.pieces.parts)
            handles.written(segment)

    def write_acks(self) -> None:
        """Synced now and then: a lost acknowledgement is a redelivery."""
        handles = self.handles
        for deed in self.acks:
            file = handles.acks(deed.number, deed.is_created)
            deed.is_created = True
            write_fully(file, deed.at, deed.data)
            if deed.live != UNSAID:
                handles.roster.note(IS_ACKED, deed.number, 0, deed.live)
        for segment, _ in self.counted:
            handles.sync_acks_of(segment.number)
        if self.is_last or self.syncs_acks:
            handles.sync_acks()
        elif self.ack_syncs > 0:
            handles.sync_acks(int(self.ack_syncs))

    def sync(self) -> None:
        self.handles.sync_all()

    def write_footers(self) -> None:
        """Behind records that are safe: a footer is believed without looking at them."""
        handles = self.handles
        for segment in self.full:
            file = handles.log(segment)
            handles.secure(segment.number)
            footer = make_footer(segment)
            write_fully(file, segment.end, footer)
            if segment.was_used:
                cut_behind(file, segment.end + len(footer))
            handles.roster.note(IS_LOG, segment.number, 0, segment.live)
            if self.is_last:
                handles.written(segment)

    def remove_acks(self) -> None:
        """Last, because without it its segment would come back whole."""
        handles = self.handles
        for segment in self.removals:
            if segment.acks_end > 0:
                segment.acks_end = 0
                # This batch may have written to it.
                handles.leave_acks(segment.number)
        handles.remove_orphans(self.is_sync and not self.is_last)


def first_bytes(segment: Segment) -> bytes:
    """The header, twice. They are made when it is known whether the file has had another life."""
    uses = WAS_USED if segment.was_used else 0
    return header(LOG, int(segment.version), int(segment.number), segment.identity, uses) * 2


def cut_behind(file: File, end: i64) -> None:
    """Take away what an earlier life of `file` has left behind `end`."""
    if file.size() > end:
        file.truncate(int(end))
