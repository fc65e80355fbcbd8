"""Which files a store has, as they come and go, so that one that is gone after a kill is missed.

    ROSTER    header 64 | slot 64 ...

    header  "PENSROST" 8 | version 4 | checksum 4 | machine 8
    slot    kind 1 | 0 3 | checksum 4 | one 8 | two 8 | safe_to 8 | safe_next 8; zeros for nothing
      LOG      one: number of a segment; safe_next: messages that counted in it when this was said
      ACKED    the same, and it has a file of acknowledgements
      STREAM   one: queue, two: first offset of a segment; everything in it before the place safe_to
               and the offset safe_next was on the disk for good when this was said
      END      one: queue, two: -1; safe_next: the offset it gives next

A name is here from after it was made until before it goes. Nothing of it is ever synced, so it
costs no confirm anything: a kill takes nothing from it, and what a loss of power leaves is believed
as far as it can be. That a file is there holds as long as the machine runs (`machine` is of this
start of it); what was safe stays so.

Written anew at every start, and away after a clean stop. It is there for the sake of others, so it
fails in silence: what cannot be noted takes the whole of it away, until it can be.
"""

import struct
import zlib
from contextlib import suppress
from typing import Final

from mypy_extensions import i64

from penstock.storage.layout.files import Directory, read_fully, write_fully

ROSTER: Final = "ROSTER"
NEW: Final = "ROSTER.new"
ROSTERS: Final = (ROSTER, NEW)
MAGIC: Final = b"PENSROST"
VERSION: Final = 1
SLOT_BYTES: Final = 64
"""A power of two: no slot lies across two pages, so none is half written by a kill."""
HEAD: Final = struct.Struct(">8sII8s")
SLOT: Final = struct.Struct(">BxxxIqqqq")
IS_LOG: Final = 1
IS_ACKED: Final = 2
IS_STREAM: Final = 3
IS_END: Final = 4
MACHINE_BYTES: Final = 8
UNSAID: Final = -1
UNKNOWN: Final = bytes(MACHINE_BYTES)
"""The machine of a roster that says nothing of files any more."""


class Entry:
    """What one slot says. place: of the slot, -1 while it has none."""

    __slots__ = ("kind", "one", "place", "safe_next", "safe_to", "two")

    def __init__(self, kind: i64, one: i64, two: i64, safe_to: i64 = 0, safe_next: i64 = 0) -> None:
        self.kind: i64 = kind
        self.one: i64 = one
        self.two: i64 = two
        self.safe_to: i64 = safe_to
        self.safe_next: i64 = safe_next
        self.place: i64 = -1

    def packed(self, place: i64) -> bytes:
        """The slot at `place`."""
        return self._pack(self.checksum(place)).ljust(SLOT_BYTES, b"\0")

    def checksum(self, place: i64) -> int:
        """Of the slot at `place`."""
        return zlib.crc32(self._pack(int(place)))

    def _pack(self, checksum: int) -> bytes:
        return SLOT.pack(self.kind, checksum, self.one, self.two, self.safe_to, self.safe_next)


class Roster:
    """is_kept: there is one; without `begin` there is none, and nothing is written. entries: by
    what `one` and `two` are, bounded by the files of the store.

    Only jobs touch it, and whoever brings the store back."""

    __slots__ = ("count", "directory", "entries", "free", "is_begun", "is_kept", "machine")

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.machine = UNKNOWN
        self.entries: dict[tuple[int, int], Entry] = {}
        self.free: list[int] = []
        self.count: i64 = 0
        self.is_begun = False
        self.is_kept = False

    def begin(self, machine: bytes, entries: list[Entry]) -> None:
        """From now on there is one, which has `entries`. machine: MACHINE_BYTES."""
        self.machine = machine
        self.entries = {(int(one.one), int(one.two)): one for one in entries}
        self.is_begun = True
        self._write_whole()

    def _write_whole(self) -> None:
        """Beside the one that is there, and then in its place."""
        self.free = []
        self.count = 0
        slots: list[bytes] = [_header(self.machine)]
        for entry in self.entries.values():
            entry.place = self.count
            slots.append(entry.packed(self.count))
            self.count += 1
        try:
            with suppress(FileNotFoundError):
                self.directory.remove(NEW)
            file = self.directory.create(NEW)
            try:
                write_fully(file, 0, b"".join(slots))
            finally:
                file.close()
            self.directory.rename(NEW, ROSTER)
            self.is_kept = True
        except OSError:
            self._give_up()

    def note(self, kind: i64, one: i64, two: i64, safe_next: i64 = UNSAID) -> None:
        """A file was made, or has acknowledgements, or so many messages."""
        if not self.is_begun:
            return
        key = (int(one), int(two))
        entry = self.entries.get(key)
        if entry is None:
            entry = Entry(kind, one, two)
            self.entries[key] = entry
        if kind > entry.kind:
            entry.kind = kind
        if safe_next != UNSAID:
            entry.safe_next = safe_next
        self._write([entry])

    def mark(self, marks: list[Entry]) -> None:
        """More of these files is safe; those that are not there any more are passed over."""
        changed: list[Entry] = []
        for mark in marks:
            entry = self.entries.get((int(mark.one), int(mark.two)))
            if entry is not None:
                entry.safe_to = mark.safe_to
                entry.safe_next = mark.safe_next
                changed.append(entry)
        if changed:
            self._write(changed)

    def drop(self, one: i64, two: i64) -> None:
        """A file is about to go."""
        entry = self.entries.pop((int(one), int(two)), None)
        if entry is None or not self.is_kept:
            return
        self.free.append(int(entry.place))
        self._write_slots({int(entry.place): bytes(SLOT_BYTES)})

    def _write(self, changed: list[Entry]) -> None:
        if not self.is_kept:
            self._write_whole()
            return
        slots: dict[int, bytes] = {}
        for entry in changed:
            if entry.place < 0 and self.free:
                entry.place = self.free.pop()
            elif entry.place < 0:
                entry.place = self.count
                self.count += 1
            slots[int(entry.place)] = entry.packed(entry.place)
        self._write_slots(slots)

    def _write_slots(self, slots: dict[int, bytes]) -> None:
        """By place; those that stand behind one another by one call."""
        try:
            file = self.directory.open(ROSTER)
            try:
                places = sorted(slots)
                at: i64 = 0
                while at < len(places):
                    first: i64 = places[at]
                    row: list[bytes] = []
                    while at < len(places) and places[at] == first + len(row):
                        row.append(slots[places[at]])
                        at += 1
                    write_fully(file, (first + 1) * SLOT_BYTES, b"".join(row))
            finally:
                file.close()
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        """None is better than one that speaks of what is gone for a good reason."""
        self.is_kept = False
        for name in ROSTERS:
            with suppress(OSError):
                self.directory.remove(name)

    def end(self) -> None:
        """A clean stop: what there is then is said by others."""
        if self.is_begun:
            self.is_begun = False
            self._give_up()


def _header(machine: bytes) -> bytes:
    checksum = zlib.crc32(HEAD.pack(MAGIC, VERSION, 0, machine))
    return HEAD.pack(MAGIC, VERSION, checksum, machine).ljust(SLOT_BYTES, b"\0")


# -- what an earlier life has left -----------------------------------------------------------------


class Kept:
    """A roster that was read. machine: UNKNOWN where there is none, or none that can be believed;
    entries: slots that are whole."""

    __slots__ = ("entries", "machine")

    def __init__(self, machine: bytes, entries: list[Entry]) -> None:
        self.machine = machine
        self.entries = entries

    def marks(self) -> dict[tuple[int, int], Entry]:
        """What is said of segments of streams, by queue number and first offset."""
        return {(int(one.one), int(one.two)): one for one in self.entries if one.kind == IS_STREAM}


def read_roster(directory: Directory) -> Kept:
    """What there is of it in `directory`. Raises: OSError."""
    try:
        file = directory.open(ROSTER)
    except FileNotFoundError:
        return Kept(UNKNOWN, [])
    try:
        data = read_fully(file, 0, file.size())
    finally:
        file.close()
    if len(data) < SLOT_BYTES:
        return Kept(UNKNOWN, [])
    machine = bytes(HEAD.unpack_from(data)[3])
    if data[:SLOT_BYTES] != _header(machine):
        return Kept(UNKNOWN, [])
    entries: list[Entry] = []
    for place in range(len(data) // SLOT_BYTES - 1):
        found = SLOT.unpack_from(data, (place + 1) * SLOT_BYTES)
        entry = Entry(found[0], found[2], found[3], found[4], found[5])
        if IS_LOG <= entry.kind <= IS_END and entry.checksum(place) == found[1]:
            entries.append(entry)
    return Kept(machine, entries)


def disown(directory: Directory) -> None:
    """Before files go without being noted: what is there says nothing of files any more. What it
    says of safe places stays."""
    try:
        file = directory.open(ROSTER)
        try:
            write_fully(file, 0, _header(UNKNOWN))
        finally:
            file.close()
    except OSError:
        with suppress(OSError):
            directory.remove(ROSTER)
