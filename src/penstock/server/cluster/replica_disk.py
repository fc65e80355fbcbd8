"""The data directory of a member, in threads of its own: entries are applied to it while another
node leads, and it is lent to the broker while this one does."""

import asyncio
from collections import deque
from collections.abc import Callable
from errno import EIO
from pathlib import Path
from typing import Final

from penstock.replication.operations import SYNC_FOLDER, Operation, encode
from penstock.replication.positions import Entry, Position
from penstock.replication.state import MemberState
from penstock.server.cluster.applier import Applier, replay
from penstock.server.cluster.disk_worker import DiskWorker
from penstock.server.cluster.member_events import DiskEvents
from penstock.server.cluster.member_files import write_state
from penstock.server.cluster.position import PositionFile
from penstock.server.cluster.resync import ResyncReport, run_resync
from penstock.server.disk.data_directory import DataDirectory

NOTHING: Final = encode([Operation(SYNC_FOLDER, "")])
"""What the first entry of an epoch does: its position is to be as safe as any other."""
Ask = Callable[[bytes], bytes]


class ReplicaDisk:
    """Owner of the directory's lock, its applier and its position. Everything is done in order.

    waiting: entries that the applier has no room for yet.
    """

    def __init__(self, path: Path, boot_id: str, events: DiskEvents) -> None:
        self.loop = asyncio.get_running_loop()
        self.path = path
        self.boot_id = boot_id
        self.events = events
        self.position = PositionFile(path)
        self.directory: DataDirectory | None = None
        self.applier: Applier | None = None
        self.waiting: deque[Entry] = deque()
        self.last = Position(0, 0)
        self.done = Position(0, 0)
        self.has_room = asyncio.Event()
        self.worker = DiskWorker("member-disk")
        self.is_copy_over = True

    def open(self) -> Position:
        """Take the directory; how far it is. Raises: OperatorError; OSError."""
        self.directory = DataDirectory(self.path, self.boot_id)
        stored = replay(self.path, self.position)
        if stored is not None:
            self.last = self.done = Position(stored.epoch, stored.seq)
        self._apply_again()
        return self.done

    def _apply_again(self) -> None:
        self.applier = Applier(self.path, self.position, self._told, self._failed)

    def _told(self, epoch: int, seq: int) -> None:
        self.loop.call_soon_threadsafe(self._applied, Position(epoch, seq))

    def _failed(self, words: str) -> None:
        self.loop.call_soon_threadsafe(self.events.disk_failed, words)

    def _applied(self, position: Position) -> None:
        self.done = max(self.done, position)
        self._pump()
        self.events.applied(position)

    # -- following -----------------------------------------------------------------------------

    def apply(self, entries: tuple[Entry, ...]) -> None:
        """In order, behind those of before."""
        self.waiting.extend(entries)
        self._pump()

    def _pump(self) -> None:
        while self.waiting and self.applier is not None:
            one = self.waiting[0]
            if not self.applier.put(one.epoch, one.seq, one.payload or NOTHING):
                return
            self.waiting.popleft()
            self.last = one.position
        self.has_room.set()

    def whole_at(self, position: Position) -> None:
        assert self.applier is not None, "only a follower is copied"
        self.applier.whole_at(position.epoch, position.seq)

    def persist(self, number: int, state: MemberState) -> None:
        """In order; `persisted` is called when it is on the disk. A state that says that the
        directory is exactly at its position is written when everything there is safe: what the
        leader has not synced may be lost with the power, and nobody would look for it any more."""
        applier = self.applier if state.open_epoch == 0 else None

        def write() -> None:
            if applier is not None and not applier.settle():
                raise OSError(EIO, "what was applied is not known to be safe")
            write_state(self.path, state)

        self._work(write, lambda: self.events.persisted(number))

    def _work(self, job: Callable[[], None], then: Callable[[], None]) -> None:
        def ended(fault: Exception | None) -> None:
            if fault is None:
                then()
            elif isinstance(fault, OSError):
                self.events.disk_failed(f"{self.path}: {fault.strerror}")
            else:
                raise fault

        self.worker.submit(job, ended)

    # -- leading -------------------------------------------------------------------------------

    async def lend(self) -> None:
        """Finish everything and let go of the directory: the broker takes it. Raises: OSError."""
        while self.waiting:
            self.has_room.clear()
            self._pump()
            if self.waiting:
                await self.has_room.wait()
        applier = self.applier
        await self._shut_applier()
        if applier is not None and applier.has_failed:
            raise OSError(EIO, "what was applied is not known to be safe")
        if self.directory is not None:
            self.directory.close()
            self.directory = None

    async def take_back(self) -> None:
        """The broker's process is gone. Raises: OperatorError; OSError."""
        if self.directory is None:
            self.directory = DataDirectory(self.path, self.boot_id)
            self._apply_again()
            self._pump()

    async def _shut_applier(self) -> None:
        applier, self.applier = self.applier, None
        if applier is not None:
            await self.loop.run_in_executor(None, applier.close)

    def lent_reached(self, position: Position) -> None:
        """The broker's own disk is at `position`, and it has written that down."""
        self.done = self.last = position
        self.events.applied(position)

    # -- being copied --------------------------------------------------------------------------

    async def copy(self, base: Position, ask: Ask, bytes_per_s: int) -> ResyncReport:
        """Make the directory the leader's. `ask` is called in a thread, and raises OSError when
        there is nobody to ask any more. Raises: OSError; OperatorError."""
        self.is_copy_over = False
        self.waiting.clear()
        try:
            await self._shut_applier()
            report = await self.loop.run_in_executor(
                None,
                lambda: run_resync(
                    self.path,
                    self.position,
                    base.epoch,
                    base.seq,
                    ask,
                    bytes_per_s,
                    lambda: self.is_copy_over,
                ),
            )
            self.last = self.done = base
        finally:
            self._apply_again()
        return report

    def stop_copy(self) -> None:
        self.is_copy_over = True

    async def close(self) -> None:
        """Finish what is under way and let go. Raises: OSError."""
        self.stop_copy()
        await self._shut_applier()
        await self.loop.run_in_executor(None, self.worker.close)
        if self.directory is not None:
            self.directory.close()
            self.directory = None
