"""A running broker: the loop, the listeners, the periodic work, start and stop."""

import asyncio
import gc
import signal
import socket
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from penstock.base.clock import Clock
from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.broker.admin.alarm_watch import AlarmWatch, memory_mark_bytes
from penstock.broker.admin.alarm_watch import offer as offer_alarm_settings
from penstock.broker.broker import Broker, Log
from penstock.broker.connection.connection import Connection
from penstock.broker.connection.phases import PHASE_CLOSING, PHASE_OPEN
from penstock.broker.connection.standstill import break_standstill
from penstock.broker.session.tokens import TokenChecker
from penstock.broker.settings.settings import Change
from penstock.flow.due import DueLine, Waker
from penstock.flow.watermark import POLL_MS_MAX
from penstock.protocol.constants import SHUTDOWN_TEXT
from penstock.protocol.methods import ConnectionClose
from penstock.protocol.methods.codec import method_frame
from penstock.server.boot.log_lines import LineLog, log_of
from penstock.server.boot.management_child import ManagementChild, is_management_wanted
from penstock.server.boot.reload import settings_to_change
from penstock.server.control.control_client import control_path
from penstock.server.control.control_socket import ControlSocket
from penstock.server.control.questions import Questions
from penstock.server.disk.audit_file import NAME as AUDIT
from penstock.server.disk.audit_file import AuditFile
from penstock.server.disk.durable_state import DurableState
from penstock.server.disk.local_files import LOCAL, LocalFiles
from penstock.server.machine.clock import SystemClock
from penstock.server.machine.machine import SystemChance
from penstock.server.machine.password_thread import PasswordThread
from penstock.server.machine.probe import SystemProbe
from penstock.server.machine.settle import settle_process
from penstock.server.net.client_ports import CLIENTS, NO_PORT, TLS_CLIENTS
from penstock.server.net.handover_socket import HandoverSocket
from penstock.server.net.listener import Listener, raise_limit
from penstock.server.net.poller import make_poller
from penstock.server.net.sockets import SocketShell
from penstock.server.net.stall_timeout import StallTimeout
from penstock.server.net.tls_endpoint import TlsEndpoint, is_tls_wanted
from penstock.server.recorder.event_writers import FEED_S, FILE_S, EventWriters
from penstock.server.recorder.service import RecorderService

NS_PER_S = 1_000_000_000


class DueTimer(Waker):
    """Calls `line.fire` when it asks for it. after: what is to be done then, so that the actors
    that were woken get their turns."""

    __slots__ = ("after", "clock", "handle", "line", "log", "loop")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        line: DueLine,
        log: Log,
        after: Callable[[], None],
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.line = line
        self.log = log
        self.after = after
        self.handle: asyncio.TimerHandle | None = None
        line.waker = self

    def wake_at(self, due_ns: int) -> None:
        self.stop()
        delay_ns = max(0, due_ns - self.clock.monotonic_ns())
        self.handle = self.loop.call_later(delay_ns / NS_PER_S, self._fire)

    def stop(self) -> None:
        """Nothing falls due any more until something new is put on the line."""
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None

    def _fire(self) -> None:
        self.handle = None
        try:
            self.line.fire(self.clock.monotonic_ns())
        except Exception as error:
            # One that fails is off the line already; the others must not wait for ever.
            self.log.error("what was due has failed", error)
            self.loop.call_soon(self._fire)
        self.after()


TICK_S = 1.0
RELIEF_S = 0.1
HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"
DRAIN_S = 2.0
RELOADED = "the certificates of TLS were read again, and are shown to new connections"
NS_PER_MS = 1_000_000
FORWARDED = "forwarded"
"""Name of a Unix socket that a node may have from the process that has started it, as it may have
its ports, see net/client_ports: where that process hands in clients of other nodes."""
COLLECT_AFTER = 2_000
"""Ended connections, about 20 MB of them, that are worth one full collection."""


MakeTokens = Callable[
    [Config, asyncio.AbstractEventLoop, Clock, Log, Callable[[], None]], TokenChecker
]
"""What verifies tokens needs packages that are not always installed: who knows them hands it in."""


class Node:
    """Owner of everything a running broker has open. make_tokens: None where clients log in by
    passwords and certificates only; files: who changes what is in its data directory;
    inherited: descriptors that were handed down with the process, by name; handover: None where it
    is alone, see `join`."""

    def __init__(
        self,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        make_tokens: MakeTokens | None = None,
        files: LocalFiles = LOCAL,
    ) -> None:
        self.config = config
        self.first_config = config
        self.files = files
        self.inherited: dict[str, int] = {}
        self.loop = loop
        self.log = log
        self.clock = SystemClock()
        self.probe = SystemProbe(config, log, self._run_soon)
        mark_bytes = memory_mark_bytes(config, self.probe.memory_total_bytes())
        self.broker = Broker(config, self.clock, SystemChance(), log, mark_bytes)
        self.broker.node_name = f"penstock@{socket.gethostname()}"
        self.watch = AlarmWatch(self.broker, self.probe)
        offer_alarm_settings(self.broker.settings, self.watch)
        self.passwords = PasswordThread(loop, self._run_soon)
        self.broker.access.work = self.passwords
        self.poller = make_poller(loop, self.broker.scheduler)
        self.due_timer = DueTimer(loop, self.clock, self.broker.dues, log, self._run_soon)
        self.boot_id = uuid4().hex[:12]
        self.flight = RecorderService(self.broker, loop, self.boot_id)
        self.history = self.flight.history
        self.keeping: DurableState | None = None
        self.audit: AuditFile | None = None
        self.failure: OperatorError | None = None
        self.on_failure: Callable[[], None] | None = None
        self.listener: Listener | None = None
        self.tls_listener: Listener | None = None
        self.private: list[Listener] = []
        self.handover: HandoverSocket | None = None
        self.control: ControlSocket | None = None
        self.management: ManagementChild | None = None
        self.events: EventWriters | None = None
        self.make_tokens = make_tokens
        self.reread: Callable[[], Config] | None = None
        self.tokens: TokenChecker | None = None
        self.ticks: list[asyncio.TimerHandle] = []
        self.disk_look: asyncio.TimerHandle | None = None
        self.stopped = asyncio.Event()
        self.collected_count = 0
        self.patience = StallTimeout()

    async def start(self) -> None:
        """Open everything. Raises: OperatorError."""
        config = self.config
        if config.data_dir != "":
            self.files.when_failed(self._look_at_keeping)
            self.keeping = DurableState(
                config.data_dir, self.boot_id, self.broker, self.poller, self.files
            )
        if config.audit_log != "" or config.data_dir != "":
            audit = Path(config.audit_log or Path(config.data_dir) / AUDIT)
            self.audit = AuditFile(audit, self.clock, self.log)
            if config.audit_log != "":
                self.audit.open()
            self.broker.host.audit = self.audit
        if self.make_tokens is not None:
            self.tokens = self.make_tokens(config, self.loop, self.clock, self.log, self._run_soon)
            self.broker.host.tokens = self.tokens
        self.events = EventWriters(self.broker, self.boot_id)
        self._listen()
        path = config.control_socket or control_path(self.listeners[0].port)
        questions = Questions(
            self.broker,
            self.flight,
            self._run_soon,
            self._certificate,
            self._listeners,
            self.log.recent if isinstance(self.log, LineLog) else None,
        )
        self.control = ControlSocket(
            path, questions.answer, questions.note, questions.is_change, self.listeners[0].adopt
        )
        await self.control.start()
        if is_management_wanted(config):
            self.management = ManagementChild(config, path, self.log)
        self.watch.check_memory()
        self._look_at_disk()
        self._every(TICK_S, self.tick)
        self._every(RELIEF_S, self.relieve)
        if self.events.file is not None:
            self._every(FILE_S, self.events.file.write)
        if self.events.feed is not None:
            self._every(FEED_S, self.feed)
        if self.handover is not None:
            self.handover.listen(self.listeners[0], self.tls_listener)

    def join(
        self,
        receive: socket.socket,
        send: Mapping[int, socket.socket],
        worker_of: Callable[[str], int],
    ) -> None:
        """It is one of several processes of a broker, which hand connections to each other by the
        virtual host they are for. Before `start`. receive, send, worker_of: see HandoverSocket."""
        self.handover = HandoverSocket(
            self.loop, self.broker, self.poller, receive, send, worker_of
        )
        self.broker.host.elsewhere = self.handover

    def _listen(self) -> None:
        """Raises: OperatorError."""
        config = self.config
        if config.port < 0 and not is_tls_wanted(config):
            raise OperatorError(NO_PORT)
        if is_tls_wanted(config):
            endpoint = TlsEndpoint(config, self.log.warning)
            self.tls_listener = self._listener(config.tls_port, endpoint, TLS_CLIENTS)
        if config.port >= 0:
            self.listener = self._listener(config.port, None, CLIENTS)
        if FORWARDED in self.inherited:
            self.private.append(self._listener(-1, None, FORWARDED))

    def _listener(self, port: int, endpoint: TlsEndpoint | None, name: str) -> Listener:
        """At a socket that somebody else has opened, where there is one of that name."""
        handle = self.inherited.get(name)
        sock = None if handle is None else socket.socket(fileno=handle)
        return Listener(self.broker, self.poller, self.loop, self.config.host, port, endpoint, sock)

    @property
    def listeners(self) -> list[Listener]:
        """The ports that clients come to, the one without TLS first."""
        return [one for one in (self.listener, self.tls_listener) if one is not None]

    def _every_listener(self) -> list[Listener]:
        return [*self.listeners, *self.private]

    def _listeners(self) -> list[dict[str, object]]:
        """As RabbitMQ's overview has them."""
        return [
            {
                "node": self.broker.node_name,
                "protocol": "amqp" if one.endpoint is None else "amqp/ssl",
                "ip_address": self.config.host,
                "port": one.port,
                "tls": one.endpoint is not None,
                "certificate_s": None if one.endpoint is None else one.endpoint.left_s(),
            }
            for one in self.listeners
        ]

    def _certificate(self) -> str:
        endpoint = None if self.tls_listener is None else self.tls_listener.endpoint
        return "" if endpoint is None else endpoint.words(datetime.now(UTC))

    def hang_up(self, config: Config | None = None) -> None:
        """SIGHUP: read the configuration and the certificates again, and open the log anew. A
        configuration with a fault changes nothing. config: what was read, None to read it here."""
        before = after = self.config
        changes: list[Change] = []
        try:
            after = config or (before if self.reread is None else self.reread())
            done = self._reopen_log(after)
            wanted, _ = settings_to_change(before, after)
            changes = self.broker.changes.change(wanted, 0) if wanted else []
        except OperatorError as fault:
            self.log.warning(f"SIGHUP: {fault}; the settings of before stay in force")
            after = before
            done = self._log_of_before()
        endpoint = None if self.tls_listener is None else self.tls_listener.endpoint
        if endpoint is not None:
            try:
                endpoint.load(after)
            except OperatorError as fault:
                self.log.warning(f"SIGHUP: {fault}; the certificates of before are shown on")
            else:
                done.append(RELOADED)
        done += [f"{one.key} {one.before} -> {one.after}" for one in changes]
        self.config = after
        self._run_soon()
        self.log.info(f"SIGHUP: {'; '.join(done) or 'nothing has changed'}")
        _, waiting = settings_to_change(self.first_config, after)
        if waiting:
            self.log.warning(f"SIGHUP: a restart is needed for {', '.join(waiting)}")

    def _reopen_log(self, config: Config) -> list[str]:
        """What was done, in words. Raises: OperatorError, and the log goes on as before."""
        log = self.log
        if not isinstance(log, LineLog):
            return []
        log.set_up(config.log_level, config.log_format)
        log.open(config.log_file)
        return [f"the log {config.log_file} was opened anew"] if config.log_file else []

    def _log_of_before(self) -> list[str]:
        """The same where the new configuration has a fault: the file may have another name now."""
        try:
            return self._reopen_log(self.config)
        except OperatorError as fault:
            self.log.warning(f"SIGHUP: {fault}; the log goes on as before")
            return []

    def _every(self, seconds: float, work: Callable[[], None]) -> None:
        slot = len(self.ticks)

        def again() -> None:
            # Armed first: a full disk must not be the end of heartbeats and alarms.
            self.ticks[slot] = self.loop.call_later(seconds, again)
            try:
                work()
            except Exception as error:
                self.log.error("periodic work failed; it is tried again", error)

        self.ticks.append(self.loop.call_later(seconds, again))

    def _run_soon(self) -> None:
        """Somebody has work that no socket has brought."""
        self.poller.request()

    def relieve(self) -> None:
        """Ten times a second: let connections on whose own acks may stand behind their publishes
        (scenario 29)."""
        now_ns = self.clock.monotonic_ns()
        for connection in list(self.broker.connections.values()):
            if not connection.gate.is_open and connection.phase == PHASE_OPEN:
                break_standstill(connection, now_ns)
                self.poller.request()
        if self.audit is not None:
            self.audit.write()
        if self.broker.notify_clients(now_ns):
            self.poller.request()

    def feed(self) -> None:
        """Twenty times a second: flow events into the broker's own stream."""
        if self.events is not None and self.events.feed is not None and self.events.feed.tick():
            self.poller.request()

    def tick(self) -> None:
        """Once a second: memory, heartbeats, handshakes, samples."""
        now_ns = self.clock.monotonic_ns()
        # First: nothing that fails below may keep a broker alive that confirms nothing any more.
        self._look_at_keeping()
        self.watch.check_memory()
        for connection in list(self.broker.connections.values()):
            if connection.phase != PHASE_OPEN:
                self._check_patience(connection, now_ns)
            else:
                self._check_heartbeat(connection, now_ns)
            connection.output.rest()
        if isinstance(self.log, LineLog):
            self.log.say_rest()
        self.broker.watch_hops(now_ns)
        self.broker.consumer_timeout.tick(now_ns)
        self.broker.look_at_unfinished(now_ns)
        self.broker.page()
        self.patience.forget_gone(self.broker.connections)
        self._collect_garbage()
        samples = None if self.events is None else self.events.samples
        self.flight.tick(None if samples is None else samples.take)
        self.poller.request()

    def _look_at_keeping(self) -> None:
        """A disk that has failed is the end: what it has can no longer be known."""
        if self.keeping is not None and self.failure is None:
            self.failure = self.keeping.tick()
            if self.failure is not None and self.on_failure is not None:
                self.on_failure()

    def _collect_garbage(self) -> None:
        """A connection is a cycle of objects, and the collector looks at old objects almost never:
        it is told when enough connections have ended."""
        if self.broker.ended_count - self.collected_count >= COLLECT_AFTER:
            self.collected_count = self.broker.ended_count
            gc.collect()

    def _check_patience(self, connection: Connection, now_ns: int) -> None:
        """Opening and closing a connection may each take handshake_ms, and no longer."""
        negotiator = self.broker.negotiators.get(connection.name)
        patience_ns = self.config.handshake_ms * NS_PER_MS
        if negotiator is None or now_ns - negotiator.since_ns < patience_ns:
            return
        if connection.phase >= PHASE_CLOSING:
            self.broker.note(f"{connection.name}: has not closed in time; closed")
            _shell_of(connection).give_up()
        else:
            self._cut(connection, "not open in time")

    def _cut(self, connection: Connection, why: str) -> None:
        """Close the socket at once: what is still to be sent would keep it open for a peer that
        takes nothing."""
        self.broker.note(f"{connection.name}: {why}; closed")
        _shell_of(connection).close()

    def _check_heartbeat(self, connection: Connection, now_ns: int) -> None:
        negotiator = self.broker.negotiators.get(connection.name)
        if negotiator is None or negotiator.heartbeat is None:
            return
        heartbeat = negotiator.heartbeat
        shell = _shell_of(connection)
        if shell.received_bytes != shell.looked_bytes:
            shell.looked_bytes = shell.received_bytes
            heartbeat.received(now_ns)
        if heartbeat.is_peer_dead(now_ns):
            self._cut(connection, "missed heartbeats from client")
            return
        held = int(connection.output.held_bytes)
        taken = shell.taken_bytes() if held > 0 else 0
        if self.patience.is_over(
            connection.name, held, taken, negotiator.tuning.heartbeat_s, now_ns
        ):
            self._cut(connection, f"took nothing of {held} bytes for too many heartbeats")
            return
        if heartbeat.is_send_due(now_ns):
            connection.output.writer.write(HEARTBEAT_FRAME)
            connection.output.mark()
            heartbeat.sent(now_ns)

    def _look_at_disk(self) -> None:
        """As often as the room that is left asks for."""
        wait_ms = POLL_MS_MAX
        try:
            wait_ms = self.watch.check_disk()
            self.poller.request()
        except Exception as error:
            self.log.error("cannot look at the disk; it is tried again", error)
        self.disk_look = self.loop.call_later(wait_ms / 1000, self._look_at_disk)

    async def stop(self) -> None:
        """Tell every client, let outputs drain for a moment, close everything; once."""
        if self.stopped.is_set():
            return
        self.stopped.set()
        for handle in self.ticks:
            handle.cancel()
        if self.disk_look is not None:
            self.disk_look.cancel()
        self.due_timer.stop()
        self.probe.give_up_reserve()
        self.flight.close()
        if self.management is not None:
            await self.management.stop()
        for listener in self._every_listener():
            listener.stop_accepting()
        if self.handover is not None:
            self.handover.stop()
        farewell = method_frame(0, ConnectionClose(320, SHUTDOWN_TEXT, 0, 0))
        for connection in list(self.broker.connections.values()):
            if connection.phase == PHASE_OPEN:
                connection.output.writer.write(farewell)
                connection.output.mark()
                connection.shell.close_after_output()
        end = time.monotonic() + DRAIN_S
        while self._has_clients() and time.monotonic() < end:
            await asyncio.sleep(0.01)
        if self.handover is not None:
            self.handover.close()
        for listener in self._every_listener():
            listener.close()
        self.passwords.close()
        self.poller.close()
        if self.tokens is not None:
            self.tokens.close()
        if self.control is not None:
            await self.control.close()
        if self.events is not None:
            self.events.close()
        if self.audit is not None:
            self.audit.close()
        if self.keeping is not None:
            lost = self.keeping.close()
            if lost > 0:
                self.log.warning(f"{lost} changes to queues, exchanges and bindings are not kept")

    def _has_clients(self) -> bool:
        """Also those that another process serves, whose last words pass through this one."""
        is_relaying = self.handover is not None and bool(self.handover.relays)
        return bool(self.broker.connections) or is_relaying


def _shell_of(connection: Connection) -> SocketShell:
    shell = connection.shell
    assert isinstance(shell, SocketShell), "the listener makes these"
    return shell


async def serve(
    config: Config,
    announce: Callable[[Node], None],
    make_tokens: MakeTokens | None = None,
    reread: Callable[[], Config] | None = None,
) -> None:
    """Run a broker until SIGINT or SIGTERM. `announce(node)` is called once it is ready; reread:
    the settings as they are written now, for SIGHUP, None where they are written nowhere."""
    loop = asyncio.get_running_loop()
    raise_limit(config.connections_max)
    node = Node(config, loop, log_of(config, SystemClock()), make_tokens)
    node.reread = reread
    asked = asyncio.Event()
    node.on_failure = asked.set
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, asked.set)
    loop.add_signal_handler(signal.SIGHUP, node.hang_up)
    try:
        await node.start()
    except OperatorError:
        await node.stop()
        raise
    settle_process()
    try:
        announce(node)
        if node.management is not None:
            node.management.start()
        await asked.wait()
    finally:
        # Also where nobody reads what is announced any more.
        await node.stop()
    if node.failure is not None:
        raise node.failure
