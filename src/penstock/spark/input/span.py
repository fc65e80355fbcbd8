"""What an input has, in the measure of its query: bytes of files, or messages of a stream."""

from collections.abc import Mapping
from typing import Any, NamedTuple

Offset = Mapping[str, Any]


class Span(NamedTuple):
    """What there is to read, as offsets of the query: from `begin` where nothing was read yet."""

    begin: Offset
    end: Offset

    def left(self, offset: Offset) -> int:
        """What lies behind `offset`, in bytes or messages."""
        return sum(
            max(0, int(end) - int(offset.get(name, self.begin.get(name, 0))))
            for name, end in self.end.items()
        )
