"""One member of a cluster as a state machine: inputs with a time, and a list of actions."""

from typing import Final

import msgspec

from penstock.base.chance import Chance
from penstock.replication import refusals
from penstock.replication.actions import (
    Action,
    Apply,
    Closed,
    Drop,
    PutPromise,
    PutSuspicion,
    ReadConfig,
    Refuse,
    Send,
    StartLeading,
    StopLeading,
    Swap,
    WithdrawSuspicion,
)
from penstock.replication.config import (
    ALL,
    ELECTING,
    LED,
    RESIGNED,
    ClusterConfig,
    Promise,
    is_majority,
)
from penstock.replication.election import Election
from penstock.replication.following import Following
from penstock.replication.frames import (
    PROTOCOL,
    Ack,
    Attach,
    Attached,
    Entries,
    Fenced,
    Frame,
    Heartbeat,
    Hello,
    Refused,
)
from penstock.replication.leading import Leading
from penstock.replication.positions import Entry, Position
from penstock.replication.replica import Replica
from penstock.replication.state import MemberState, Origin
from penstock.replication.timing import Bounds, Timing
from penstock.replication.views import MemberView

STARTING: Final = "starting"
LEARNER: Final = "learner"
FOLLOWER: Final = "follower"
CANDIDATE: Final = "candidate"
LEADER: Final = "leader"
REFUSED: Final = "refused"


class _Peer:
    """A peer that said hello."""

    __slots__ = ("heard_ms", "identity")

    def __init__(self, identity: str, now_ms: int) -> None:
        self.identity = identity
        self.heard_ms = now_ms


class Member:
    """See the room. Every input takes the time last, in milliseconds of a monotonic clock; what is
    to be done about it is in `take_actions`. What peers send raises nothing.

    machine: which start of it this is; epoch: the highest seen; words: why it is not at work.
    """

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
        machine: str = "",
    ) -> None:
        self.name = name
        self.origin = origin
        self.timing = timing
        self.bounds = bounds
        self.actions: list[Action] = []
        self.replica = Replica(name, state, position, self.actions, machine)
        self.following = Following(self.replica, timing, self.is_linked)
        self.election = Election(name, timing, chance)
        self.leading: Leading | None = None
        self.config: ClusterConfig | None = None
        self.revision = 0
        self.epoch = self.replica.state.promised
        self.is_refused = False
        self.words = ""
        self.refusals: dict[str, str] = {}
        self._peers: dict[str, _Peer] = {}
        # Since when there has been no link to a peer; refused: nobody is there.
        self._lost_ms: dict[str, int] = {}
        self._refused: set[str] = set()
        self._now_ms = now_ms
        self._leader_heard_ms = now_ms
        self._beat_ms = now_ms - timing.heartbeat_ms
        # The epoch in which this process has promised, and nothing of the log has moved since.
        self._promised_here = 0
        self._promising = 0
        self._promise_ms = 0
        self._opening = 0
        # The epoch it has led, and leads no longer.
        self._ended = 0
        self._stopping = 0
        self._is_ending = False
        self._prefer = ""
        # Since when its broker has stopped in order, and followers are given what they lack.
        self._handing_ms: int | None = None
        self._is_closing = False
        self._is_closed = False
        self._swap: Swap | None = None
        self._swap_ms = 0
        self._swap_unknown = False
        self._number = 0
        self._read_ms = now_ms
        started = msgspec.structs.replace(self.replica.state, starts=state.starts + 1)
        self.replica.persist(started, lambda: None)
        self.actions.append(ReadConfig())

    # -- what it is ----------------------------------------------------------------------------

    @property
    def role(self) -> str:
        if self.is_refused:
            return REFUSED
        if self.leading is not None:
            return LEADER
        config = self.config
        if config is None:
            return STARTING
        if not self._is_voter(config):
            return LEARNER
        is_candidate = config.phase == ELECTING and config.leader == self.name
        return CANDIDATE if is_candidate and config.epoch == self.epoch else FOLLOWER

    @property
    def leader(self) -> str:
        """The name of the leader it knows of, "" for none."""
        return self.name if self.leading is not None else self.following.leader

    @property
    def commit_seq(self) -> int:
        """The commit point; a follower's is behind it."""
        return self.following.commit_seq if self.leading is None else self.leading.commit_seq

    @property
    def uncommitted_bytes(self) -> int:
        """Of entries the leader's broker has sent, 0 for followers."""
        return 0 if self.leading is None else self.leading.uncommitted_bytes

    def is_linked(self, peer: str) -> bool:
        return peer in self._peers

    def view(self, now_ms: int) -> MemberView:
        """Everything an operator may ask."""
        leading = self.leading
        return MemberView(
            self.name,
            self.role,
            self.epoch,
            self.leader,
            self.replica.position,
            self.commit_seq,
            self.replica.state.is_whole,
            self.replica.is_exact and leading is None,
            leading is not None and leading.is_serving,
            self.words,
            tuple(sorted(self._peers)),
            dict(self.refusals),
            () if leading is None else leading.view(now_ms),
        )

    def take_actions(self) -> list[Action]:
        """What is to be done, in its order. Empties the list."""
        if self.leading is not None and not self.is_refused:
            self.leading.pump(self._now_ms)
        found = list(self.actions)
        self.actions.clear()
        return found

    # -- the coordinator -----------------------------------------------------------------------

    def config_seen(self, config: ClusterConfig | None, revision: int, now_ms: int) -> None:
        """The configuration was read, or has changed; None when there is none."""
        self._at(now_ms)
        if self.is_refused or self._is_closed:
            return
        if config is None:
            self._no_config()
            return
        if revision <= self.revision:
            return
        before = self.config
        self.config = config
        self.revision = revision
        if self._swap is not None and revision > self._swap.expected_revision:
            self._swap = None
            if self.leading is not None:
                self.leading.pending = None
        words = refusals.of_config(config, self.name, self.replica.state, self.origin.has_data)
        if words:
            self._refuse(words)
            return
        self._join(config)
        if before is None or (before.epoch, before.phase) != (config.epoch, config.phase):
            self.election.phase_seen(config, now_ms)
        self._obey(config)

    def swapped(self, number: int, is_done: bool, now_ms: int) -> None:
        """A swap was decided: either way the configuration is another one now."""
        self._at(now_ms)
        self.actions.append(ReadConfig())

    def swap_failed(self, number: int, now_ms: int) -> None:
        """Nobody knows whether a swap took place. It is tried again: one of both is then known to
        have failed, and no late one can surprise."""
        self._at(now_ms)
        if self._swap is not None and self._swap.number == number:
            self._swap_unknown = True
        self.actions.append(ReadConfig())

    def promise_seen(self, promise: Promise, now_ms: int) -> None:
        self._at(now_ms)
        if promise.epoch == self.epoch:
            self.election.promises[promise.name] = promise
            self._choose()

    def suspicion_seen(self, epoch: int, name: str, now_ms: int) -> None:
        self._at(now_ms)
        if epoch == self.epoch:
            self.election.suspicions.add(name)

    def suspicion_gone(self, epoch: int, name: str, now_ms: int) -> None:
        self._at(now_ms)
        if epoch == self.epoch:
            self.election.suspicions.discard(name)

    # -- peers ---------------------------------------------------------------------------------

    def link_up(self, peer: str, now_ms: int) -> None:
        """There is a connection with a peer."""
        self._at(now_ms)
        state = self.replica.state
        hello = Hello(PROTOCOL, state.cluster_id, self.name, state.identity, self.epoch)
        self.actions.append(Send(peer, hello))

    def link_down(self, peer: str, is_refused: bool, now_ms: int) -> None:
        """It has ended, or cannot be made: is_refused, as nobody listens there."""
        self._at(now_ms)
        if self._peers.pop(peer, None) is not None or peer not in self._lost_ms:
            self._lost_ms[peer] = now_ms
        if is_refused:
            self._refused.add(peer)
        self.following.link_lost(peer)
        if self.leading is not None:
            self.leading.link_lost(peer, self._now_ms)

    def received(self, peer: str, frame: Frame, now_ms: int) -> None:
        """A frame of a peer."""
        self._at(now_ms)
        if self.is_refused or self._is_closed:
            return
        if isinstance(frame, Hello):
            self._hello(peer, frame)
            return
        if isinstance(frame, Refused):
            self.refusals[peer] = frame.words
            self.actions.append(Drop(peer, frame.words))
            return
        known = self._peers.get(peer)
        if known is None:
            return
        known.heard_ms = now_ms
        if isinstance(frame, Fenced):
            if frame.epoch > self.epoch:
                self._step_down(f"{peer} has promised epoch {frame.epoch}", with_resign=False)
                self.actions.append(ReadConfig())
            return
        if frame.epoch < self.epoch and not isinstance(frame, Ack | Attached):
            self._answer_old(peer, frame)
            return
        if isinstance(frame, Heartbeat):
            self._heartbeat(peer, frame)
        elif isinstance(frame, Attach | Ack):
            self._of_follower(peer, frame)
        elif peer == self.following.leader and frame.epoch == self.following.epoch:
            self._leader_heard_ms = now_ms
            if isinstance(frame, Attached):
                self.following.attached(frame, now_ms)
            else:
                self.following.entries(frame, now_ms)
                self.replica.ring.trim(self.bounds.retention_bytes, self.following.commit_seq)

    def _hello(self, peer: str, frame: Hello) -> None:
        words = refusals.of_hello(frame, peer, self.replica.state, self.config)
        if words:
            self.refusals[peer] = words
            self.actions.append(Send(peer, Refused(words)))
            self.actions.append(Drop(peer, words))
            return
        self.refusals.pop(peer, None)
        self._refused.discard(peer)
        self._peers[peer] = _Peer(frame.identity, self._now_ms)
        self._send_heartbeat(peer)
        if peer == self.following.leader:
            self.following.ask(self._now_ms)

    def _answer_old(self, peer: str, frame: Heartbeat | Attach | Entries) -> None:
        """A peer does not know of this epoch."""
        if isinstance(frame, Entries) or (isinstance(frame, Heartbeat) and frame.is_leader):
            self.actions.append(Send(peer, Fenced(self.epoch)))
        elif isinstance(frame, Attach) and self.leading is not None:
            self._send_heartbeat(peer)

    def _heartbeat(self, peer: str, frame: Heartbeat) -> None:
        if not frame.is_leader:
            if frame.epoch > self.epoch:
                self._read_soon()
            elif self.leading is not None:
                self.leading.hear(peer, self._now_ms)
                self.leading.disk_heard(peer, frame.disk_ms)
            return
        if not self.replica.state.cluster_id:
            # Whether this directory may become part of the cluster is not known yet.
            self._read_soon()
            return
        if frame.epoch > self.epoch:
            self._enter(frame.epoch, f"{peer} leads epoch {frame.epoch}")
        if self.leading is None and self._opening != self.epoch:
            before = self.following.leader, self.following.epoch
            self._follow(peer)
            self.following.leader_heard(self._now_ms, is_new=before != (peer, self.epoch))
            self._leader_heard_ms = self._now_ms
            self.following.commit_seq = max(self.following.commit_seq, frame.commit_seq)

    def _of_follower(self, peer: str, frame: Attach | Ack) -> None:
        if frame.epoch > self.epoch:
            self._read_soon()
        elif self.leading is not None and frame.epoch == self.epoch:
            self.leading.hear(peer, self._now_ms)
            if isinstance(frame, Ack):
                self.leading.acknowledge(peer, frame)
                self._hand_over()
            else:
                self.leading.attach(peer, frame, self._now_ms, self._peers[peer].identity)

    # -- disk and broker -----------------------------------------------------------------------

    def persisted(self, number: int, now_ms: int) -> None:
        """The state of that Persist is on the disk."""
        self._at(now_ms)
        self.replica.persisted(number)
        self.following.applied(self._now_ms)
        self._go_on()

    def applied(self, position: Position, now_ms: int) -> None:
        """Everything up to `position` is on the disk, and so is that itself."""
        self._at(now_ms)
        self.replica.reached(position)
        if self.leading is not None:
            self.leading.applied(now_ms)
        self.following.applied(self._now_ms)
        self._go_on()

    def append(self, payload: bytes, now_ms: int, publishes: bytes = b"") -> int:
        """The leader's broker sent an `Entry`: its number, 0 when it leads no longer."""
        self._at(now_ms)
        if self.leading is None:
            return 0
        if self.replica.is_drained:
            self.leading.local_began(now_ms)
        entry = Entry(self.epoch, self.replica.tail.seq + 1, payload, publishes)
        self.replica.take(entry)
        return entry.seq

    def stopped(self, is_exact: bool, now_ms: int) -> None:
        """The broker is gone. is_exact: in order; the directory is at the last entry it sent, and
        that was told by `applied`."""
        # Not `_at`, which would have a broker stopped that is gone.
        self._now_ms = max(self._now_ms, now_ms)
        if self._is_ending and is_exact and self.replica.is_drained:
            self._handing_ms = self._now_ms
            if self.leading is not None:
                self.leading.is_ending = True
            self._hand_over()
            return
        if self.leading is not None:
            self._end_leading(with_resign=True)
        self._stopped(is_exact)

    def _stopped(self, is_exact: bool) -> None:
        self._stopping = 0
        replica = self.replica
        replica.is_exact = is_exact and replica.is_drained
        if not replica.is_exact:
            replica.forget_history()
        self._go_on()
        if self.config is not None:
            self._obey(self.config)

    def marked(self, number: int, now_ms: int) -> None:
        """The leader's broker has passed that mark."""
        self._at(now_ms)
        if self.leading is not None:
            self.leading.marked(number)

    def mirrored(self, is_mirrored: bool, now_ms: int) -> None:
        """Whether the leader's broker has mirrored queues, which wait for all who are in sync."""
        self._at(now_ms)
        if self.leading is not None:
            self.leading.is_mirrored = is_mirrored

    def local_stalled(self, stalled_ms: int, now_ms: int) -> None:
        """A job of the leader's disk has been under way for so long."""
        self._at(now_ms)
        if stalled_ms >= self.timing.disk_stall_ms:
            self._step_down(refusals.stalled(stalled_ms), with_resign=True)

    def copied(self, session: int, now_ms: int) -> None:
        """The copy of BeginResync is there, and the position stored is its base."""
        self._at(now_ms)
        self.following.copied(session, now_ms)

    def resync_failed(self, session: int, now_ms: int) -> None:
        """It is not."""
        self._at(now_ms)
        self.following.resync_failed(session, now_ms)

    def disk_failed(self, words: str, now_ms: int) -> None:
        """The directory can be written no longer."""
        self._at(now_ms)
        self._refuse(f"the disk of {self.name} failed: {words}")

    # -- commands ------------------------------------------------------------------------------

    def forget(self, name: str, now_ms: int) -> str:
        """Take a voter out for good. Returns: why not, "" when it is under way."""
        self._at(now_ms)
        leading = self.leading
        if leading is None:
            return refusals.not_leading(self.name, self.leader)
        words = refusals.of_forgetting(name, self.name, leading, self.is_linked)
        if words:
            return words
        config = leading.config
        voters = {one: identity for one, identity in config.voters.items() if one != name}
        kept = list(config.forgotten.items())[-(self.bounds.forgotten - 1) :]
        self._change(
            voters=voters,
            forgotten={**dict(kept), config.voters[name]: name},
            in_sync=tuple(one for one in config.in_sync if one != name),
        )
        return ""

    def resign(self, prefer: str, now_ms: int) -> str:
        """Let somebody else lead, `prefer` if it can. Returns: why not, "" when it is under way."""
        self._at(now_ms)
        if self.leading is None:
            return refusals.not_leading(self.name, self.leader)
        self._end_orderly("an operator moves leadership", prefer)
        return ""

    def close(self, now_ms: int) -> None:
        """Come to an end in order; then there is a Closed."""
        self._at(now_ms)
        self._is_closing = True
        if self.leading is not None:
            self._end_orderly("the member is being stopped", "")
        self.following.close()
        self._go_on()

    # -- time ----------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Some time has passed. To be called several times in a heartbeat."""
        self._at(now_ms)
        if self.is_refused or self._is_closed:
            return
        if now_ms - self._beat_ms >= self.timing.heartbeat_ms:
            self._beat_ms = now_ms
            for peer, known in sorted(self._peers.items()):
                if now_ms - known.heard_ms > self.timing.silence_ms:
                    self.actions.append(Drop(peer, "nothing is heard of it"))
                else:
                    self._send_heartbeat(peer)
        self._retry_swap()
        if self.leading is not None:
            self._tend()
            self._hand_over()
        self.following.tick(now_ms)
        self._suspect()
        self._try_promise()
        self._choose()
        self._maybe_campaign()

    def _at(self, now_ms: int) -> None:
        """It is later. A leader that was stopped for a while notices before it does anything: what
        it has read of acknowledgements may be from before, and others may lead."""
        self._now_ms = max(self._now_ms, now_ms)
        if self.leading is not None and not self.leading.has_quorum(self._now_ms):
            self._step_down(refusals.no_quorum(self.timing.quorum_ms), with_resign=True)

    def _tend(self) -> None:
        """A leader looks after its disk, its voters, and who is in sync."""
        leading = self.leading
        assert leading is not None, "because only leaders are asked"
        stalled_ms = leading.stalled_ms(self._now_ms)
        if stalled_ms >= self.timing.disk_stall_ms:
            self._step_down(refusals.stalled(stalled_ms), with_resign=True)
            return
        if self._swap is not None or self._is_ending:
            return
        name = leading.next_voter({peer: one.identity for peer, one in self._peers.items()})
        if name:
            self._change(voters={**leading.config.voters, name: self._peers[name].identity})
            return
        in_sync = leading.next_in_sync(self._now_ms)
        if in_sync != leading.config.in_sync:
            self._change(in_sync=in_sync)

    def _send_heartbeat(self, peer: str) -> None:
        disk_ms = self.following.disk_ms(self._now_ms)
        frame = Heartbeat(self.epoch, self.leading is not None, self.commit_seq, disk_ms)
        self.actions.append(Send(peer, frame))

    def _read_soon(self) -> None:
        """Read the configuration, not more often than it makes sense."""
        if self._now_ms - self._read_ms >= self.timing.heartbeat_ms // 4:
            self._read_ms = self._now_ms
            self.actions.append(ReadConfig())

    # -- joining -------------------------------------------------------------------------------

    def _no_config(self) -> None:
        state = self.replica.state
        if self.config is not None or self._swap is not None:
            return
        words = refusals.of_no_config(state, self.origin.may_create)
        if words:
            self._refuse(words)
            return
        in_sync = (self.name,) if self.origin.mode == ALL else ()
        voters = {self.name: state.identity}
        self._offer(
            0,
            ClusterConfig(
                self.origin.cluster_id, 1, ELECTING, self.name, voters, self.origin.mode, in_sync
            ),
        )

    def _join(self, config: ClusterConfig) -> None:
        """Become part of the cluster, durably; a directory that was not is whole after a copy."""
        state = self.replica.state
        if state.cluster_id == config.cluster_id:
            return
        is_whole = self._is_voter(config)
        self.replica.forget_history()
        joined = msgspec.structs.replace(state, cluster_id=config.cluster_id, is_whole=is_whole)
        self.replica.persist(joined, lambda: None)

    def _is_voter(self, config: ClusterConfig) -> bool:
        return config.voters.get(self.name) == self.replica.state.identity

    # -- epochs --------------------------------------------------------------------------------

    def _obey(self, config: ClusterConfig) -> None:
        """Do what the configuration says, unless something later is known."""
        for peer in [peer for peer, one in self._peers.items() if not self._is_known(peer, one)]:
            self.actions.append(Drop(peer, refusals.other_identity(peer)))
        if config.epoch < self.epoch:
            return
        if config.epoch > self.epoch:
            self._enter(config.epoch, f"{config.leader} is at epoch {config.epoch}")
        if config.phase == LED:
            if config.leader == self.name:
                self._named(config)
            elif self.leading is None:
                self._follow(config.leader)
        elif config.phase == RESIGNED:
            if self.leading is None:
                self.following.leave("its leader has resigned")
        else:
            self._try_promise()
            self._choose()

    def _is_known(self, peer: str, one: _Peer) -> bool:
        assert self.config is not None, "because one is being obeyed"
        is_forgotten = one.identity in self.config.forgotten
        return not is_forgotten and self.config.voters.get(peer, one.identity) == one.identity

    def _enter(self, epoch: int, words: str) -> None:
        """Another epoch: nothing of earlier ones is taken any more."""
        self.epoch = epoch
        self._step_down(words, with_resign=False)
        self.following.leave(words)
        self.election.begin()
        self._promised_here = 0
        self._opening = 0

    def _follow(self, leader: str) -> None:
        if self.following.leader == leader and self.following.epoch == self.epoch:
            return
        if self._stopping:
            # Its broker may still be writing; `stopped` comes back here.
            return
        self._leader_heard_ms = self._now_ms
        self.words = ""
        self.following.follow(leader, self.epoch, self._now_ms)

    def _named(self, config: ClusterConfig) -> None:
        """The configuration says that this member leads."""
        if self.leading is not None:
            self.leading.configure(config, self._now_ms)
            return
        if self._ended == self.epoch and self._swap is None:
            # Another change of the configuration came before its resignation.
            self._offer_resignation(config)
            return
        is_able = self._promised_here == self.epoch and not self._stopping and not self._is_closing
        if is_able and self._opening != self.epoch:
            self._opening = self.epoch
            self._promised_here = 0
            self.replica.persist(self.replica.open_state(self.epoch), self._lead)

    def _lead(self) -> None:
        config = self.config
        is_named = config is not None and config.phase == LED and config.leader == self.name
        if config is None or not is_named or config.epoch != self.epoch or self.is_refused:
            return
        replica = self.replica
        is_noted = replica.durable.open_epoch == self.epoch
        if self._opening != self.epoch or self._is_closing or not is_noted:
            return
        assert replica.is_drained, "because it has promised"
        if not replica.is_exact:
            replica.forget_history()
        # Whatever is in it, the others follow it from here on.
        replica.keep()
        self.leading = self.begin_leading(config)
        self._prefer = self.words = ""
        marker = Entry(self.epoch, replica.tail.seq + 1, b"")
        replica.take(marker)
        self.actions.append(Apply((marker,)))
        self.actions.append(StartLeading(self.epoch, marker.seq + 1))
        for peer in sorted(self._peers):
            self._send_heartbeat(peer)

    def begin_leading(self, config: ClusterConfig) -> Leading:
        """The books of an epoch that this member leads."""
        replica = self.replica
        return Leading(replica, config, self.timing, self.bounds, self.is_linked, self._now_ms)

    def _step_down(self, words: str, *, with_resign: bool) -> None:
        """Lead no longer, at once."""
        if self.leading is None:
            return
        self.words = words
        is_broker_gone = self._handing_ms is not None
        if not is_broker_gone:
            self.actions.append(StopLeading(self.leading.epoch, words, False))
        self._end_leading(with_resign=with_resign)
        if is_broker_gone:
            self._stopping = 0
            self.replica.is_exact = True

    def _end_leading(self, *, with_resign: bool) -> None:
        leading = self.leading
        assert leading is not None, "because only leaders are ended"
        self._stopping = self._ended = leading.epoch
        self.leading = None
        self._is_ending = False
        self._handing_ms = None
        self.following.commit_seq = leading.commit_seq
        # Until the broker says otherwise its last jobs may have been done in part.
        self.replica.is_exact = False
        config = self.config
        is_mine = config is not None and config.phase == LED and config.leader == self.name
        if with_resign and config is not None and is_mine and config.epoch == leading.epoch:
            self._offer_resignation(config)

    def _offer_resignation(self, config: ClusterConfig) -> None:
        resigned = msgspec.structs.replace(config, phase=RESIGNED, prefer=self._prefer)
        self._offer(self.revision, resigned)

    def _end_orderly(self, words: str, prefer: str) -> None:
        leading = self.leading
        if leading is not None and not self._is_ending:
            self._is_ending = True
            self._prefer = prefer
            self.words = words
            self.actions.append(StopLeading(leading.epoch, words, True))

    def _hand_over(self) -> None:
        """Its broker has stopped in order. Who should lead next gets the rest of the log first: of
        several logs the longest leads, and it would be this one again."""
        leading = self.leading
        if leading is None or self._handing_ms is None:
            return
        is_late = self._now_ms - self._handing_ms >= self.timing.hand_over_ms
        if is_late or (self._swap is None and leading.has_successor(self._prefer)):
            self._end_leading(with_resign=True)
            self._stopped(True)

    def _refuse(self, words: str) -> None:
        if self.is_refused:
            return
        self._step_down(words, with_resign=False)
        self.following.close()
        self.is_refused = True
        self.words = words
        self.actions.append(Refuse(words))

    def _go_on(self) -> None:
        """Something has ended that others may have waited for."""
        self._try_promise()
        if not self._is_closing or self._is_closed or self.leading is not None or self._stopping:
            return
        replica = self.replica
        if replica.is_drained and replica.is_settled and not self.following.is_copying:
            epoch = 0 if replica.is_exact else replica.state.open_epoch
            closed = msgspec.structs.replace(replica.state, open_epoch=epoch)
            replica.persist(closed, self._close)

    def _close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.actions.append(Closed())

    # -- elections -----------------------------------------------------------------------------

    def _try_promise(self) -> None:
        """Promise the epoch that is being elected, once everything received is on the disk."""
        config = self.config
        if config is None or config.phase != ELECTING or config.epoch != self.epoch:
            return
        if not self._is_voter(config) or self._stopping or self._is_closing or self.is_refused:
            return
        if self.following.leader or not self.replica.is_drained:
            return
        if self._promised_here == self.epoch:
            if self._now_ms - self._promise_ms >= self.timing.retry_ms:
                self._put_promise()
        elif self._promising != self.epoch or self.replica.is_settled:
            self._promising = self.epoch
            promised = msgspec.structs.replace(self.replica.state, promised=self.epoch)
            self.replica.persist(promised, self._put_promise)

    def _put_promise(self) -> None:
        replica = self.replica
        if replica.durable.promised != self.epoch or self._opening == self.epoch:
            return
        if self.following.leader or not replica.is_drained or self._stopping:
            return
        self._promised_here = self.epoch
        self._promise_ms = self._now_ms
        promise = Promise(
            self.name,
            replica.state.identity,
            self.epoch,
            replica.position,
            replica.durable.is_whole,
            replica.is_exact,
        )
        self.actions.append(PutPromise(promise))

    def _choose(self) -> None:
        """As the candidate: make somebody the leader if the promises allow it."""
        config = self.config
        if config is None or self._swap is not None or self.is_refused or self._is_closing:
            return
        if config.phase != ELECTING or config.leader != self.name or config.epoch != self.epoch:
            return
        chosen = self.election.chosen(config, self._now_ms)
        if chosen:
            led = msgspec.structs.replace(
                config, phase=LED, leader=chosen, led_by=chosen, prefer=""
            )
            self._offer(self.revision, led)

    def _suspect(self) -> None:
        """Tell the others when the leader is not heard, and when it is again."""
        config = self.config
        election = self.election
        if config is None or config.phase != LED or config.epoch != self.epoch:
            return
        if config.leader == self.name or not self._is_voter(config) or self._is_closing:
            return
        is_silent = self._is_silent(config.leader)
        if is_silent and election.suspected != self.epoch:
            election.suspected = self.epoch
            self.actions.append(PutSuspicion(self.epoch))
        elif not is_silent and election.suspected == self.epoch:
            election.suspected = 0
            self.actions.append(WithdrawSuspicion(self.epoch))

    def _is_silent(self, leader: str) -> bool:
        if self._now_ms - self._leader_heard_ms > self.timing.silence_ms:
            return True
        if leader in self._peers:
            return False
        if leader in self._refused:
            return True
        lost_ms = max(self._lost_ms.get(leader, self._now_ms), self._leader_heard_ms)
        return self._now_ms - lost_ms >= self.timing.link_grace_ms

    def _maybe_campaign(self) -> None:
        config = self.config
        if config is None or self._swap is not None or self._is_closing or self._stopping:
            return
        if self.leading is not None or not self._is_voter(config):
            return
        if not is_majority(config, [*self._peers, self.name]):
            return
        if config.epoch < self.epoch:
            # A later epoch was heard of, and the coordinator does not know it (yet).
            if self._now_ms - self._leader_heard_ms <= 2 * self.timing.silence_ms:
                self._read_soon()
                return
            is_due = True
        else:
            is_named = config.leader == self.name and (
                self._ended == self.epoch or self.epoch not in (self._opening, self._promised_here)
            )
            is_due = self.election.should_campaign(config, is_named, self._now_ms)
        if is_due:
            epoch = max(config.epoch, self.epoch) + 1
            campaign = msgspec.structs.replace(
                config, epoch=epoch, phase=ELECTING, leader=self.name
            )
            self.election.put_off(self._now_ms)
            self._offer(self.revision, campaign)

    # -- changing the configuration ------------------------------------------------------------

    def _change(
        self,
        voters: dict[str, str] | None = None,
        forgotten: dict[str, str] | None = None,
        in_sync: tuple[str, ...] | None = None,
    ) -> None:
        """As the leader: change who votes or who is in sync, one change after the other."""
        leading = self.leading
        assert leading is not None, "because only leaders change them"
        config = leading.config
        leading.pending = msgspec.structs.replace(
            config,
            voters=config.voters if voters is None else voters,
            forgotten=config.forgotten if forgotten is None else forgotten,
            in_sync=config.in_sync if in_sync is None else in_sync,
        )
        self._offer(self.revision, leading.pending)

    def _offer(self, expected_revision: int, config: ClusterConfig) -> None:
        self._number += 1
        self._swap = Swap(self._number, expected_revision, config)
        self._swap_ms = self._now_ms
        self._swap_unknown = False
        self.actions.append(self._swap)

    def _retry_swap(self) -> None:
        """A swap whose outcome is unknown is tried again; one that was answered is read."""
        if self._swap is None or self._now_ms - self._swap_ms < self.timing.retry_ms:
            return
        if self._swap_unknown:
            self._offer(self._swap.expected_revision, self._swap.config)
        else:
            self._swap_ms = self._now_ms
            self.actions.append(ReadConfig())
