"""The broker as a whole: virtual hosts, connections, alarms, and the makers of actors.

Pure: bytes come in through connections, go out through their outputs; time, chance and the log are
handed in. The server and the simulator own one of these each.
"""

import platform
from base64 import urlsafe_b64encode

import penstock
from penstock.base.chance import Chance
from penstock.base.clock import Clock
from penstock.base.config import Config
from penstock.base.limits import QUEUES_PER_VHOST
from penstock.broker.access import Access
from penstock.broker.actor import Actor
from penstock.broker.negotiate import Household, Negotiator
from penstock.broker.output import Output
from penstock.broker.queue_actor import QueueActor
from penstock.broker.queue_arguments import not_applied
from penstock.broker.reader import Connection
from penstock.broker.scheduler import Mender, Scheduler
from penstock.broker.settings import Settings
from penstock.broker.shell import Shell
from penstock.broker.vhost import VirtualHost
from penstock.flow.account import Account
from penstock.flow.profile import profile_named
from penstock.protocol.frames import FrameParser
from penstock.protocol.handshake import ServerIdentity, server_properties
from penstock.protocol.values import Table
from penstock.telemetry.events import ACTOR_DOWN, ACTOR_UP, ALARM_CLEARED, ALARM_SET
from penstock.telemetry.recorder import Recorder

FRAME_BYTES_BEFORE_OPEN = 8192


class Log:
    """Where lines for people go. Nominal base; the server's writes them, tests collect them."""

    def info(self, text: str) -> None:
        """One step of life."""

    def warning(self, text: str) -> None:
        """An operator should look."""

    def error(self, text: str, error: BaseException) -> None:
        """We are wrong."""


class QueueMender(Mender):
    """Ends a queue whose turn failed: its senders and consumers are told, the broker lives."""

    __slots__ = ("broker",)

    def __init__(self, broker: "Broker") -> None:
        self.broker = broker

    def failed(self, actor: Actor, error: Exception) -> None:
        self.broker.log.error(f"internal error in {actor.identity}, which is stopped", error)
        actor.is_alive = False
        if isinstance(actor, QueueActor):
            self.broker.vhosts[actor.vhost].remove_queue(actor, True)


class Broker(Household):
    """memory_high_bytes: for alarm texts and the default depth mark."""

    def __init__(
        self, config: Config, clock: Clock, chance: Chance, log: Log, memory_high_bytes: int
    ) -> None:
        self.config = config
        self.clock = clock
        self.chance = chance
        self.log = log
        self.profile = profile_named(config.profile)
        self.strategy = self.profile.strategy()
        self.access = Access(config.users)
        self.recorder = Recorder(clock, config.recorder_events)
        self.scheduler = Scheduler(clock, self.recorder, config.turn_messages)
        self.scheduler.mender = QueueMender(self)
        self.settings = Settings()
        self.memory_high_bytes = memory_high_bytes
        self.memory_used_bytes = 0
        self.depth_bytes = 0
        if self.profile.is_depth_aware:
            self.depth_bytes = config.queue_depth_bytes or memory_high_bytes // 5
        self.vhosts = {name: VirtualHost(name, QUEUES_PER_VHOST.default) for name in config.vhosts}
        self.node_account = Account("node", None, None, 0)
        self.connections: dict[str, Connection] = {}
        self.negotiators: dict[str, Negotiator] = {}
        self.alarms: dict[str, str] = {}
        self.connection_count = 0
        self.ended_count = 0
        self._properties = server_properties(
            ServerIdentity(
                config.product,
                config.product_version or penstock.__version__,
                f"Python {platform.python_version()}",
                "Copyright the Penstock authors",
                "Licensed under the Apache License 2.0",
                "penstock@localhost",
            )
        )

    # -- connections -----------------------------------------------------------------------------

    def accept(self, peer_host: str, peer: str, output: Output, shell: Shell) -> Connection:
        """A peer has connected: the actor that talks to it."""
        self.connection_count += 1
        name = peer if peer not in self.connections else f"{peer}#{self.connection_count}"
        negotiator = Negotiator(self, peer_host, name, self.clock.monotonic_ns())
        connection = Connection(
            name,
            negotiator,
            self.strategy,
            self.profile.is_parking,
            self.profile.account_high_bytes,
            self.node_account,
            FrameParser(FRAME_BYTES_BEFORE_OPEN, self.config.body_bytes_max),
            output,
            shell,
            negotiator,
            self.scheduler,
        )
        self.connections[name] = connection
        self.negotiators[name] = negotiator
        return connection

    def lost(self, connection: Connection) -> None:
        """The peer's socket is gone."""
        negotiator = self.negotiators.get(connection.name)
        if negotiator is not None:
            negotiator.release(connection)

    def opened(self, connection: Connection) -> None:
        self.recorder.record(ACTOR_UP, connection.identity, "", "", 0)
        for source, reason in self.alarms.items():
            connection.set_alarm(source, reason)

    def closed(self, connection: Connection) -> None:
        self.recorder.record(ACTOR_DOWN, connection.identity, "", "", 0)
        self.ended_count += 1
        self.connections.pop(connection.name, None)
        self.negotiators.pop(connection.name, None)

    # -- makers ----------------------------------------------------------------------------------

    def find_vhost(self, name: str) -> VirtualHost | None:
        return self.vhosts.get(name)

    def properties(self) -> Table:
        return self._properties

    def make_queue(
        self,
        vhost: VirtualHost,
        name: str,
        durable: bool,
        auto_delete: bool,
        owner: str,
        arguments: Table,
    ) -> QueueActor:
        actor = QueueActor(
            vhost.name,
            name,
            durable,
            auto_delete,
            owner,
            dict(arguments),
            self.scheduler,
            self.strategy,
            self.depth_bytes,
        )
        self.recorder.record(ACTOR_UP, actor.identity, "", "", 0)
        without_effect = not_applied(arguments)
        if without_effect:
            self.log.warning(
                f"{actor.identity}: {', '.join(without_effect)} accepted but not applied in this "
                "version: nothing expires, overflows or is dead-lettered yet"
            )
        return actor

    def fresh_name(self, prefix: str) -> str:
        return prefix + urlsafe_b64encode(self.chance.token(16)).decode().rstrip("=")

    # -- alarms ----------------------------------------------------------------------------------

    def set_alarm(self, resource: str, text: str) -> None:
        """`resource`: memory or disk. Setting it twice changes nothing (property 9)."""
        source = f"alarm:{resource}"
        if source in self.alarms:
            return
        self.alarms[source] = text
        self.recorder.record(ALARM_SET, source, "", text, 0)
        self.log.warning(f"{resource} alarm: {text}; publishing is held, consumers continue")
        for connection in list(self.connections.values()):
            connection.set_alarm(source, text)

    def clear_alarm(self, resource: str) -> None:
        source = f"alarm:{resource}"
        if self.alarms.pop(source, None) is None:
            return
        self.recorder.record(ALARM_CLEARED, source, "", "", 0)
        self.log.info(f"{resource} alarm is over; publishing goes on")
        for connection in list(self.connections.values()):
            connection.clear_alarm(source)

    def alarm_reason(self) -> str:
        resources = sorted(source.removeprefix("alarm:") for source in self.alarms)
        biggest = ""
        size = 0
        for vhost in self.vhosts.values():
            for actor in vhost.queues.values():
                held = int(actor.messages.bytes_ready + actor.unacked_bytes)
                if held > size:
                    size, biggest = held, actor.identity
        text = f"low on {' & '.join(resources)}"
        if biggest != "":
            text += f"; biggest: {biggest[:120]} ({size} bytes)"
        return text

    # -- log -------------------------------------------------------------------------------------

    def report(self, error: BaseException, where: str) -> None:
        self.log.error(f"internal error in {where}; the connection is closed", error)

    def note(self, text: str) -> None:
        self.log.info(text)
