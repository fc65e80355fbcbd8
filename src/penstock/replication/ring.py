"""The last entries of the log, kept so that followers that were away for a moment need no copy."""

from collections import deque

from penstock.replication.positions import Entry, Position


class Ring:
    """Entries in a row, oldest first; bytes are those of payloads and publishes.

    base: the position before the oldest, None when nobody can be brought from there.
    """

    __slots__ = ("_ends", "_entries", "_gone", "base")

    def __init__(self, base: Position | None) -> None:
        self.base = base
        self._entries: deque[Entry] = deque()
        # Bytes from the first entry ever to the end of each.
        self._ends: deque[int] = deque()
        self._gone = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def bytes(self) -> int:
        return self._ends[-1] - self._gone if self._ends else 0

    def append(self, entry: Entry) -> None:
        """Behind the last."""
        last = self._entries[-1].position if self._entries else self.base
        assert last is None or entry.seq == last.seq + 1, "the log has no gaps"
        before = self._ends[-1] if self._ends else self._gone
        self._entries.append(entry)
        self._ends.append(before + len(entry.payload) + len(entry.publishes))

    def trim(self, bytes_: int, upto_seq: int) -> None:
        """Give up the oldest entries until `bytes_` are left, none behind `upto_seq`."""
        while self._entries and self.bytes > bytes_ and self._entries[0].seq <= upto_seq:
            self.base = self._entries.popleft().position
            self._gone = self._ends.popleft()

    def reaches(self, position: Position) -> bool:
        """Whether the entries behind `position` are here, and it is one of this log."""
        return position == self.base or self.position_at(position.seq) == position

    def position_at(self, seq: int) -> Position | None:
        """The position with that number, None when its entry is not here."""
        if self.base is not None and self.base.seq == seq:
            return self.base
        index = self._index(seq)
        return None if index is None else self._entries[index].position

    def behind(self, seq: int, bytes_: int) -> tuple[Entry, ...]:
        """Entries from `seq` + 1 on, at least one and otherwise no more than `bytes_`."""
        index = self._index(seq + 1)
        if index is None:
            return ()
        found: list[Entry] = []
        left = bytes_
        while index < len(self._entries):
            entry = self._entries[index]
            left -= len(entry.payload) + len(entry.publishes)
            if found and left < 0:
                break
            found.append(entry)
            index += 1
        return tuple(found)

    def bytes_between(self, after: int, upto: int) -> int:
        """Bytes of the entries `after` + 1 .. `upto`, as far as they are here."""
        return max(0, self._end_of(upto) - self._end_of(after))

    def _end_of(self, seq: int) -> int:
        if not self._entries or seq < self._entries[0].seq:
            return self._gone
        return self._ends[min(seq - self._entries[0].seq, len(self._ends) - 1)]

    def _index(self, seq: int) -> int | None:
        if not self._entries:
            return None
        index = seq - self._entries[0].seq
        return index if 0 <= index < len(self._entries) else None
