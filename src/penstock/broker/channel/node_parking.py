"""The room for parked publishes that all connections of a node share. COMPILED."""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from penstock.base.limits import PARKED_BYTES, PARKED_NODE_BYTES
from penstock.broker.actors.actor import Actor
from penstock.broker.channel.parking_disk import ParkingDisk

FREED_SHARE: Final = 64
"""Lots that wait for room of the node are asked again when this part of it has become free."""


class NodeParking:
    """The room that all lots of a node share.

    bytes: parked in memory in all lots; bytes_max: how many there may be; lot_bytes_max: of one
    lot; waiting: wake lots that were refused for want of it; wake_at: bytes at which they are asked
    again; disk: where more goes, None without a data directory; rests: channels that
    have ended with something on the disk.
    """

    __slots__ = ("bytes", "bytes_max", "disk", "lot_bytes_max", "rests", "waiting", "wake_at")

    def __init__(
        self,
        bytes_max: int = PARKED_NODE_BYTES.default,
        lot_bytes_max: int = PARKED_BYTES.default,
    ) -> None:
        self.bytes: i64 = 0
        self.bytes_max: i64 = bytes_max
        self.lot_bytes_max: i64 = lot_bytes_max
        self.waiting: dict[Callable[[], None], None] = {}
        self.wake_at: i64 = 0
        self.disk: ParkingDisk | None = None
        self.rests: dict[Actor, None] = {}

    def wait(self, wake: Callable[[], None]) -> None:
        """A lot is woken when a part of the room is free that is worth it, counted from the last
        one that was refused: what others have parked since the first was may stay for ever."""
        wake_at: i64 = self.bytes - self.bytes_max // FREED_SHARE
        if wake_at > self.wake_at or not self.waiting:
            self.wake_at = wake_at
        self.waiting[wake] = None

    def wake(self) -> None:
        """Room has become free."""
        if self.bytes <= self.wake_at or self.bytes <= 0:
            self.wake_all()

    def wake_all(self) -> None:
        """Room has become free, in memory or on the disk."""
        waiting = list(self.waiting)
        self.waiting.clear()
        for wake in waiting:
            wake()
