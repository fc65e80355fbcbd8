"""Log positions in ascending order with gaps between them, in little memory: which positions of a
stretch of the log belong to one line, where other lines share the log.

    places   head run first..head_last | (gap, length) of each run, varints | last_first..last
Positions in a row cost nothing, a message that has none of its own line beside it two bytes.
"""

from typing import Final

from mypy_extensions import i64

MORE: Final = 0x80
LOW: Final = 0x7F


class Places:
    """One position at least. middle_last: where the run before the last one ends; at: the first
    byte of `data` that is not in the head run yet; is_single: the head run is the last one."""

    __slots__ = (
        "at",
        "data",
        "first",
        "head_last",
        "is_single",
        "last",
        "last_first",
        "middle_last",
    )

    def __init__(self, position: i64) -> None:
        self.data = bytearray()
        self.at: i64 = 0
        self.first: i64 = position
        self.head_last: i64 = position
        self.middle_last: i64 = position
        self.last_first: i64 = position
        self.last: i64 = position
        self.is_single = True

    def append(self, position: i64) -> None:
        """One more behind the others, above `last`."""
        if position == self.last + 1:
            self.last = position
            if self.is_single:
                self.head_last = position
            return
        if self.is_single:
            self.is_single = False
            self.middle_last = self.head_last
        else:
            put_number(self.data, self.last_first - self.middle_last)
            put_number(self.data, self.last - self.last_first)
            self.middle_last = self.last
        self.last_first = position
        self.last = position

    def prepend(self, position: i64) -> None:
        """One more before the others, below `first`."""
        if position == self.first - 1:
            self.first = position
            if self.is_single:
                self.last_first = position
            return
        if self.is_single:
            self.is_single = False
            self.last_first = self.first
            self.middle_last = position
        else:
            front = bytearray()
            put_number(front, self.first - position)
            put_number(front, self.head_last - self.first)
            if self.at == len(self.data):
                self.middle_last = self.head_last
            front.extend(self.data[int(self.at) :])
            self.data = front
            self.at = 0
        self.first = position
        self.head_last = position

    def take(self) -> None:
        """The first one goes; it is not the only one."""
        if self.first < self.head_last:
            self.first += 1
            if self.is_single:
                self.last_first = self.first
            return
        assert not self.is_single, "the last position goes with its piece"
        if self.at < len(self.data):
            self.first = self.head_last + self._number()
            self.head_last = self.first + self._number()
        else:
            self.first = self.last_first
            self.head_last = self.last
            self.is_single = True

    def _number(self) -> i64:
        """The number at `at`, which goes behind it."""
        value: i64 = 0
        shift: i64 = 0
        while True:
            byte: i64 = i64(self.data[self.at])
            self.at += 1
            value |= (byte & LOW) << shift
            if byte & MORE == 0:
                return value
            shift += 7

    def runs(self, count_max: i64) -> list[tuple[int, int]]:
        """(first, last) of every run, until they have `count_max` positions or more."""
        found = [(int(self.first), int(self.head_last))]
        if self.is_single:
            return found
        kept: i64 = self.at
        end: i64 = self.head_last
        count: i64 = self.head_last - self.first + 1
        while self.at < len(self.data) and count < count_max:
            first: i64 = end + self._number()
            end = first + self._number()
            found.append((int(first), int(end)))
            count += end - first + 1
        if count < count_max:
            found.append((int(self.last_first), int(self.last)))
        self.at = kept
        return found

    def next_ones(self, count_max: i64) -> list[int]:
        """Up to `count_max` positions from the first one on."""
        found: list[int] = []
        for first, last in self.runs(count_max):
            room = int(count_max) - len(found)
            found.extend(range(first, min(last, first + room - 1) + 1))
        return found


def put_number(data: bytearray, number: i64) -> None:
    """`number`, 0.. , seven bits to a byte, the lowest first."""
    rest: i64 = number
    while rest > LOW:
        data.append(int(rest & LOW | MORE))
        rest >>= 7
    data.append(int(rest))
