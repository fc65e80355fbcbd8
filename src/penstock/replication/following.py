"""A follower: attaches to the leader, takes its entries in order, and is copied anew if need be."""

from collections.abc import Callable
from typing import Final

import msgspec

from penstock.replication.actions import AbortResync, BeginResync, Send, WholeAt
from penstock.replication.frames import RESYNC, STREAM, WAIT, Ack, Attach, Attached, Entries
from penstock.replication.positions import NOWHERE, Position
from penstock.replication.replica import Replica
from penstock.replication.timing import Timing

IDLE: Final = "idle"
ASKING: Final = "asking"
STREAMING: Final = "streaming"
MARKING: Final = "marking"
COPYING: Final = "copying"
CLOSED: Final = "closed"


class Following:
    """What a member does with the log of another one.

    leader: "" for none. phase: idle, asking, streaming, marking (the directory is being marked as a
    mixture), copying, or closed.
    is_linked: tells whether there is a link to a peer.
    """

    def __init__(self, replica: Replica, timing: Timing, is_linked: Callable[[str], bool]) -> None:
        self.replica = replica
        self.timing = timing
        self.is_linked = is_linked
        self.leader = ""
        self.epoch = 0
        self.phase = IDLE
        self.commit_seq = 0
        self._session = 0
        self._attempts = 0
        self._asked_ms = 0
        self._is_heard = False
        self._now_ms = 0
        # Since when the disk is at entries without having ended any; None while it has none.
        self._disk_since_ms: int | None = None
        # The base of the resync whose copy is there, while its entries have not caught up.
        self._copied: Position | None = None
        self._is_resyncing = False
        # When an attach has reached this number the directory is exact, or whole, again.
        self._exact_seq = 0
        self._whole_at: Position | None = None
        # Frames that wait for the state in which their entries may be applied.
        self._is_open = False
        self._unopened: list[Entries] = []
        self._base = NOWHERE

    @property
    def is_copying(self) -> bool:
        return self._is_resyncing and self._copied is None

    def leader_heard(self, now_ms: int, *, is_new: bool) -> None:
        """The leader says that it leads. A question that came before it did was in vain, and is put
        again at once. is_new: it is followed since now."""
        if not self._is_heard:
            self._is_heard = True
            if not is_new and self.phase == ASKING:
                self.ask(now_ms)

    def follow(self, leader: str, epoch: int, now_ms: int) -> None:
        """From now on the log of this leader, "" for none yet."""
        if self.phase == CLOSED or (leader, epoch) == (self.leader, self.epoch):
            return
        self.leave("the leader of another epoch is followed")
        self._is_heard = False
        self.leader = leader
        self.epoch = epoch
        self.ask(now_ms)

    def leave(self, words: str) -> None:
        """Take nothing more of this leader."""
        if self._is_resyncing and self._copied is None:
            self.replica.actions.append(AbortResync(words))
        self.leader = ""
        self.phase = IDLE
        self._session = 0
        self._copied = None
        self._is_resyncing = False
        self._whole_at = None
        self._is_open = False
        self._disk_since_ms = None
        self._unopened.clear()

    def close(self) -> None:
        """Take nothing more of anybody."""
        self.leave("the member is being stopped")
        self.phase = CLOSED

    def link_lost(self, peer: str) -> None:
        if peer == self.leader and self.phase in (ASKING, STREAMING):
            self.phase = IDLE
            self._session = 0

    def ask(self, now_ms: int) -> None:
        """Ask the leader for entries, unless that is under way or there is no link."""
        self._now_ms = now_ms
        if not self.leader or self.phase in (CLOSED, MARKING, COPYING):
            return
        if not self.is_linked(self.leader):
            return
        replica = self.replica
        self.phase = ASKING
        self._asked_ms = now_ms
        self._attempts += 1
        self._session = replica.state.starts << 32 | self._attempts
        self.replica.actions.append(
            Send(
                self.leader,
                Attach(
                    self.epoch,
                    self._session,
                    replica.tail,
                    replica.state.is_whole,
                    replica.claimed_epoch(),
                    self._copied is not None,
                ),
            )
        )

    def tick(self, now_ms: int) -> None:
        waited = now_ms - self._asked_ms
        if self.phase == IDLE or (self.phase == ASKING and waited >= self.timing.retry_ms):
            self.ask(now_ms)
        elif self.phase == MARKING:
            self._mark()

    def attached(self, frame: Attached, now_ms: int) -> None:
        """The leader's answer."""
        self._now_ms = now_ms
        if frame.session != self._session or self.phase not in (ASKING, STREAMING):
            return
        if frame.how == WAIT:
            self.phase = ASKING
            self._asked_ms = now_ms
        if self.phase != ASKING:
            return
        if frame.how == STREAM:
            self._stream(frame)
        elif frame.how == RESYNC:
            self._copied = None
            self._whole_at = None
            self._is_resyncing = True
            self._base = frame.position
            self.phase = MARKING
            self._mark()

    def _stream(self, frame: Attached) -> None:
        replica = self.replica
        assert frame.position == replica.tail, "the leader begins where it was asked to"
        self.phase = STREAMING
        if not replica.is_exact:
            self._exact_seq = max(self._exact_seq, frame.end.seq)
        if self._copied is not None:
            self._whole_at = frame.end
        self._is_open = False
        self._unopened.clear()
        replica.persist(replica.open_state(self.epoch), self._opened_by(self._session))

    def _opened_by(self, session: int) -> Callable[[], None]:
        def opened() -> None:
            if session == self._session and self.phase == STREAMING:
                self._open()

        return opened

    def _open(self) -> None:
        self._is_open = True
        if self._whole_at is not None:
            self.replica.actions.append(WholeAt(self._whole_at))
        else:
            self._notice_applied()
        frames = tuple(self._unopened)
        self._unopened.clear()
        for frame in frames:
            self.entries(frame, self._now_ms)

    # -- entries -------------------------------------------------------------------------------

    def entries(self, frame: Entries, now_ms: int) -> None:
        """Entries of the leader; what was received before is passed over."""
        if frame.session != self._session or self.phase != STREAMING:
            return
        if not self._is_open:
            self._unopened.append(frame)
            return
        replica = self.replica
        self.commit_seq = max(self.commit_seq, frame.commit_seq)
        if frame.previous.seq > replica.tail.seq:
            self.ask(now_ms)
            return
        new = tuple(entry for entry in frame.entries if entry.seq > replica.tail.seq)
        if new and replica.is_drained:
            self._disk_since_ms = now_ms
        for entry in new:
            replica.take(entry)
        replica.apply(new)

    def disk_ms(self, now_ms: int) -> int:
        """For how long the disk has been at entries without ending any."""
        return 0 if self._disk_since_ms is None else now_ms - self._disk_since_ms

    def applied(self, now_ms: int) -> None:
        """The replica has come further."""
        self._now_ms = max(self._now_ms, now_ms)
        if self.phase == MARKING:
            self._mark()
        elif self.phase == STREAMING and self._is_open:
            self._notice_applied()

    def _notice_applied(self) -> None:
        replica = self.replica
        seq = replica.position.seq
        if not replica.is_exact and seq >= self._exact_seq and replica.state.is_whole:
            replica.is_exact = True
        if self._whole_at is not None and seq >= self._whole_at.seq and self._copied is not None:
            self._copied = None
            self._whole_at = None
            self._is_resyncing = False
            replica.is_exact = True
            whole = msgspec.structs.replace(replica.state, is_whole=True)
            replica.persist(whole, self.acknowledge)
        else:
            self.acknowledge()

    def acknowledge(self) -> None:
        """Tell the leader what is on the disk."""
        if self.phase != STREAMING or not self._is_open:
            return
        replica = self.replica
        is_whole = replica.durable.is_whole and replica.state.is_whole
        disk_ms = self.disk_ms(self._now_ms)
        self._disk_since_ms = None if replica.is_drained else self._now_ms
        frame = Ack(self.epoch, self._session, replica.position, is_whole, disk_ms)
        replica.actions.append(Send(self.leader, frame))

    # -- resync --------------------------------------------------------------------------------

    def _mark(self) -> None:
        """Mark the directory as a mixture, once nothing is being applied to it."""
        replica = self.replica
        if not replica.is_drained or not replica.is_settled:
            return
        # A mixture is copied whatever else is lost of it.
        replica.keep()
        state = msgspec.structs.replace(replica.open_state(self.epoch), is_whole=False)
        replica.persist(state, self._marked_by(self._session))

    def _marked_by(self, session: int) -> Callable[[], None]:
        def marked() -> None:
            if session != self._session or self.phase != MARKING:
                return
            self.phase = COPYING
            self.replica.is_exact = False
            action = BeginResync(self.leader, self.epoch, session, self._base)
            self.replica.actions.append(action)

        return marked

    def copied(self, session: int, now_ms: int) -> None:
        """The copy is there."""
        if self.phase != COPYING or session != self._session:
            return
        self.replica.restart_at(self._base)
        self._copied = self._base
        self.phase = IDLE
        self.ask(now_ms)

    def resync_failed(self, session: int, now_ms: int) -> None:
        """It is not, and will be asked for again."""
        if self.phase == COPYING and session == self._session:
            self._is_resyncing = False
            self.phase = ASKING
            self._session = 0
            self._asked_ms = now_ms
