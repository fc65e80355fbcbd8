"""How long the disk takes: the last syncs of a store, for whoever asks why a publisher waits."""

from typing import Final

from mypy_extensions import i64

SYNCS_KEPT: Final = 63


class SyncTimes:
    """How long the last batches took from being submitted to being safe: a ring of nanoseconds."""

    __slots__ = ("at", "began_ns", "ring")

    def __init__(self) -> None:
        self.ring: list[int] = []
        self.at: i64 = 0
        self.began_ns: i64 = 0

    def ended(self, now_ns: i64) -> None:
        """The batch that was begun is safe."""
        if len(self.ring) < SYNCS_KEPT:
            self.ring.append(int(now_ns - self.began_ns))
            return
        self.ring[self.at] = int(now_ns - self.began_ns)
        self.at = (self.at + 1) % SYNCS_KEPT

    def median_ns(self) -> int:
        """0 before the first."""
        return sorted(self.ring)[len(self.ring) // 2] if self.ring else 0
