"""The publishes of one channel that the broker has not answered yet.

Sequences are handed out one by one, so everything open lies in lowest..next-1, and each sequence
is stepped over once: settling costs O(1) a publish whatever the order of the answers.
"""


class Unconfirmed:
    """Open publishes with a mark each. `count_max`: publishes, 1..; the owner asks `is_full`."""

    __slots__ = ("_lowest", "_next", "_open", "count_max")

    def __init__(self, count_max: int) -> None:
        assert count_max >= 1, "a window without room would never let a publish go"
        self.count_max = count_max
        self._open: dict[int, int] = {}
        self._lowest = 1
        self._next = 1

    def __len__(self) -> int:
        return len(self._open)

    def is_full(self) -> bool:
        """Whether another `add` would pass the bound."""
        return len(self._open) >= self.count_max

    def add(self, mark: int) -> int:
        """Note one more publish; its sequence, 1... Raises: AssertionError when full."""
        assert len(self._open) < self.count_max, "the publisher was not held at its bound"
        sequence = self._next
        self._open[sequence] = mark
        self._next = sequence + 1
        return sequence

    def settle(self, tag: int, multiple: bool) -> tuple[list[int], list[int]]:
        """Take out `tag`, or everything up to it (0: everything); sequences and their marks.

        An answer to what is not open changes nothing, as in RabbitMQ's own clients.
        """
        if not multiple:
            mark = self._open.pop(tag, None)
            self._advance()
            return ([], []) if mark is None else ([tag], [mark])
        stop = self._next if tag == 0 else min(tag + 1, self._next)
        pending = self._open
        sequences = [n for n in range(self._lowest, stop) if n in pending]
        marks = [pending.pop(n) for n in sequences]
        self._lowest = max(self._lowest, stop)
        self._advance()
        return sequences, marks

    def _advance(self) -> None:
        lowest = self._lowest
        while lowest < self._next and lowest not in self._open:
            lowest += 1
        self._lowest = lowest
