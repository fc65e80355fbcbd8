"""A node of a cluster: what replication decides, carried out with links, a directory, a broker.

The member follows or leads. While it follows it applies the leader's entries to its directory and
forwards clients; while it leads a broker of its own process has the directory and serves clients,
and what it writes is sent on. Every decision is made in replication/member.
"""

import asyncio
import math
import os
import socket
import time
from collections.abc import Callable, Container, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from penstock import __version__
from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.base.limits import CLUSTER_RESYNC_BYTES_PER_S, CLUSTER_STOP_MS
from penstock.broker.broker import Log
from penstock.replication.actions import (
    AbortResync,
    Action,
    Apply,
    AskMark,
    BeginResync,
    Closed,
    Committed,
    Drop,
    Persist,
    PutPromise,
    PutSuspicion,
    ReadConfig,
    Refuse,
    Send,
    Serve,
    ServeResync,
    StartLeading,
    StopLeading,
    Swap,
    WholeAt,
    WithdrawSuspicion,
)
from penstock.replication.frames import FrameFault, decode, encode
from penstock.replication.leading import Leading
from penstock.replication.member import LEARNER, Member
from penstock.replication.positions import Position
from penstock.replication.seen import decode_runs, encode_runs
from penstock.server.boot.log_lines import LineLog
from penstock.server.cluster.admission import Self, directory_fault
from penstock.server.cluster.broker_child import BrokerChild
from penstock.server.cluster.commit_watch import CommitWatch
from penstock.server.cluster.coordinator import (
    MEMBERS,
    CoordinatorEvents,
    CoordinatorThread,
    CoordinatorView,
)
from penstock.server.cluster.etcd_coordinator import (
    EtcdCoordinator,
    MemberRow,
    read_config,
    read_members,
)
from penstock.server.cluster.forward import Forwarder, Questions, deliver
from penstock.server.cluster.handed import Handed, serve_handed
from penstock.server.cluster.kept_client import Place, Reach
from penstock.server.cluster.leader_settings import LeaderSettings
from penstock.server.cluster.link_frames import (
    ANSWER,
    ASK,
    ASK_BROKER,
    ASK_MEMBER,
    HANDOVER,
    MESSAGE,
    NUDGE,
    PUBLISHES,
    SPOILT,
    Hello,
    LinkFault,
)
from penstock.server.cluster.link_io import LinkConnection
from penstock.server.cluster.links import TAKEN_S, Links
from penstock.server.cluster.member_events import ChildEvents, DiskEvents, LinkEvents
from penstock.server.cluster.member_sockets import MemberSockets
from penstock.server.cluster.pipe import NodeRow, Nodes, Places, Ready, Start
from penstock.server.cluster.replica_disk import ReplicaDisk
from penstock.server.cluster.resync_links import ResyncAsker, ResyncServer
from penstock.server.cluster.settings import MemberSettings
from penstock.server.cluster.siblings import Lead, Siblings
from penstock.server.control.control_client import cluster_path, control_path

TICK_S: Final = 0.05
ALONE_S: Final = 10.0
"""Before a node that waits for others says so: those that are started together need a few."""
_COMMITTED_S: Final = 0.002
"""Between two looks whether what a client has published is committed."""
_SEEN_RUNS: Final = 65_536
"""Of one answer."""


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class MemberNode(LinkEvents, ChildEvents, DiskEvents, CoordinatorEvents):
    """Owner of all parts of one member.

    base: the number of the last entry before the broker's first one; count: of its entries;
    is_taking: clients come to this member, and not to its broker;
    ready: what the broker has said once it serves, None before; failure: why the member ends, None
    after an orderly stop; is_final: it would end so again at once.
    """

    def __init__(
        self,
        config: Config,
        settings: MemberSettings,
        member: Member,
        me: Self,
        disk: ReplicaDisk,
        sockets: MemberSockets,
        log: Log,
        on_role: Callable[[str], None],
        siblings: Siblings | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.config = config
        self.settings = settings
        self.member = member
        self.me = me
        self.disk = disk
        self.sockets = sockets
        self.log = log
        self.on_role = on_role
        self.reread: Callable[[], Config] | None = None
        self.links = Links(me, settings.tls, self, self._forwarded)
        self.asker = ResyncAsker(self.links)
        self.server = ResyncServer(self.links, disk.path)
        reach = Reach(self.links, self._place, lambda: str(sockets.private), self._seen)
        self.siblings = siblings
        # Those of a node with several members are their parent's.
        self.changes = LeaderSettings(log) if siblings is None else None
        self.forwarder = Forwarder(sockets.public(), config, reach, log, siblings)
        self.handed: Handed | None = None
        self.covers: dict[int, Handed] = {}
        if siblings is not None:
            siblings.mine = reach
            self.handed = self._handed(siblings.receive, siblings.own, reach)
            for number, one in siblings.others.items():
                self.covers[number] = self._handed(one.receive, one.own, one.reach)
        path = config.control_socket or control_path(sockets.port)
        self.questions = Questions(self.links, path, self._place)
        self.thread: CoordinatorThread | None = None
        self.coordinator: EtcdCoordinator | None = None
        self.view = CoordinatorView()
        self.members: dict[str, MemberRow] = {}
        self.reach = (False, "not asked yet")
        self.address = ""
        self.watch = CommitWatch()
        self.mirror_watch = CommitWatch()
        self.child: BrokerChild | None = None
        self.child_ended = asyncio.Event()
        self.is_child_clean = False
        self.base = 0
        self.count = 0
        self.epoch = 0
        self.ready_told: Ready | None = None
        self.stalled_ms = 0
        self.last_words = ""
        self.failure: OperatorError | None = None
        self.is_final = False
        self.over = asyncio.Event()
        self.is_closing = False
        self.is_taking = False
        self.turns: asyncio.Queue[Callable[[], Coroutine[Any, Any, None]]] = asyncio.Queue()
        self.tasks: set[asyncio.Task[None]] = set()
        self.alone_since: float | None = None
        self.role_seen = ("", 0, "")
        self.role_said = ""

    # -- beginning and end -------------------------------------------------------------------------

    async def start(self, thread: CoordinatorThread) -> None:
        """Raises: OperatorError."""
        self.thread = thread
        self.coordinator = EtcdCoordinator(thread)
        if self.changes is not None:
            self.changes.thread = thread
        port = await self.links.listen(self.settings.host, self.settings.port)
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        self.address = self.settings.advertised or f"{host}:{port}"
        self._spawn()
        self._task(self._take_turns())
        self._task(self._tick())
        await self._open()
        thread.start()
        self.act()

    async def _open(self) -> None:
        """Take clients and questions for the broker of another node. Raises: OperatorError."""
        self._take_clients()
        if self.handed is not None:
            self.handed.open()
        await self.questions.open()

    def _take_clients(self) -> None:
        self.is_taking = True
        self._look_at_ports()

    def _look_at_ports(self) -> None:
        """Clients come to a broker of this node where there is one, whichever shard it serves."""
        serves = self.siblings is not None and self.siblings.serve_here()
        if self.is_taking and not serves:
            self.forwarder.open()
        else:
            self.forwarder.shut()

    def told(self, leads: Mapping[int, Lead], places: Places) -> None:
        """What the other members of this node say of their shards."""
        if self.siblings is not None:
            self.siblings.hear(leads, places)
            self._look_at_ports()
            if self.child is not None:
                self.child.places(places)

    def cover(self, shards: Container[int]) -> None:
        """Take clients that are handed over to these other members of this node, and to no more."""
        for number, handed in self.covers.items():
            if number in shards:
                handed.open()
            else:
                handed.shut()

    def _handed(self, receive: socket.socket, own: socket.socket, reach: Reach) -> Handed:
        config = self.config
        patience_s = config.handshake_ms / 1000
        return Handed(
            receive, own, reach, self.forwarder, patience_s, config.connections_max, self.log
        )

    def _lead_of(self) -> Lead:
        """What this one says of its own."""
        place, child = self._place(), self.child
        mine = self.sockets.private
        pids = [os.getpid()] + ([] if child is None else [child.process.pid])
        about = Lead(
            private="" if mine is None else str(mine),
            cluster_id=self.me.cluster_id,
            identity=self.me.identity,
            boot_id=self.me.boot_id,
            pids=tuple(pids),
        )
        if place is None:
            return about
        address = self.address if place.is_here else place.address
        return msgspec.structs.replace(
            about, leader=place.name, address=address, epoch=place.epoch, is_here=place.is_here
        )

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._task_over)

    def _task_over(self, task: "asyncio.Task[None]") -> None:
        self.tasks.discard(task)
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            self.log.error("a task of the cluster's member has failed", fault)
            self._end(OperatorError(f"node '{self.me.name}' has failed: {fault}"))

    def _end(self, failure: OperatorError | None, *, is_final: bool = False) -> None:
        if not self.over.is_set():
            self.failure = failure
            self.is_final = is_final
            self.over.set()

    def command(self, words: str) -> str:
        """Carry out what replication wants after a command; its answer."""
        self.act()
        return words

    def hang_up(self) -> None:
        """SIGHUP: the configuration and certificates are read again, and the log is opened anew."""
        config = self.config
        try:
            config = config if self.reread is None else self.reread()
        except OperatorError as error:
            self.log.warning(f"SIGHUP: {error}; the settings of before stay in force")
        if isinstance(self.log, LineLog) and config.log_file:
            try:
                self.log.set_up(config.log_level, config.log_format)
                self.log.open(config.log_file)
            except OperatorError as error:
                self.log.warning(f"SIGHUP: {error}; the log goes on as before")
        if self.forwarder.endpoint is not None:
            try:
                self.forwarder.endpoint.load(config)
            except OperatorError as error:
                self.log.warning(f"{error}; clients are shown the certificate of before")
        self.config = config
        if self.child is not None:
            self.child.hang_up(self._for_broker())

    def stop(self) -> None:
        """SIGTERM: give leadership up, then stop in order; `over` is set when that is done."""
        if self.is_closing:
            return
        self.is_closing = True
        self.member.close(now_ms())
        self.act()
        self.loop.call_later(CLUSTER_STOP_MS.default * 3 / 1000, self._end, None)

    async def close(self) -> None:
        """Let go of everything; what was not stopped in order is stopped now."""
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.forwarder.close()
        for handed in self.covers.values():
            await handed.close()
        if self.handed is not None:
            await self.handed.close()
        self.questions.close()
        self.server.end_all()
        if self.child is not None:
            self.child.kill()
            await self.child_ended.wait()
        if self.thread is not None:
            self.thread.die()
            await self.loop.run_in_executor(None, self.thread.close, 2.0)
        await self.links.close()
        await self.disk.close()
        self.sockets.close()
        if self.siblings is not None:
            self.siblings.close()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.member.tick(now_ms())
            self.act()
            if words := self.forwarder.look():
                self.log.info(words)
            self._look_for_others()
            leading = self.member.leading
            self.watch.look(() if leading is None else leading.waits(now_ms()))
            self.mirror_watch.look(() if leading is None else leading.mirror_waits(now_ms()))
            if self.child is not None and self.ready_told is not None:
                self.child.waits(self.watch.words)
            self._tell_nodes(leading)
            if self.siblings is not None:
                self.siblings.say(self._lead_of())

    def _look_for_others(self) -> None:
        """Say once that this node waits to join a cluster of which nobody is there."""
        config = self.member.config
        linked = self.links.linked()
        if config is None or self.member.role != LEARNER or linked:
            self.alone_since = None
            return
        now = time.monotonic()
        if self.alone_since is None:
            self.alone_since = now
        elif now - self.alone_since > ALONE_S:
            self.alone_since = math.inf
            self.log.warning(
                f"this node cannot join cluster '{self.settings.cluster}': etcd has it, with the "
                f"nodes {', '.join(sorted(config.voters))}, and none of them answers. Start them, "
                "a majority; or, when that cluster is gone for good, give this one another "
                "--cluster NAME, or another etcd"
            )

    # -- what replication wants --------------------------------------------------------------------

    def act(self) -> None:
        """Carry out what it wants now, in order."""
        while actions := self.member.take_actions():
            for action in actions:
                self._carry_out(action)
        self.links.flush()
        leading = self.member.leading
        if leading is not None and leading.is_mirrored:
            self._tell_nodes(leading)
        self._say_role()

    def _carry_out(self, action: Action) -> None:
        coordinator = self.coordinator
        assert coordinator is not None, "it is there from the start"
        match action:
            case Send(peer, frame):
                self.links.queue(peer, MESSAGE, encode(frame))
            case Apply(entries):
                self.disk.apply(entries)
            case Committed(epoch, seq):
                if self.child is not None and epoch == self.epoch and seq > self.base:
                    self.child.committed(seq - self.base)
            case Persist(number, state):
                self.disk.persist(number, state)
            case WholeAt(position):
                self.disk.whole_at(position)
            case AskMark(number):
                self._mark(number)
            case ReadConfig():
                coordinator.read_config()
            case Swap(number, revision, config):
                coordinator.swap(number, revision, config)
            case PutPromise(promise):
                coordinator.put_promise(promise)
            case PutSuspicion(epoch):
                coordinator.put_suspicion(epoch)
            case WithdrawSuspicion(epoch):
                coordinator.withdraw_suspicion(epoch)
            case Drop(peer, words):
                self.said(f"node '{peer}': {words}")
                self.links.drop(peer)
            case _:
                self._turn(action)

    def _tell_nodes(self, leading: Leading | None) -> None:
        """How far every node is, for the mirrored queues of the broker, and for its listings."""
        child = self.child
        if leading is None or child is None or not child.is_started or self.epoch != leading.epoch:
            return
        rows = [
            NodeRow(
                one.name,
                max(0, one.seq - self.base) if leading.is_mirrored else 0,
                one.is_in_sync,
                one.is_online,
            )
            for one in leading.nodes()
        ]
        child.nodes(Nodes(rows, self.mirror_watch.words))

    def _turn(self, action: Action) -> None:
        """Actions that change who has the directory: one after the other."""
        match action:
            case StartLeading(epoch, next_seq):
                self.turns.put_nowait(lambda: self._lead(epoch, next_seq))
            case Serve(epoch):
                self.turns.put_nowait(lambda: self._serve(epoch))
            case StopLeading(epoch, words, is_orderly):
                if not is_orderly and self.child is not None and self.child.is_started:
                    # At once: what it has not confirmed by now it does not confirm any more.
                    self.child.kill()
                self.turns.put_nowait(lambda: self._stop_leading(epoch, words, is_orderly))
            case BeginResync():
                self.turns.put_nowait(lambda: self._copy(action))
            case AbortResync():
                self.disk.stop_copy()
            case ServeResync(peer, _, _):
                if peer not in self.server.sources:
                    # It may ask again before it has heard the answer.
                    self.log.info(f"node '{peer}' is copied from this one")
                self.server.serve(peer)
            case Refuse(words):
                self._end(OperatorError(words), is_final=True)
            case Closed():
                self.turns.put_nowait(self._closed)

    async def _take_turns(self) -> None:
        while True:
            work = await self.turns.get()
            try:
                await work()
            except OperatorError as error:
                self._end(error)
            except OSError as fault:
                self._end(OperatorError(f"{self.disk.path}: {fault.strerror or fault}"))

    async def _closed(self) -> None:
        self._end(None)

    # -- leading -----------------------------------------------------------------------------------

    def _spawn(self) -> None:
        """The next broker, which waits."""
        try:
            handles = self.sockets.handles()
            if self.siblings is not None:
                handles += self.siblings.handles()
            self.child = BrokerChild(self, handles)
        except OSError as fault:
            raise OperatorError(f"cannot start a broker: {fault.strerror}") from fault
        self.child_ended.clear()

    async def _lead(self, epoch: int, next_seq: int) -> None:
        await self.disk.lend()
        self.epoch = epoch
        self.base = next_seq - 1
        self.count = 0

    async def _serve(self, epoch: int) -> None:
        if epoch != self.epoch or self.child is None:
            return
        self.is_taking = False
        self.forwarder.shut()
        if self.handed is not None:
            self.handed.shut()
        self.questions.shut()
        shard = None if self.siblings is None else self.siblings.for_broker()
        inherited = self.sockets.inherited()
        settings = {} if self.changes is None else self.changes.begin(self.child)
        self.child.start(Start(self._for_broker(), inherited, epoch, self.base, shard, settings))

    def _for_broker(self) -> Config:
        config = self.sockets.settled(self.config)
        return replace(config, cluster_coordinator="", store_spare_segments=0, management="off")

    async def _stop_leading(self, epoch: int, words: str, is_orderly: bool) -> None:
        if epoch != self.epoch:
            # It had to be stopped at once while it was being stopped in order.
            return
        self.log.info(f"leads no more: {words}")
        child = self.child
        # A broker that ended by itself may have begun what it did not send.
        is_exact = child is not None
        if child is not None and child.is_started:
            if is_orderly and not child.is_deposed:
                child.stop()
                # Who comes from now on waits for the next leader.
                self._take_clients()
                try:
                    async with asyncio.timeout(CLUSTER_STOP_MS.default * 2 / 1000):
                        await self.child_ended.wait()
                except TimeoutError:
                    child.kill()
            else:
                child.kill()
            await self.child_ended.wait()
            is_exact = self.is_child_clean and await self._is_written()
        self.epoch = 0
        self.ready_told = None
        self.server.end_all()
        await self.disk.take_back()
        if not self.is_closing:
            if self.child is None:
                self._spawn()
            await self._open()
        self.member.stopped(is_exact, now_ms())
        self.act()

    async def _is_written(self) -> bool:
        """Whether the directory's position is that of the broker's last entry."""
        end = self.loop.time() + 1.0
        while self.loop.time() < end:
            if self.disk.done.seq >= self.base + self.count:
                return True
            await asyncio.sleep(0.005)
        return False

    def recorded(self, entries: list[tuple[bytes, bytes]]) -> None:
        self.count += len(entries)
        now = now_ms()
        for payload, publishes in entries:
            self.member.append(payload, now, publishes)
        self.act()

    def synced(self, count: int) -> None:
        self.stalled_ms = 0
        self.disk.lent_reached(Position(self.epoch, self.base + count))

    def _mark(self, number: int) -> None:
        child = self.child
        if child is not None and child.is_started:
            child.mark(number)
        else:
            # Nothing writes to the directory yet.
            self.loop.call_soon(self.marked, number)

    def marked(self, number: int) -> None:
        self.member.marked(number, now_ms())
        self.act()

    def ready(self, ready: Ready) -> None:
        self.ready_told = ready
        self.log.info(f"serves clients: {ready.queues} queues, {ready.messages} messages came back")

    def failed(self, words: str) -> None:
        self.log.warning(f"the broker has stopped: {words}")

    def mirrored(self, is_mirrored: bool) -> None:
        self.member.mirrored(is_mirrored, now_ms())
        self.act()

    def changed_settings(self, changes: dict[str, str]) -> None:
        assert self.changes is not None, "a parent is asked by its operators itself"
        self.changes.changed(changes)

    def stalled(self, ms: int) -> None:
        """What the broker's disk is at may not be recorded yet: replication knows of no entry."""
        self.stalled_ms = ms
        self.member.local_stalled(ms, now_ms())
        self.act()

    def ended(self, is_clean: bool) -> None:
        child, self.child = self.child, None
        self.stalled_ms = 0
        if self.changes is not None:
            self.changes.over()
        self.is_child_clean = is_clean
        self.child_ended.set()
        if child is None or self.is_closing:
            return
        if not child.is_started:
            self._end(OperatorError("a broker could not be started; see the lines above"))
        elif not child.is_stopping and not child.is_deposed:
            self.log.warning("the broker's process is gone; another node is to lead")
            self.member.resign("", now_ms())
            self.act()

    # -- the directory -----------------------------------------------------------------------------

    def applied(self, position: Position) -> None:
        self.member.applied(position, now_ms())
        self.act()

    def persisted(self, number: int) -> None:
        self.member.persisted(number, now_ms())
        self.act()

    def disk_failed(self, words: str) -> None:
        self.member.disk_failed(words, now_ms())
        self.act()
        self._end(OperatorError(words))

    async def _copy(self, action: BeginResync) -> None:
        self.log.info(f"is copied from node '{action.leader}'")
        began = time.monotonic()

        def ask(request: bytes) -> bytes:
            return self.asker.ask(action.leader, request)

        try:
            report = await self.disk.copy(action.base, ask, CLUSTER_RESYNC_BYTES_PER_S.default)
        except (OSError, ValueError) as fault:
            words = str(fault) or type(fault).__name__
            self.log.warning(f"the copy of node '{action.leader}' has ended early: {words}")
            self.member.resync_failed(action.session, now_ms())
        else:
            self.log.info(
                f"was copied from node '{action.leader}' in {time.monotonic() - began:.1f} s: "
                f"{report.bytes_copied:,} bytes, {report.bytes_same:,} were the same"
            )
            self.member.copied(action.session, now_ms())
        self.act()

    # -- links -------------------------------------------------------------------------------------

    def link_up(self, name: str) -> None:
        self.member.link_up(name, now_ms())
        self.act()

    def link_down(self, name: str, *, is_refused: bool) -> None:
        self.asker.lost(name)
        self.server.end(name)
        self.member.link_down(name, is_refused, now_ms())
        self.act()

    def received(self, name: str, kind: int, payload: bytes) -> None:
        if kind == MESSAGE:
            try:
                frame = decode(payload)
            except FrameFault as fault:
                raise LinkFault(str(fault)) from fault
            self.member.received(name, frame, now_ms())
            self.act()
        elif kind == NUDGE:
            assert self.thread is not None, "links begin after it"
            self.thread.poll_soon()
        elif kind == ASK:
            self.server.asked(name, payload)
        elif kind in (ANSWER, SPOILT):
            self.asker.answered(name, kind, payload)

    def said(self, words: str) -> None:
        """Not again as long as nothing else is said."""
        if words != self.last_words:
            self.last_words = words
            self.log.warning(words)

    def link_failed(self, fault: Exception) -> None:
        self.log.error("what came over a link has failed", fault)
        self._end(OperatorError(f"node '{self.me.name}' has failed: {fault!r}"))

    def _place(self) -> Place | None:
        """Who leads, None while nobody does or this node's broker does not serve yet."""
        name, epoch = self.member.leader, self.member.epoch
        shard = self.settings.shard
        if name == self.me.name:
            is_ready = self.ready_told is not None
            return Place(name, "", epoch, is_here=True, shard=shard) if is_ready else None
        row = self.members.get(name)
        return None if row is None else Place(name, row.address, epoch, shard=shard)

    async def _forwarded(self, hello: Hello, link: LinkConnection) -> None:
        if hello.purpose == ASK_MEMBER:
            await deliver(hello, link, cluster_path(self.sockets.port, self.config.control_socket))
        elif self.ready_told is None:
            raise LinkFault(f"node '{hello.name}' forwards a client, and this node does not lead")
        elif hello.purpose == ASK_BROKER:
            await deliver(hello, link, self.ready_told.control)
        elif hello.purpose == HANDOVER:
            if self.siblings is None:
                raise LinkFault(f"node '{hello.name}' has several workers, and this one has not")
            await serve_handed(link, self.siblings.own, TAKEN_S)
        elif hello.asks:
            async with asyncio.timeout(TAKEN_S):
                kind, unknown = await link.read()
            if kind != PUBLISHES:
                raise LinkFault(f"node '{hello.name}' does not say what a client has published")
            seen = await self._seen(unknown)
            await deliver(hello, link, str(self.sockets.private), seen)
        else:
            await deliver(hello, link, str(self.sockets.private))

    async def _seen(self, unknown: bytes) -> bytes:
        """Which of these publishes are in the log, now that this node leads; told when that much of
        it is committed. Raises: LinkFault, when it is not."""
        member = self.member
        epoch, end = member.epoch, member.replica.tail.seq
        seen = encode_runs(member.replica.seen.among(decode_runs(unknown), _SEEN_RUNS))
        until = self.loop.time() + TAKEN_S
        while member.commit_seq < end and self.loop.time() < until:
            await asyncio.sleep(_COMMITTED_S)
        if member.leading is None or member.epoch != epoch or member.commit_seq < end:
            raise LinkFault("what a client has published is not committed")
        return seen

    # -- etcd --------------------------------------------------------------------------------------

    def seen(self, view: CoordinatorView) -> None:
        coordinator, thread = self.coordinator, self.thread
        assert coordinator is not None and thread is not None, "whoever calls is started by it"
        self.view = view
        self.members = read_members(view)
        known = {name: row.identity for name, row in self.members.items()}
        try:
            config = None if view.config is None else read_config(view.config.value)
        except OperatorError as error:
            self._end(error)
            return
        if words := directory_fault(self.me, known, config):
            self._end(OperatorError(words), is_final=True)
            return
        other = view.live.get(self.me.name, b"").decode(errors="replace")
        if thread.is_live_wanted and other not in ("", self.me.boot_id) and view.was_live:
            self._end(
                OperatorError(
                    f"another process with the data directory of node '{self.me.name}' runs as "
                    "this one does: a directory was copied, and each node needs its own"
                ),
                is_final=True,
            )
            return
        if self.changes is not None:
            self.changes.seen(view.settings, is_alone=not view.live.keys() - {self.me.name})
        self.links.known = known
        revision = 0 if view.config is None else view.config.revision
        self.member.config_seen(config, revision, now_ms())
        coordinator.news(
            view,
            self.member.epoch,
            lambda promise: self.member.promise_seen(promise, now_ms()),
            lambda epoch, name: self.member.suspicion_seen(epoch, name, now_ms()),
            lambda epoch, name: self.member.suspicion_gone(epoch, name, now_ms()),
        )
        self.act()
        if self.over.is_set() or self.is_closing:
            return
        self._introduce(thread)
        others = {n: row.address for n, row in self.members.items() if n != self.me.name}
        self.links.set_peers(others)
        if self.member.role == "leader":
            coordinator.tidy(view, self.member.epoch)

    def _introduce(self, thread: CoordinatorThread) -> None:
        """This member's own row, and its life under a lease."""
        row = MemberRow(self.me.identity, self.address, self.sockets.shown(), __version__)
        data = msgspec.json.encode(row)
        if self.member.role != "refused" and self.view.members.get(self.me.name) != data:
            thread.put(MEMBERS + self.me.name, data)
        if not thread.is_live_wanted:
            thread.live()

    def swapped(self, number: int, is_done: bool | None) -> None:
        if is_done is None:
            self.member.swap_failed(number, now_ms())
        else:
            self.member.swapped(number, is_done, now_ms())
        self.act()

    def kept(self, changes: dict[str, str], after: dict[str, str] | None, words: str) -> None:
        assert self.changes is not None, "it has wanted this"
        self.changes.saved(changes, after, words)

    def changed(self) -> None:
        self.links.send_all(NUDGE)

    def reached(self, is_reachable: bool, words: str) -> None:
        self.reach = (is_reachable, words)
        if is_reachable:
            self.log.info("etcd answers")
        else:
            self.log.warning(f"etcd does not answer: {words}; what leads goes on leading")

    def refused(self, error: OperatorError) -> None:
        if self.member.role == "starting":
            self._end(error)
        else:
            self.said(str(error))

    def _say_role(self) -> None:
        member = self.member
        role = (member.role, member.epoch, member.leader)
        if role == self.role_seen:
            return
        self.role_seen = role
        words = f"{member.role} of epoch {member.epoch}"
        if member.role == "follower":
            words = f"follows whoever will lead epoch {member.epoch}"
            if member.leader:
                words = f"follows node '{member.leader}' in epoch {member.epoch}"
        elif member.role == "leader":
            words = f"leads epoch {member.epoch}"
        if words != self.role_said:
            self.role_said = words
            self.on_role(words)
