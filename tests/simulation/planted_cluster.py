"""Bugs of replication that were made on purpose, each where it could really be made."""

from collections.abc import Mapping
from typing import Any

import msgspec

from penstock.base.chance import Chance
from penstock.replication.actions import Committed
from penstock.replication.config import ClusterConfig, agreed_seq
from penstock.replication.election import Election
from penstock.replication.following import STREAMING, Following
from penstock.replication.frames import STREAM, Attach, Attached, Entries, Frame, Heartbeat
from penstock.replication.leading import Leading
from penstock.replication.member import Member
from penstock.replication.positions import Position
from penstock.replication.ring import Ring
from penstock.replication.seen import Seen
from penstock.replication.state import MemberState, Origin
from penstock.replication.timing import Bounds, Timing
from penstock.simulation.cluster.node import SimNode

# -- leaders ---------------------------------------------------------------------------------------


class Leads(Member):
    """Leads by the books of `leading_kind`."""

    leading_kind: type[Leading] = Leading

    def begin_leading(self, config: ClusterConfig) -> Leading:
        return self.leading_kind(
            self.replica, config, self.timing, self.bounds, self.is_linked, self._now_ms
        )


class _CountsItselfOnly(Leading):
    def _persisted(self) -> dict[str, int]:
        return dict.fromkeys(self.config.voters, self.replica.position.seq)


class ConfirmsBeforeFollowers(Leads):
    """A confirm waits for the leader's own disk alone."""

    leading_kind = _CountsItselfOnly


class _CountsSent(Leading):
    def _persisted(self) -> dict[str, int]:
        found = {name: one.sent_seq for name, one in self.progress.items() if one.is_whole}
        return {**found, self.replica.name: self.replica.position.seq}


class CountsWhatWasSent(Leads):
    """What is under way to a follower counts as if it were on its disk."""

    leading_kind = _CountsSent


class _CountsForgotten(Leading):
    def configure(self, config: ClusterConfig, now_ms: int) -> None:
        gone = {n: i for n, i in self.config.voters.items() if n not in config.voters}
        super().configure(config, now_ms)
        self.old = msgspec.structs.replace(config, voters={**config.voters, **gone})

    def count(self) -> None:
        old = getattr(self, "old", None)
        if old is None:
            super().count()
            return
        agreed = min(agreed_seq(old, self.everybody()), self.replica.position.seq)
        if agreed > max(self.commit_seq, self.first_seq - 1):
            self.commit_seq = agreed
            self.replica.actions.append(Committed(self.epoch, agreed))

    def everybody(self) -> Mapping[str, int]:
        return self._persisted()


class CountsForgotten(Leads):
    """A member that was forgotten still counts."""

    leading_kind = _CountsForgotten


class _IgnoresPending(Leading):
    def count(self) -> None:
        pending, self.pending = self.pending, None
        super().count()
        self.pending = pending


class IgnoresThePendingChange(Leads):
    """While a change of the voters is under way only the old ones are asked."""

    leading_kind = _IgnoresPending


class _StreamsToAnybody(Leading):
    def decision(self, peer: str, frame: Attach) -> str:
        is_there = self.replica.ring.position_at(frame.position.seq) is not None
        return STREAM if is_there and frame.is_whole else super().decision(peer, frame)


class AttachesBeyondAgreement(Leads):
    """Only the number of a follower's last entry is looked at, not its epoch."""

    leading_kind = _StreamsToAnybody


class _TrustsHalves(Leading):
    def decision(self, peer: str, frame: Attach) -> str:
        return super().decision(peer, msgspec.structs.replace(frame, open_epoch=0))


class AttachesHalfEntries(Leads):
    """A follower may follow another leader though parts of an entry lie behind its position."""

    leading_kind = _TrustsHalves


class LeadsWithHalfEntries(Leads):
    """Followers attach to a leader that began with parts of an entry behind its position."""

    def begin_leading(self, config: ClusterConfig) -> Leading:
        self.replica.ring = Ring(self.replica.position)
        return super().begin_leading(config)


class _ShrinksAlone(Leading):
    def count(self) -> None:
        config = self.config
        now_ms = max([0, *(one.heard_ms for one in self.progress.values())])
        self.config = msgspec.structs.replace(config, in_sync=self.next_in_sync(now_ms))
        super().count()
        self.config = config


class ShrinksWithoutSwap(Leads):
    """In the mode all, who is slow is left out before the coordinator has said yes."""

    leading_kind = _ShrinksAlone


class _LeavesMirrorsOut(Leading):
    def in_sync_now(self) -> frozenset[str]:
        now_ms = max([0, *(one.heard_ms for one in self.progress.values())])
        return super().in_sync_now() & frozenset(self.next_in_sync(now_ms))


class LeavesMirrorsOutWithoutSwap(Leads):
    """Mirrored queues go on without one that is late before the coordinator has said yes."""

    leading_kind = _LeavesMirrorsOut


class _TakesMirrorsEarly(Leading):
    def next_in_sync(self, now_ms: int) -> tuple[str, ...]:
        found = super().next_in_sync(now_ms)
        if not self.is_mirrored or self.pending is not None:
            return found
        linked = {name for name, one in self.progress.items() if one.session}
        return tuple(sorted({*found, *(linked & self.config.voters.keys())}))


class TakesMirrorsThatLackSome(Leads):
    """Who is connected is in sync, though it has not everything on its disk yet."""

    leading_kind = _TakesMirrorsEarly


class ConfirmsAfterAPause(Member):
    """A leader that was stopped reads what has come before it asks whether it still leads."""

    def _at(self, now_ms: int) -> None:
        self._now_ms = max(self._now_ms, now_ms)

    def tick(self, now_ms: int) -> None:
        super()._at(now_ms)
        super().tick(now_ms)


# -- elections -------------------------------------------------------------------------------------


class _TakesTheFirst(Election):
    def chosen(self, config: ClusterConfig, now_ms: int) -> str:
        if not super().chosen(config, now_ms):
            return ""
        return min(name for name, one in self.promises.items() if one.is_whole)


class _TakesAFew(Election):
    def chosen(self, config: ClusterConfig, now_ms: int) -> str:
        found = [one for one in self.promises.values() if one.is_whole]
        is_enough = len(found) >= len(config.voters) // 2
        return max(found, key=lambda one: one.position).name if is_enough and found else ""


class Elects(Member):
    """Elects by `election_kind`."""

    election_kind: type[Election] = Election

    def __init__(
        self,
        name: str,
        state: MemberState,
        position: Position,
        origin: Origin,
        timing: Timing,
        bounds: Bounds,
        chance: Chance,
        now_ms: int,
    ) -> None:
        super().__init__(name, state, position, origin, timing, bounds, chance, now_ms)
        self.election = self.election_kind(name, timing, chance)


class ElectsAShorterLog(Elects):
    """Of those that promised the first by name leads."""

    election_kind = _TakesTheFirst


class ElectsByAMinority(Elects):
    """Half of the voters are enough."""

    election_kind = _TakesAFew


class PromisesUnwritten(Member):
    """The promise is told before it is on the disk."""

    def _try_promise(self) -> None:
        super()._try_promise()
        if self._promising == self.epoch and self._promised_here != self.epoch:
            self.replica.durable = msgspec.structs.replace(
                self.replica.durable, promised=self.epoch
            )
            self._put_promise()


class ForgetsItsPromise(Member):
    """What was promised is not read at a start."""

    def __init__(
        self,
        name: str,
        state: MemberState,
        position: Position,
        origin: Origin,
        timing: Timing,
        bounds: Bounds,
        chance: Chance,
        now_ms: int,
    ) -> None:
        forgetful = msgspec.structs.replace(state, promised=0)
        super().__init__(name, forgetful, position, origin, timing, bounds, chance, now_ms)


class PromisesAMixture(Member):
    """A replica that is being copied says that it is whole."""

    def _put_promise(self) -> None:
        durable = self.replica.durable
        self.replica.durable = msgspec.structs.replace(durable, is_whole=True)
        super()._put_promise()
        self.replica.durable = durable


# -- followers -------------------------------------------------------------------------------------


class Follows(Member):
    """Follows as `following_kind` does."""

    following_kind: type[Following] = Following

    def __init__(
        self,
        name: str,
        state: MemberState,
        position: Position,
        origin: Origin,
        timing: Timing,
        bounds: Bounds,
        chance: Chance,
        now_ms: int,
    ) -> None:
        super().__init__(name, state, position, origin, timing, bounds, chance, now_ms)
        self.following = self.following_kind(self.replica, timing, self.is_linked)


class _AcksReceived(Following):
    def acknowledge(self) -> None:
        position = self.replica.position
        self.replica.position = self.replica.tail
        super().acknowledge()
        self.replica.position = position

    def entries(self, frame: Entries, now_ms: int) -> None:
        super().entries(frame, now_ms)
        self.acknowledge()


class AcknowledgesBeforeTheDisk(Follows):
    """Entries are acknowledged when they were received."""

    following_kind = _AcksReceived


class _OpensAtOnce(Following):
    def _stream(self, frame: Attached) -> None:
        super()._stream(frame)
        if self.phase == STREAMING and not self._is_open and self._whole_at is None:
            self._open()


class AppliesBeforeItIsNoted(Follows):
    """Entries of an epoch are applied before the disk knows that some may lie there in part."""

    following_kind = _OpensAtOnce


class _WholeWhenCopied(Following):
    def _stream(self, frame: Attached) -> None:
        super()._stream(msgspec.structs.replace(frame, end=frame.position))


class IsWholeWhenCopied(Follows):
    """A copy counts as whole before what was written meanwhile is applied."""

    following_kind = _WholeWhenCopied


class ForgetsHalves(Member):
    """A replica believes to be exact after a crash."""

    def __init__(
        self,
        name: str,
        state: MemberState,
        position: Position,
        origin: Origin,
        timing: Timing,
        bounds: Bounds,
        chance: Chance,
        now_ms: int,
    ) -> None:
        bold = msgspec.structs.replace(state, open_epoch=0)
        super().__init__(name, bold, position, origin, timing, bounds, chance, now_ms)


class IsExactWhenDeposed(Member):
    """A leader that was stopped in the middle of its work believes to be exact."""

    def stopped(self, is_exact: bool, now_ms: int) -> None:
        super().stopped(True, now_ms)


class _SkipsGaps(Following):
    def entries(self, frame: Entries, now_ms: int) -> None:
        if self.phase == STREAMING and frame.previous.seq > self.replica.tail.seq:
            self.replica.restart_at(frame.previous)
        super().entries(frame, now_ms)


class _LeadsOverGaps(Leading):
    def _give_up(self, peer: str, one: object, now_ms: int) -> None:
        progress = self.progress[peer]
        base = self.replica.ring.base
        if base is not None:
            progress.sent_seq = progress.acked_seq = base.seq


class SkipsGaps(Follows):
    """What is kept no longer is passed over."""

    following_kind = _SkipsGaps

    def begin_leading(self, config: ClusterConfig) -> Leading:
        return _LeadsOverGaps(
            self.replica, config, self.timing, self.bounds, self.is_linked, self._now_ms
        )


class _Stays(Following):
    stays = False

    def leave(self, words: str) -> None:
        if not self.stays:
            super().leave(words)


class TakesAnyEpoch(Follows):
    """Who has promised an epoch goes on taking the entries of the one before."""

    following_kind = _Stays

    def _enter(self, epoch: int, words: str) -> None:
        following = self.following
        assert isinstance(following, _Stays), "because that is its kind"
        following.stays = True
        super()._enter(epoch, words)
        following.stays = False

    def _try_promise(self) -> None:
        self.following.leader, leader = "", self.following.leader
        super()._try_promise()
        self.following.leader = leader

    def _put_promise(self) -> None:
        self.following.leader, leader = "", self.following.leader
        super()._put_promise()
        self.following.leader = leader

    def received(self, peer: str, frame: Frame, now_ms: int) -> None:
        following = self.following
        is_led = peer == following.leader and following.epoch < self.epoch
        if is_led and isinstance(frame, Entries) and frame.epoch == following.epoch:
            following.entries(frame, now_ms)
        elif not is_led or not isinstance(frame, Heartbeat):
            super().received(peer, frame, now_ms)


class ChangesTwoAtOnce(Member):
    """With a voter that is forgotten another one is left out, in the same change."""

    def _change(
        self,
        voters: dict[str, str] | None = None,
        forgotten: dict[str, str] | None = None,
        in_sync: tuple[str, ...] | None = None,
    ) -> None:
        leading = self.leading
        if voters is not None and leading is not None and forgotten is not None:
            others = [name for name in sorted(voters) if name != self.name]
            gone = max(others, key=lambda name: leading.progress[name].persisted_seq)
            voters = {name: identity for name, identity in voters.items() if name != gone}
        super()._change(voters, forgotten, in_sync)


class _KeepsAll(Seen):
    def clear(self) -> None:
        """Nothing is forgotten."""


class RemembersAnotherLog(Member):
    """What it knew of publishes is still believed when its log was replaced by another one."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.replica.seen = _KeepsAll(1 << 20)


MEMBERS = ("add_member", "forget_member", "kill", "isolate", "slow_disk")
# Changes of the voters while disks are behind.
CHANGES = ("forget_member", "add_member", *("slow_disk",) * 4, "stall_disk")
HALVES = ("kill", "isolate", "slow_disk", "stall_disk")
# Who cannot reach the coordinator goes on leading when its peers are back.
CUTS = (*("cut_all_peers",) * 2, *("cut_store",) * 3, "flap")
LINKS = ("one_way", "cut_store", "isolate", "delay", "move", "pause")

# What is planted, and the trouble in which it is looked for, () for any.
BUGS: list[tuple[type[Member] | type[SimNode], tuple[str, ...], str]] = [
    (ConfirmsBeforeFollowers, (), ""),
    (CountsWhatWasSent, (), ""),
    (CountsForgotten, MEMBERS, "majority"),
    (IgnoresThePendingChange, (), ""),
    (AttachesBeyondAgreement, (), ""),
    (AttachesHalfEntries, (), ""),
    (LeadsWithHalfEntries, HALVES, "majority"),
    (ShrinksWithoutSwap, LINKS, "all"),
    (LeavesMirrorsOutWithoutSwap, LINKS, "majority"),
    (TakesMirrorsThatLackSome, (), "majority"),
    (ConfirmsAfterAPause, ("pause",), ""),
    (ElectsAShorterLog, (), ""),
    (ElectsByAMinority, (), ""),
    (PromisesUnwritten, (), ""),
    (ForgetsItsPromise, (), ""),
    (PromisesAMixture, (), ""),
    (AcknowledgesBeforeTheDisk, (), ""),
    (AppliesBeforeItIsNoted, (), ""),
    (IsWholeWhenCopied, (), ""),
    (ForgetsHalves, (), ""),
    (IsExactWhenDeposed, (), ""),
    (SkipsGaps, (), ""),
    (TakesAnyEpoch, CUTS, "majority"),
    (ChangesTwoAtOnce, CHANGES, "majority"),
    (RemembersAnotherLog, ("isolate", "slow_disk"), "majority"),
]
