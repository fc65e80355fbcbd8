"""One simulated node: a real member, and a shell around it that carries its actions out."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.replication import actions as do
from penstock.replication.frames import Frame
from penstock.replication.positions import NOWHERE, Entry, Position
from penstock.replication.seen import Run, encode_runs
from penstock.replication.state import MemberState
from penstock.simulation.cluster.child import SimChild
from penstock.simulation.cluster.directory import CELLS, SimDirectory
from penstock.simulation.cluster.disk import SimDisk
from penstock.simulation.cluster.laws import reference_of
from penstock.simulation.cluster.network import SPOILT, ResyncFrame
from penstock.simulation.cluster.store import SimCoordinator

if TYPE_CHECKING:
    from penstock.replication.member import Member
    from penstock.simulation.cluster.world import ClusterWorld

RANGES = 8
TICK_MS = 40


class SimNode:
    """What survives a crash: directory, state, slot (the stored position), and `log`, the epochs of
    the entries that were applied, by number; the first is of number 1.

    life: changes with every start. skew_ms, drift: how its clock differs from the world's.
    """

    coordinator_kind: type[SimCoordinator] = SimCoordinator
    member: "Member"
    coordinator: SimCoordinator

    def __init__(self, world: "ClusterWorld", name: str, skew_ms: int, drift: float) -> None:
        self.world = world
        self.name = name
        self.skew_ms = skew_ms
        self.drift = drift
        self.life = 0
        self.is_up = False
        self.is_paused = False
        self.paused_ms = 0
        self.is_catching_up = False
        self.refused = ""
        self.child: SimChild | None = None
        self.disk = SimDisk(self)
        self.identities = 0
        # Logs by identity of directories that were emptied: what they had acknowledged was there.
        self.emptied: dict[str, list[int]] = {}
        self.begin_anew()

    def begin_anew(self) -> None:
        """An empty directory."""
        self.identities += 1
        self.directory = SimDirectory()
        self.state = MemberState(identity=f"{self.name}#{self.identities}")
        self.slot = NOWHERE
        self.log: list[int] = []

    def now_ms(self) -> int:
        """On its own monotonic clock."""
        return int(self.world.now_ns / 1e6 * (1 + self.drift)) + self.skew_ms

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        assert not self.is_up, "because a node starts once"
        self.life += 1
        self.is_up = True
        self.is_paused = False
        self.refused = ""
        self._backlog: list[tuple[str, Callable[[], None]]] = []
        self._chosen: dict[str, int] = {}
        self._copying: do.BeginResync | None = None
        self._range = 0
        self._idle_ticks = 0
        self._marks: list[int] = []
        self._starting: do.StartLeading | None = None
        self.is_closed = False
        self.member = self.world.make_member(self)
        self.coordinator = self.coordinator_kind(self.world.store, self)
        self.deliver("started", _nothing)
        self._tick(self.life)

    def _tick(self, life: int) -> None:
        if self.life != life or not self.is_up:
            return
        self.deliver("tick", self._tick_once)
        self.world.after(TICK_MS, lambda: self._tick(life))

    def _tick_once(self) -> None:
        if self._copying is not None:
            self._idle_ticks += 1
            if self._idle_ticks > 5:
                self._ask_range(self._copying)
        self.member.tick(self.now_ms())

    def crash(self, *, with_power: bool) -> None:
        """The process is killed, or the machine loses power."""
        if not self.is_up:
            return
        self.is_up = False
        self.is_paused = False
        if self.child is not None:
            self.child.kill()
            self.child = None
        self.disk.crash()
        if with_power:
            self.directory.lose_power(self.world.dice)
        self.world.network.died(self.name)

    def pause(self) -> None:
        self.is_paused = True
        self.paused_ms = self.now_ms()

    def go_on(self) -> None:
        """After a pause: everything that came meanwhile is read at once."""
        if not self.is_paused:
            return
        self.is_paused = False
        was_long = self.now_ms() - self.paused_ms > self.world.timing.quorum_ms + 50
        self.is_catching_up = was_long
        backlog, self._backlog = self._backlog, []
        for label, action in backlog:
            self.deliver(label, action)
        self.is_catching_up = False

    def deliver(self, label: str, action: Callable[[], None]) -> None:
        """Something happens to this node; then its actions are carried out, and the laws asked."""
        if not self.is_up:
            return
        if self.is_paused:
            self._backlog.append((label, action))
            return
        self.world.stepped(self, label)
        action()
        self._carry_out()
        self.world.laws.after_step(self)

    # -- from outside ------------------------------------------------------------------------------

    def take_frame(self, sender: str, message: Frame | ResyncFrame) -> None:
        life = self.life

        def take() -> None:
            if self.life != life:
                return
            if isinstance(message, ResyncFrame):
                self._resync_frame(sender, message)
            else:
                self.member.received(sender, message, self.now_ms())

        self.deliver(type(message).__name__, take)

    def link_lost(self, peer: str, is_refused: bool) -> None:
        self._chosen.pop(peer, None)
        if self._copying is not None and self._copying.leader == peer:
            session = self._copying.session
            self._copying = None
            self.member.resync_failed(session, self.now_ms())
        self.member.link_down(peer, is_refused, self.now_ms())

    # -- child and disk ----------------------------------------------------------------------------

    def child_sent(self, child: SimChild, seq: int, payload: bytes) -> None:
        if child is self.child:
            publishes = encode_runs([Run(reference_of(child.epoch), seq, seq)])
            given = self.member.append(payload, self.now_ms(), publishes)
            self.world.laws.appended(self, child.epoch, seq, given, payload)

    def child_synced(self, child: SimChild, seq: int) -> None:
        """The member stores the position, then counts it."""
        if child is self.child and seq > self.slot.seq:
            for _ in range(self.slot.seq, seq):
                self.log.append(child.epoch)
            self.slot = Position(child.epoch, seq)
            self.member.applied(self.slot, self.now_ms())

    def store_state(self, job: do.Persist) -> None:
        self.world.laws.state_stored(self, job.state)
        self.state = job.state
        self.deliver("persisted", lambda: self.member.persisted(job.number, self.now_ms()))

    def store_applied(self, entries: tuple[Entry, ...]) -> None:
        for entry in entries:
            del self.log[entry.seq - 1 :]
            self.log += [entry.epoch] * (entry.seq - len(self.log))
        self.slot = entries[-1].position
        self.tell_applied(self.slot)

    def disk_failed(self) -> None:
        """There is no room: the member says so, and its process ends."""
        words = "No space left on device"
        self.deliver("disk_failed", lambda: self.member.disk_failed(words, self.now_ms()))
        life = self.life

        def end() -> None:
            if self.life == life:
                self.crash(with_power=False)
                # Peers notice that it is gone before it is back.
                self.world.mend_later(100, lambda: self.world.restart(self))

        self.world.after(1, end)

    def tell_applied(self, position: Position) -> None:
        self.deliver("applied", lambda: self.member.applied(position, self.now_ms()))

    def tell_stopped(self, is_exact: bool) -> None:
        self.child = None
        self.deliver("stopped", lambda: self.member.stopped(is_exact, self.now_ms()))

    # -- actions -----------------------------------------------------------------------------------

    def _carry_out(self) -> None:
        while True:
            found = self.member.take_actions()
            if not found:
                return
            for action in found:
                self._carry(action)

    def _carry(self, action: do.Action) -> None:
        self.world.laws.before_action(self, action)
        if isinstance(action, do.Send):
            self.world.network.send(self.name, action.peer, action.frame)
        elif isinstance(action, do.Persist | do.Apply | do.WholeAt):
            self.disk.put(action)
        elif isinstance(action, do.Drop):
            self.world.network.end(self.name, action.peer, self.name)
        elif isinstance(action, do.Swap):
            self.coordinator.swap(action.number, action.expected_revision, action.config)
        elif isinstance(action, do.ReadConfig):
            self.coordinator.poll_soon()
        elif isinstance(action, do.PutPromise):
            self.coordinator.put_promise(action.promise)
        elif isinstance(action, do.PutSuspicion):
            self.coordinator.put_suspicion(action.epoch)
        elif isinstance(action, do.WithdrawSuspicion):
            self.coordinator.withdraw_suspicion(action.epoch)
        elif isinstance(action, do.Refuse):
            self.refused = action.words
        elif isinstance(action, do.Closed):
            self.is_closed = True
        elif isinstance(action, do.BeginResync | do.AbortResync | do.ServeResync):
            self._carry_resync(action)
        else:
            self._carry_leading(action)

    def _carry_leading(self, action: do.Action) -> None:
        if isinstance(action, do.StartLeading):
            self._starting = action
            self._start_child(action, self.life)
        elif isinstance(action, do.StopLeading):
            self._starting = None
            if self.child is not None and action.is_orderly:
                self.child.stop()
                return
            if self.child is not None:
                self.child.kill()
                self.child = None
            self._chosen.clear()
            self._marks.clear()
            life = self.life
            self.world.after(
                self.world.dice.between(1, 8),
                lambda: self.tell_stopped(False) if self.life == life else None,
            )
        elif isinstance(action, do.AskMark):
            self._marks.append(action.number)
            self._ask_marks()

    def _start_child(self, action: do.StartLeading, life: int) -> None:
        """When the applier has ended its work."""
        if self.life != life or not self.is_up or self._starting is not action:
            return
        if not self.disk.is_idle or self.is_paused:
            self.world.after(1, lambda: self._start_child(action, life))
            return
        self._starting = None
        self.child = SimChild(self, action.epoch, action.next_seq)
        self._ask_marks()

    def _ask_marks(self) -> None:
        if self.child is not None:
            for number in self._marks:
                self.child.mark(number)
            self._marks.clear()

    # -- resync ------------------------------------------------------------------------------------

    def _carry_resync(self, action: do.Action) -> None:
        if isinstance(action, do.BeginResync):
            self._copying = action
            self._range = 0
            self.world.report.resyncs += 1
            self._ask_range(action)
        elif isinstance(action, do.ServeResync):
            self._chosen[action.peer] = action.session
        else:
            self._copying = None

    def _ask_range(self, copy: do.BeginResync) -> None:
        self._idle_ticks = 0
        frame = ResyncFrame(copy.session, self._range, None)
        self.world.network.send(self.name, copy.leader, frame)

    def _resync_frame(self, sender: str, frame: ResyncFrame) -> None:
        if frame.cells is None:
            if self._chosen.get(sender) != frame.session:
                spoilt = ResyncFrame(frame.session, SPOILT, {})
                self.world.network.send(self.name, sender, spoilt)
                return
            if self.child is None:
                return
            cells = {
                cell: self.directory.cells.get(cell, 0)
                for cell in range(frame.range, CELLS, RANGES)
            }
            log = frame.range == RANGES - 1
            self.world.network.send(
                self.name, sender, ResyncFrame(frame.session, frame.range, cells, log)
            )
            return
        copy = self._copying
        if frame.range == SPOILT and copy is not None and copy.session == frame.session:
            self._copying = None
            self.member.resync_failed(frame.session, self.now_ms())
            return
        if copy is None or copy.session != frame.session or frame.range != self._range:
            return
        self.directory.write(sorted(frame.cells.items()))
        self._range += 1
        life = self.life
        if not frame.is_last:
            delay = self.world.dice.between(1, self.world.copy_ms)
            self.world.after(delay, lambda: self._copy_on(copy, life))
            return
        self.directory.sync(self.directory.written)
        # The history of a directory that is the leader's is the leader's.
        self.log = self.world.laws.log_at(copy.base)
        self.slot = copy.base
        self._copying = None
        self.member.copied(copy.session, self.now_ms())

    def _copy_on(self, copy: do.BeginResync, life: int) -> None:
        def ask() -> None:
            if self._copying is copy:
                self._ask_range(copy)

        if self.life == life:
            self.deliver("copy", ask)

    def wipe(self) -> None:
        """Its directory is emptied while it is down."""
        assert not self.is_up, "because nobody empties the directory of a running node"
        self.emptied[self.state.identity] = self.log if self.state.is_whole else []
        self.begin_anew()

    def jump(self, ms: int) -> None:
        """Its monotonic clock jumps forward, as after a suspended machine."""
        self.skew_ms += ms


def _nothing() -> None:
    """The member is there."""
