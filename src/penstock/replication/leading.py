"""A leader's books: who has what on its disk, what is committed, who may attach from where."""

from collections.abc import Callable, Iterable, Mapping

from penstock.replication.actions import AskMark, Committed, Send, Serve, ServeResync
from penstock.replication.config import ALL, ClusterConfig, agreed_seq, majority
from penstock.replication.frames import RESYNC, STREAM, WAIT, Ack, Attach, Attached, Entries
from penstock.replication.replica import Replica
from penstock.replication.timing import Bounds, Timing
from penstock.replication.views import AWAY, COPY, DISK, LINK, FollowerView, FollowerWait, NodeState

FRAME_BYTES = 1_048_576
"""Bytes of entries in one frame; one entry goes whatever its size."""
HEARD_BEATS = 6
"""Signs of life in whose time a follower has to be heard that is to lead next."""


class Progress:
    """One follower. identity: of its directory; session: of its attach, 0 when it is not attached,
    since detached_ms; asked_session: of the last one it has asked for; sent_seq: last entry sent;
    acked_seq: where what is under way to it begins; persisted_seq: last entry on its disk;
    is_whole: whether that counts; wants_copy: it has to be copied, and is in sync as long as the
    coordinator says so; disk_ms: how long its disk takes, as it said last; timed_seq, timed_ms: an
    entry that is being timed, and when it was sent; answer_ms: how long the last one of these
    took."""

    __slots__ = (
        "acked_seq",
        "answer_ms",
        "asked_session",
        "detached_ms",
        "disk_ms",
        "heard_ms",
        "identity",
        "is_whole",
        "persisted_seq",
        "sent_seq",
        "session",
        "timed_ms",
        "timed_seq",
        "wants_copy",
    )

    def __init__(self, now_ms: int) -> None:
        self.heard_ms = now_ms
        self.asked_session = 0
        self.identity = ""
        self.session = 0
        self.detached_ms = now_ms
        self.wants_copy = False
        self.detach(now_ms)

    def detach(self, now_ms: int) -> None:
        """It is sent nothing any more, until it attaches again."""
        if self.session != 0:
            self.detached_ms = now_ms
        self.session = 0
        self.sent_seq = 0
        self.acked_seq = 0
        self.persisted_seq = 0
        self.is_whole = False
        self.disk_ms = self.answer_ms = 0
        self.timed_seq = self.timed_ms = 0


class Leading:
    """The member leads `epoch`, whose first entry has the number `first_seq`.

    pending: a configuration that is being swapped in; commits have to satisfy it, too.
    is_mirrored: its broker has queues that wait for all who are in sync, so it is agreed on who is;
    None: it has not said yet.
    is_ending: its broker has stopped; no copies are begun.
    """

    def __init__(
        self,
        replica: Replica,
        config: ClusterConfig,
        timing: Timing,
        bounds: Bounds,
        is_linked: Callable[[str], bool],
        now_ms: int,
    ) -> None:
        self.replica = replica
        self.timing = timing
        self.bounds = bounds
        self.is_linked = is_linked
        self.config = config
        self.epoch = config.epoch
        self.first_seq = replica.tail.seq + 1
        self.commit_seq = 0
        self.pending: ClusterConfig | None = None
        self.progress: dict[str, Progress] = {}
        self.resyncing = ""
        self.is_serving = False
        self.is_ending = False
        self.is_mirrored: bool | None = None
        # Followers whose copies are there and wait for a mark of the broker, by its number.
        self._mark = 0
        self._marks: dict[int, tuple[str, Attach]] = {}
        # Until the voters of now have everything up to here, their set is not changed again.
        self._settle_seq = self.first_seq
        self._local_ms = now_ms
        for name in config.voters:
            if name != replica.name:
                self.progress[name] = Progress(now_ms)

    @property
    def uncommitted_bytes(self) -> int:
        tail = self.replica.tail.seq
        return self.replica.ring.bytes_between(max(self.commit_seq, self.first_seq - 1), tail)

    # -- the configuration ---------------------------------------------------------------------

    def configure(self, config: ClusterConfig, now_ms: int) -> None:
        """Another configuration of the same epoch is in force."""
        if config.voters != self.config.voters:
            self._settle_seq = self.replica.tail.seq
        self.config = config
        for name in config.voters:
            if name != self.replica.name and name not in self.progress:
                self.progress[name] = Progress(now_ms)
        for name in set(self.progress) - set(config.voters):
            if not self.is_linked(name):
                del self.progress[name]
        self.count()

    @property
    def is_settled(self) -> bool:
        """Whether the set of voters may be changed: all that was committed, under whatever set, is
        committed under the one of now."""
        agreed = agreed_seq(self.config, self._persisted())
        return self.pending is None and agreed >= max(self._settle_seq, self.first_seq)

    def next_voter(self, identities: Mapping[str, str]) -> str:
        """A learner that may vote: whole, and not behind what is committed. "" for none."""
        if not self.is_settled or len(self.config.voters) >= self.bounds.voters:
            return ""
        for name in sorted(self.progress):
            one = self.progress[name]
            if (
                name not in self.config.voters
                and name in identities
                and one.is_whole
                and one.persisted_seq >= self.commit_seq
            ):
                return name
        return ""

    def next_in_sync(self, now_ms: int) -> tuple[str, ...]:
        """Who is to be in sync, as it seems now; nobody where nothing depends on it."""
        if self.pending is not None:
            return self.config.in_sync
        if self.config.mode != ALL and self.is_mirrored is None:
            return tuple(one for one in self.config.in_sync if not self._wants_copy(one))
        if self.config.mode != ALL and not self.is_mirrored:
            return ()
        found = []
        for name in sorted(self.config.voters):
            one = self.progress.get(name)
            if name == self.replica.name:
                found.append(name)
            elif one is None:
                continue
            elif name in self.config.in_sync:
                if not self._is_late(name, one, now_ms):
                    found.append(name)
            elif one.is_whole and one.persisted_seq >= max(self.commit_seq, self.first_seq):
                found.append(name)
        return tuple(found)

    def _is_late(self, name: str, one: Progress, now_ms: int) -> bool:
        """Whether others wait for a member that is in sync no longer."""
        timing = self.timing
        if one.wants_copy:
            return True
        if one.session == 0:
            grace_ms = timing.in_sync_ms if self.is_linked(name) else timing.link_grace_ms
            return now_ms - one.detached_ms > grace_ms
        if one.timed_seq and now_ms - one.timed_ms > timing.in_sync_ms:
            return True
        lag = self.replica.ring.bytes_between(one.persisted_seq, self.replica.tail.seq)
        return lag > self.bounds.retention_bytes or now_ms - one.heard_ms > timing.quorum_ms

    def _wants_copy(self, name: str) -> bool:
        one = self.progress.get(name)
        return one is not None and one.wants_copy

    def in_sync_now(self) -> frozenset[str]:
        """Who is, or may be by a change that is under way: mirrored queues wait for each."""
        found = frozenset(self.config.in_sync)
        return found if self.pending is None else found | frozenset(self.pending.in_sync)

    def nodes(self) -> tuple[NodeState, ...]:
        """Every voter, by name."""
        in_sync = self.in_sync_now()
        persisted = self._persisted()
        return tuple(
            NodeState(
                name,
                persisted.get(name, 0),
                name in in_sync,
                name == self.replica.name or self.is_linked(name),
            )
            for name in sorted(self.config.voters)
        )

    # -- followers -----------------------------------------------------------------------------

    def hear(self, peer: str, now_ms: int) -> None:
        """A frame of the epoch came from a peer."""
        one = self.progress.get(peer)
        if one is not None:
            one.heard_ms = now_ms

    def disk_heard(self, peer: str, disk_ms: int) -> None:
        """What a follower says of its disk while that ends nothing."""
        one = self.progress.get(peer)
        if one is not None and disk_ms > 0:
            one.disk_ms = disk_ms

    def link_lost(self, peer: str, now_ms: int) -> None:
        """There is no link to a peer any more, or it begins anew."""
        one = self.progress.get(peer)
        if one is not None:
            one.detach(now_ms)
        if self.resyncing == peer:
            self.resyncing = ""
        self._marks.pop(self._mark_of(peer), None)

    def attach(self, peer: str, frame: Attach, now_ms: int, identity: str = "") -> None:
        """Decide from where a follower gets entries, and begin. identity: of its directory; with
        another one than before it counts its sessions from the beginning."""
        one = self.progress.setdefault(peer, Progress(now_ms))
        one.heard_ms = now_ms
        if one.identity != identity:
            one.identity = identity
            one.asked_session = 0
        if frame.session < one.asked_session or (one.session and frame.session == one.session):
            # It comes late, and the follower waits for the answer to a later one; or it comes
            # again, and the follower is being sent entries and takes no other answer.
            return
        one.asked_session = frame.session
        # Who asks again only because a mark takes its time keeps that mark.
        mark = self._mark_of(peer) if frame.is_copied else 0
        self.link_lost(peer, now_ms)
        how = self.decision(peer, frame)
        if how == STREAM and frame.is_copied:
            self.resyncing = peer
            if not mark:
                self._mark += 1
                mark = self._mark
                self.replica.actions.append(AskMark(mark))
            self._marks[mark] = (peer, frame)
        else:
            self._answer(peer, one, frame, how)

    def _mark_of(self, peer: str) -> int:
        return next((mark for mark, (asker, _) in self._marks.items() if asker == peer), 0)

    def marked(self, number: int) -> None:
        """Everything that may have got into the copy of a follower is in entries that are here."""
        peer, frame = self._marks.pop(number, ("", None))
        one = self.progress.get(peer)
        if frame is None or one is None or self.resyncing != peer:
            return
        self._answer(peer, one, frame, self.decision(peer, frame))

    def _answer(self, peer: str, one: Progress, frame: Attach, how: str) -> None:
        tail = self.replica.tail
        position = tail if how == RESYNC else frame.position
        if how == RESYNC:
            self.resyncing = peer
            self.replica.actions.append(ServeResync(peer, frame.session, position))
        elif how == STREAM:
            one.session = frame.session
            one.sent_seq = one.acked_seq = position.seq
        answer = Attached(self.epoch, frame.session, how, position, tail)
        self.replica.actions.append(Send(peer, answer))

    def decision(self, peer: str, frame: Attach) -> str:
        """STREAM when the follower's directory is one of this log's, and all behind it is here."""
        may_stream = frame.is_whole or frame.is_copied
        is_exact = frame.open_epoch in (0, self.epoch)
        one = self.progress[peer]
        can_stream = may_stream and is_exact and self.replica.ring.reaches(frame.position)
        is_counted = self.config.mode != ALL and peer in self.in_sync_now()
        one.wants_copy = is_counted and not can_stream
        if can_stream:
            return STREAM
        if one.wants_copy:
            # A copy makes a mixture of it, and who is in sync holds all that is confirmed.
            return WAIT
        # Each resync makes a whole copy of what is committed a mixture: one at a time. Voters go
        # first, as soon as they ask.
        return WAIT if self.is_ending or self.resyncing not in ("", peer) else RESYNC

    def acknowledge(self, peer: str, frame: Ack) -> None:
        """A follower has more on its disk."""
        one = self.progress.get(peer)
        if one is None or frame.session != one.session or not one.session:
            return
        one.persisted_seq = max(one.persisted_seq, min(frame.position.seq, one.sent_seq))
        one.acked_seq = max(one.acked_seq, one.persisted_seq)
        one.is_whole = frame.is_whole
        one.disk_ms = frame.disk_ms
        if one.timed_seq and one.persisted_seq >= one.timed_seq:
            one.answer_ms = one.heard_ms - one.timed_ms
            one.timed_seq = 0
        if one.is_whole and self.resyncing == peer:
            self.resyncing = ""
        self.count()

    def pump(self, now_ms: int) -> None:
        """Send what followers have not been sent, within what may be under way to each."""
        ring = self.replica.ring
        is_copying = self.resyncing != ""
        bounds = self.bounds
        kept = bounds.resync_backlog_bytes if is_copying else bounds.retention_bytes
        ring.trim(max(kept, bounds.retention_bytes), self.commit_seq)
        for peer, one in self.progress.items():
            while one.session and one.sent_seq < self.replica.tail.seq:
                under_way = ring.bytes_between(one.acked_seq, one.sent_seq)
                if under_way >= bounds.follower_bytes:
                    break
                previous = ring.position_at(one.sent_seq)
                entries = ring.behind(one.sent_seq, FRAME_BYTES)
                if previous is None or not entries:
                    # It was too slow for what is kept here. It will ask, and be copied.
                    self._give_up(peer, one, now_ms)
                    break
                frame = Entries(self.epoch, one.session, previous, self.commit_seq, entries)
                self.replica.actions.append(Send(peer, frame))
                one.sent_seq = entries[-1].seq
                if not one.timed_seq:
                    one.timed_seq, one.timed_ms = one.sent_seq, now_ms

    def _give_up(self, peer: str, one: Progress, now_ms: int) -> None:
        end = self.replica.tail
        answer = Attached(self.epoch, one.session, WAIT, end, end)
        one.detach(now_ms)
        self.replica.actions.append(Send(peer, answer))

    # -- the commit point ----------------------------------------------------------------------

    def applied(self, now_ms: int) -> None:
        """More is on the leader's own disk."""
        self._local_ms = now_ms
        self.count()

    def _persisted(self) -> dict[str, int]:
        found = {name: one.persisted_seq for name, one in self.progress.items() if one.is_whole}
        found[self.replica.name] = self.replica.position.seq
        return found

    def count(self) -> None:
        """Move the commit point as far as every configuration that may be in force allows.

        Entries of earlier epochs are never counted alone: a majority may have them, and yet another
        leader win with a longer log of an epoch in between. The leader itself has to have what it
        commits: see `chosen_leader`.
        """
        persisted = self._persisted()
        agreed = agreed_seq(self.config, persisted)
        if self.pending is not None:
            agreed = min(agreed, agreed_seq(self.pending, persisted))
        agreed = min(agreed, self.replica.position.seq)
        if agreed < self.first_seq or agreed <= self.commit_seq:
            return
        self.commit_seq = agreed
        actions = self.replica.actions
        actions.append(Committed(self.epoch, agreed))
        if not self.is_serving:
            self.is_serving = True
            actions.append(Serve(self.epoch))

    def waits(self, now_ms: int) -> tuple[FollowerWait, ...]:
        """Who lacks entries that the leader has on its disk and that are not committed, who answers
        soonest first: a majority waits for that one. () when everything is committed."""
        if self.commit_seq >= self.replica.position.seq:
            return ()
        needed = self.config.in_sync if self.config.mode == ALL else self.config.voters
        return self._lacking(needed, self.commit_seq + 1, now_ms)

    def mirror_waits(self, now_ms: int) -> tuple[FollowerWait, ...]:
        """Who is in sync and lacks what is committed: mirrored queues wait for each of them."""
        if not self.is_mirrored:
            return ()
        return self._lacking(sorted(self.in_sync_now()), self.commit_seq, now_ms)

    def _lacking(self, names: Iterable[str], seq: int, now_ms: int) -> tuple[FollowerWait, ...]:
        """Those of `names` that have not the entry `seq` on their disks, and why."""
        found = []
        for name in names:
            one = self.progress.get(name)
            if one is None or (one.is_whole and one.persisted_seq >= seq):
                continue
            if not self.is_linked(name):
                found.append(FollowerWait(name, AWAY, now_ms - one.heard_ms))
            elif not one.session or not one.is_whole:
                found.append(FollowerWait(name, COPY, 0))
            else:
                under_way = now_ms - one.timed_ms if one.timed_seq else 0
                ms = max(one.answer_ms, under_way)
                # A stalled disk is told of with each sign of life, a slow one with each answer.
                late_ms = self.timing.heartbeat_ms if under_way > one.answer_ms else 0
                is_disk = 2 * (one.disk_ms + late_ms) >= ms and one.disk_ms > 0
                found.append(FollowerWait(name, DISK if is_disk else LINK, ms))
        order = {DISK: 0, LINK: 0, COPY: 1, AWAY: 2}
        return tuple(sorted(found, key=lambda one: (order[one.cause], one.ms, one.name)))

    def able(self, now_ms: int) -> list[str]:
        """Voters besides this one that have all of a directory and were heard just now."""
        since_ms = now_ms - HEARD_BEATS * self.timing.heartbeat_ms
        return [
            name
            for name, one in self.progress.items()
            if name in self.config.voters
            and one.session
            and one.is_whole
            and one.heard_ms >= since_ms
        ]

    def has_successor(self, prefer: str) -> bool:
        """Whether who should lead next has the whole log: `prefer` where it can, anybody for "".
        True where nobody could."""
        able = [
            name
            for name, one in self.progress.items()
            if name in self.config.voters and one.session and one.is_whole
        ]
        if prefer in able:
            able = [prefer]
        tail = self.replica.tail.seq
        return not able or any(self.progress[name].persisted_seq >= tail for name in able)

    # -- whether to go on ----------------------------------------------------------------------

    def has_quorum(self, now_ms: int) -> bool:
        """Whether a majority of voters has been heard lately."""
        # Asked before each event: one that is heard is counted without a list of all.
        voters = self.config.voters
        since_ms = now_ms - self.timing.quorum_ms
        left = majority(len(voters)) - (self.replica.name in voters)
        for name, one in self.progress.items():
            if one.heard_ms >= since_ms and name in voters:
                left -= 1
        return left <= 0

    def local_began(self, now_ms: int) -> None:
        """The leader's own disk has something to do again."""
        self._local_ms = now_ms

    def stalled_ms(self, now_ms: int) -> int:
        """For how long the leader's own disk has ended nothing of what it has to do."""
        if self.replica.is_drained:
            self._local_ms = now_ms
        return now_ms - self._local_ms

    def view(self, now_ms: int) -> tuple[FollowerView, ...]:
        """Every follower, by name."""
        tail = self.replica.tail.seq
        return tuple(
            FollowerView(
                name,
                one.session != 0,
                one.is_whole,
                self.resyncing == name,
                one.persisted_seq,
                tail - one.persisted_seq,
                self.replica.ring.bytes_between(one.persisted_seq, tail),
                now_ms - one.heard_ms,
            )
            for name, one in sorted(self.progress.items())
        )
