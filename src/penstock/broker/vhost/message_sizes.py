"""How large the messages are that are published in one virtual host, as RabbitMQ counts them."""

from typing import Final

from mypy_extensions import i64

BOUNDS: Final = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)
"""Bytes of a body; the last class is of those above. Source: rabbitmq_prometheus, message_size."""


class MessageSizes:
    """Publishes by the size of their body; each is in one class. total_bytes: of all bodies."""

    __slots__ = ("c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "total_bytes")

    def __init__(self) -> None:
        self.c0: i64 = 0
        self.c1: i64 = 0
        self.c2: i64 = 0
        self.c3: i64 = 0
        self.c4: i64 = 0
        self.c5: i64 = 0
        self.c6: i64 = 0
        self.c7: i64 = 0
        self.c8: i64 = 0
        self.total_bytes: i64 = 0

    def add(self, size: i64) -> None:
        """One publish with a body of `size` bytes."""
        self.total_bytes += size
        if size <= 100:
            self.c0 += 1
        elif size <= 1_000:
            self.c1 += 1
        elif size <= 10_000:
            self.c2 += 1
        elif size <= 100_000:
            self.c3 += 1
        elif size <= 1_000_000:
            self.c4 += 1
        elif size <= 10_000_000:
            self.c5 += 1
        elif size <= 50_000_000:
            self.c6 += 1
        elif size <= 100_000_000:
            self.c7 += 1
        else:
            self.c8 += 1

    def counts(self) -> list[int]:
        """Publishes in each class of BOUNDS, and above."""
        found = (self.c0, self.c1, self.c2, self.c3, self.c4, self.c5, self.c6, self.c7, self.c8)
        return [int(one) for one in found]
