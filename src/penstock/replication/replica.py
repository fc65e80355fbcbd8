"""What a member knows of its own directory: how far it goes, and what may lie behind that."""

from collections import deque
from collections.abc import Callable

import msgspec

from penstock.base.limits import CLUSTER_SEEN_RUNS
from penstock.replication.actions import Action, Apply, Persist
from penstock.replication.frames import LOST
from penstock.replication.positions import Entry, Position
from penstock.replication.ring import Ring
from penstock.replication.seen import Seen
from penstock.replication.state import MemberState


class Replica:
    """The directory, its log and what is durable of both.

    position: applied, synced, and on the disk itself.
    tail: the last entry that was received or recorded; those between are being applied.
    is_exact: nothing lies in the directory behind `tail`.
    seen: publishes of which is known that they are in it.
    is_kept: whatever was written up to `tail` is there. What the leader did not sync is not synced
    here either, acknowledgements above all, and is gone when the machine loses power.
    state: as it will be when all is written that was asked for; durable: as it is on the disk.
    """

    def __init__(
        self,
        name: str,
        state: MemberState,
        position: Position,
        actions: list[Action],
        machine: str = "",
    ) -> None:
        """machine: which start of it this is."""
        self.name = name
        self.actions = actions
        self.position = position
        self.tail = position
        self.is_exact = state.open_epoch == 0
        # Entries of later epochs may have been taken before the promise of them was written.
        promised = max(state.promised, state.open_epoch, position.epoch)
        self.state = msgspec.structs.replace(state, promised=promised)
        self.machine = machine
        self.is_kept = False
        if self.is_exact or state.machine == machine:
            self.keep()
        self.durable = state
        self.ring = Ring(position if self.is_exact and state.is_whole else None)
        self.seen = Seen(CLUSTER_SEEN_RUNS.default)
        self._number = 0
        self._waiting: deque[tuple[int, MemberState, Callable[[], None]]] = deque()

    @property
    def is_drained(self) -> bool:
        """Whether everything received is applied."""
        return self.position == self.tail

    @property
    def is_settled(self) -> bool:
        """Whether everything that was to be persisted is."""
        return not self._waiting

    def persist(self, state: MemberState, then: Callable[[], None]) -> None:
        """Have `state` written, then go on with `then`; at once when it is there already."""
        if state == self.durable and not self._waiting:
            then()
            return
        self.state = state
        self._number += 1
        self._waiting.append((self._number, state, then))
        self.actions.append(Persist(self._number, state))

    def persisted(self, number: int) -> None:
        """Everything up to that number is on the disk."""
        while self._waiting and self._waiting[0][0] <= number:
            _, self.durable, then = self._waiting.popleft()
            then()

    def take(self, entry: Entry) -> None:
        """An entry was received, or recorded by the broker of a leader."""
        self.ring.append(entry)
        self.tail = entry.position
        if entry.publishes:
            self.seen.note(entry.publishes)

    def apply(self, entries: tuple[Entry, ...]) -> None:
        """Have entries that were taken applied."""
        if entries:
            self.actions.append(Apply(entries))

    def reached(self, position: Position) -> None:
        """Everything up to `position` is on the disk. It may be behind the tail: then it was under
        way when the history was forgotten."""
        self.position = max(self.position, position)
        self.tail = max(self.tail, self.position)

    def open_state(self, epoch: int) -> MemberState:
        """The state that has to be durable before anything of `epoch` is applied."""
        return msgspec.structs.replace(self.state, promised=epoch, open_epoch=epoch)

    def keep(self) -> None:
        """The directory is what it is to be from now on; the next state that is written says so."""
        self.is_kept = True
        self.state = msgspec.structs.replace(self.state, machine=self.machine)

    def claimed_epoch(self) -> int:
        """As a leader is told it, see Attach."""
        if self.is_exact:
            return 0
        return self.state.open_epoch if self.is_kept else LOST

    def restart_at(self, position: Position) -> None:
        """The directory is another one from here on: nobody can be brought here from before."""
        self.position = self.tail = position
        self.ring = Ring(position)
        self.seen.clear()

    def forget_history(self) -> None:
        """Nobody can be brought here from any place before the next entry."""
        self.ring = Ring(None)
        self.tail = self.position
        self.seen.clear()
