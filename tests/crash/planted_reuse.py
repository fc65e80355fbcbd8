"""Bugs of files that are used again, which the crash states have to find."""

from collections.abc import Callable

import pytest

from penstock.simulation.machine.dice import Dice
from penstock.storage.layout.files import File, write_all
from penstock.storage.layout.footer import read_footer
from penstock.storage.layout.format import DATA_AT, END, END_BYTES
from penstock.storage.layout.segment import Segment
from penstock.storage.log import batch
from penstock.storage.log.batch import Batch
from penstock.storage.log.handles import Handles
from penstock.storage.log.recycled import RecycledSegments
from penstock.storage.recovery import old_segment as wreck

Plant = Callable[[pytest.MonkeyPatch], None]


def uses_a_name_that_is_not_safe(patch: pytest.MonkeyPatch) -> None:
    """A file is written over before a loss of power can no longer bring its old name back."""
    keep = RecycledSegments.keep

    def keep_and_be_ready(self: RecycledSegments, segment: Segment) -> bool:
        is_kept = keep(self, segment)
        self.names_are_safe()
        return is_kept

    patch.setattr(RecycledSegments, "keep", keep_and_be_ready)


def syncs_names_before_the_new_one(patch: pytest.MonkeyPatch) -> None:
    """The name that a file gets to be used again is made safe by chance only."""
    begun = Handles._begun

    def begun_too_late(self: Handles, segment: Segment, name: str) -> File:
        self.sync_directory()
        file = begun(self, segment, name)
        self.is_directory_dirty = not segment.was_used
        return file

    patch.setattr(Handles, "_begun", begun_too_late)


def keeps_the_identity(patch: pytest.MonkeyPatch) -> None:
    """A file that is used again has the identity of its earlier life."""
    token = Dice.token

    def same(self: Dice, size: int) -> bytes:
        return b"the same" if size == 8 else token(self, size)

    patch.setattr(Dice, "token", same)


def writes_the_header_later(patch: pytest.MonkeyPatch) -> None:
    """The header of a new life is written behind the sync that its records are confirmed for."""

    def heads_last(self: Batch) -> None:
        sync(self)
        for chunk in self.chunks:
            if chunk.at == 0:
                self.handles.log(chunk.segment).write(0, batch.first_bytes(chunk.segment))

    def without_heads(self: Batch) -> None:
        for chunk in self.chunks:
            segment = chunk.segment
            file = self.handles.log(segment)
            start, parts = int(chunk.at), chunk.pieces.parts
            if start == 0 and segment.was_used:
                start = DATA_AT
            elif start == 0:
                parts = [batch.first_bytes(segment), *parts]
            write_all(file, start, parts)
            self.handles.written(segment)

    sync = Batch.sync
    patch.setattr(Batch, "write_chunks", without_heads)
    patch.setattr(Batch, "sync", heads_last)


def believes_old_footers(patch: pytest.MonkeyPatch) -> None:
    """A footer is not asked which segment it is of."""

    def read_footer_of_any(segment: Segment, file: File, size: int) -> bool:
        end = file.read(size - END_BYTES, END_BYTES) if size > END_BYTES else b""
        number = END.unpack(end[: END.size])[5] if len(end) == END_BYTES else 0
        earlier = Segment(number, segment.identity, segment.version)
        if not read_footer(earlier, file, size):
            return False
        segment.end = earlier.end
        segment.tables = earlier.tables
        for table in segment.tables:
            table.segment = segment
        return True

    patch.setattr(wreck, "read_footer", read_footer_of_any)


REUSED: dict[str, tuple[Plant, str]] = {
    "uses a name that is not safe": (uses_a_name_that_is_not_safe, "reused_by_copies"),
    "syncs names before the new one": (syncs_names_before_the_new_one, "reused"),
    "keeps the identity": (keeps_the_identity, "reused"),
    "writes the header later": (writes_the_header_later, "reused"),
    "believes old footers": (believes_old_footers, "reused"),
}
"""What finds it: the crash states of a history."""
