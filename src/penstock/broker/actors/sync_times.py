"""How long the disk takes: the last syncs of a store, and since when it waits for room there."""

from typing import Final

from mypy_extensions import i64

SYNCS_KEPT: Final = 63


class SyncTimes:
    """How long the last batches took from being submitted to being safe: a ring of nanoseconds.
    full_since_ns: since when the batch under way waits for room on the disk, -1 while none does;
    sent_ns, done_ns: when the last one was submitted, and was safe."""

    __slots__ = ("at", "began_ns", "done_ns", "full_since_ns", "ring", "sent_ns")

    def __init__(self) -> None:
        self.ring: list[int] = []
        self.at: i64 = 0
        self.began_ns: i64 = 0
        self.full_since_ns: i64 = -1
        self.sent_ns: i64 = 0
        self.done_ns: i64 = 0

    def ended(self, now_ns: i64) -> None:
        """The batch that was begun is safe."""
        self.full_since_ns = -1
        self.sent_ns = self.began_ns
        self.done_ns = now_ns
        if len(self.ring) < SYNCS_KEPT:
            self.ring.append(int(now_ns - self.began_ns))
            return
        self.ring[self.at] = int(now_ns - self.began_ns)
        self.at = (self.at + 1) % SYNCS_KEPT

    def found_full(self, now_ns: i64) -> None:
        """The batch that was begun found no room."""
        self.full_since_ns = now_ns

    def median_ns(self) -> int:
        """0 before the first."""
        return sorted(self.ring)[len(self.ring) // 2] if self.ring else 0
