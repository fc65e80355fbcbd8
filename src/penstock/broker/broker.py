"""The broker as a whole: virtual hosts, connections, alarms, and the makers of actors.

Pure: bytes come in through connections, go out through their outputs; time, chance and the log are
handed in. The server and the simulator own one of these each.
"""

import platform
from collections.abc import Iterator
from functools import partial

import penstock
from penstock.base.chance import Chance
from penstock.base.clock import Clock
from penstock.base.config import Config, UserConfig
from penstock.base.limits import FRAME_BYTES_BEFORE_OPEN, QUEUES_PER_VHOST
from penstock.broker.actors.cleanup import Cleanup
from penstock.broker.actors.disk import Disk
from penstock.broker.actors.log import Log as Log
from penstock.broker.actors.output import Output, Shell
from penstock.broker.actors.syncing import SyncRule
from penstock.broker.alarm.alarm_manager import AlarmManager
from penstock.broker.channel.channel import Channel
from penstock.broker.channel.full_actions import FullActions
from penstock.broker.channel.node_parking import NodeParking
from penstock.broker.channel.parking_disk import ParkingDisk
from penstock.broker.connection.client_notifier import NotifierRules
from penstock.broker.connection.connection import Connection
from penstock.broker.connection.consumer_timeout import ConsumerTimeout
from penstock.broker.connection.phases import PHASE_OPEN
from penstock.broker.connection.unfinished import NodeUnfinished
from penstock.broker.dead_letter.delay_store import DelayStores
from penstock.broker.lease.lease_manager import LeaseManager
from penstock.broker.node.failure_handler import FailureHandler, close_damaged
from penstock.broker.node.paging_manager import PagingManager
from penstock.broker.node.store_registry import StoreRegistry
from penstock.broker.node.stream_registry import StreamRegistry
from penstock.broker.policy.depth_marks import DepthMarks
from penstock.broker.policy.policies import Policies
from penstock.broker.policy.policy_manager import PolicyManager, RuleManager
from penstock.broker.queue.classic_actor import ClassicActor
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.session.access import Access, TlsPeer
from penstock.broker.session.audit import NO_AUDIT, Refusals
from penstock.broker.session.entry_limits import USER, Limits
from penstock.broker.session.guessing import Guessing
from penstock.broker.session.negotiate import Negotiator
from penstock.broker.session.node_counts import NodeCounts
from penstock.broker.session.permissions import Permissions
from penstock.broker.session.recheck import Recheck, RecheckAll
from penstock.broker.session.session import SessionHost
from penstock.broker.settings.depth_setting import DepthSettings, add_depth_setting
from penstock.broker.settings.hop_watch import HopWatch
from penstock.broker.settings.ledger import Ledger
from penstock.broker.settings.parking import add_parking_settings
from penstock.broker.settings.rates import Rates
from penstock.broker.settings.settings import SettingChanges, Settings
from penstock.broker.settings.table import (
    add_adaptive_settings,
    add_client_settings,
    add_credit_settings,
    add_ledger_settings,
    add_rabbit_settings,
    add_rate_settings,
    add_soft_limit_setting,
    add_watchdog_setting,
)
from penstock.broker.vhost.catalogue import Catalogue
from penstock.broker.vhost.context import Context
from penstock.broker.vhost.queue_arguments import KindNotes, is_stream
from penstock.broker.vhost.vhost import VirtualHost
from penstock.explain.naming import client_name
from penstock.flow.account import Account
from penstock.flow.credit import Strategy
from penstock.flow.hop import Hop
from penstock.flow.overrides import configured
from penstock.flow.profile import Profile, profile_named
from penstock.protocol.frames import FrameParser
from penstock.protocol.handshake import OWN_CAPABILITIES, ServerIdentity, server_properties
from penstock.protocol.values import Table
from penstock.routing.bindings import BindingBounds
from penstock.routing.exchange import Exchange
from penstock.storage.layout.files import Directory
from penstock.storage.log.parked import forget_all
from penstock.telemetry.events import ACTOR_DOWN, ACTOR_UP, QUEUE_SAMPLE, CountSample

NS_PER_MS = 1_000_000
NODE_NAME = "penstock@localhost"
LOST = "its socket ended without connection.close"


class Broker:
    """memory_high_bytes: for alarm texts and the default depth mark."""

    def __init__(
        self, config: Config, clock: Clock, chance: Chance, log: Log, memory_high_bytes: int
    ) -> None:
        vhosts = {name: _make_vhost(config, name) for name in config.vhosts}
        profile = configured(profile_named(config.profile), config)
        context = Context(config, clock, chance, log, profile, vhosts)
        self.context = context
        self.config = config
        self.clock = clock
        self.started_ns, self.node_name = clock.monotonic_ns(), NODE_NAME
        # Of a cluster: followers that what is on this node's disk waits for, in words.
        self.replicas = ""
        self.chance = chance
        self.log = log
        self.vhosts = vhosts
        self.recorder = context.recorder
        self.scheduler = context.scheduler
        self.dues = context.dues
        self.access = Access(config.users, chance)
        if config.upgrade_passwords:
            self.access.upgraded = self._upgraded
        self.permissions = _make_permissions(config, vhosts, self.access)
        self.permissions.changed = self._rights_changed
        self.guessing = Guessing(config.login_delay_ms)
        self.cleanup = Cleanup(self.scheduler)
        self.settings = Settings()
        self.memory_high_bytes = memory_high_bytes
        self.depth_marks = DepthMarks(context, config.queue_depth_bytes or memory_high_bytes // 5)
        self.scheduler.failed = FailureHandler(log, vhosts).failed
        limits = (*config.vhost_limits, *config.user_limits)
        self.limits = Limits(vhosts, self.access.users, limits)
        self.ledger = Ledger(config, self.access, vhosts)
        self.ledger.adopt(profile, context.strategy)
        self.node_account = self.ledger.node
        self.connections: dict[str, Connection] = {}
        self.negotiators: dict[str, Negotiator] = {}
        self.connection_count, self.ended_count, self.counts = 0, 0, NodeCounts()
        self.parking = NodeParking(config.parked_node_bytes, config.parked_bytes)
        self.unfinished = NodeUnfinished(config)
        self.full_actions = FullActions(config.parked_full, config.parked_full_actions)
        self.hop_watch = HopWatch(context, self.connections)
        self.notifier_rules = NotifierRules(
            config.channel_flow, config.notify_blocked_ms * NS_PER_MS
        )
        self.consumer_timeout = ConsumerTimeout(
            self.connections, self.scheduler.stamp, config.consumer_timeout_ms, self.note
        )
        self.alarm_manager = AlarmManager(context, self.connections, self.negotiators)
        self.alarms = self.alarm_manager.texts
        self.changes = SettingChanges(context, self.settings)
        self.rates = Rates(context, self.members)
        self.policies = Policies(config.vhosts, config.policies, config.operator_policies)
        self.rule_manager = RuleManager(context, self.policies, self.depth_marks)
        self.policy_manager = PolicyManager(context, self.policies, self.rule_manager, self.cleanup)
        self.delays = DelayStores(context, self.rule_manager.letters)
        self.kind_notes = KindNotes(log)
        self.leases = LeaseManager(context, self.node_account)
        self.stores = StoreRegistry(context, self.alarm_manager, self.cleanup)
        self.stores.sync_rule = SyncRule(config.store_sync, config.store_sync_interval_ms)
        self.stores.paging = PagingManager(
            context, self.stores.scratch_of, partial(close_damaged, log), self.alarm_manager
        )
        self.transactions = self.stores.transactions
        self.streams = StreamRegistry(context, self.alarm_manager, self.ledger, self.stores)
        for vhost in vhosts.values():
            self._equip(vhost)
        self.hop_watch.stores = self.stores.by_name
        self.hop_watch.streams = self.streams.stores
        self.host = self._make_host()
        self._offer_settings()

    def _make_host(self) -> SessionHost:
        return SessionHost(
            self.context,
            self.access,
            self.permissions,
            self.guessing,
            self.cleanup,
            self.notifier_rules,
            self.limits,
            self.transactions,
            self.leases,
            server_properties(_identity(self.config), OWN_CAPABILITIES),
            self.make_queue,
            self.exchange_made,
            self.opened,
            self.closed,
            self.alarm_manager.reason,
            NO_AUDIT,
            Refusals(),
            self.counts,
        )

    def _store_hops(self) -> Iterator[Hop]:
        """Every hop to a store, of messages or of streams."""
        for store in self.stores.by_name.values():
            yield from store.all_lanes()
        for streams in self.streams.stores.values():
            yield from streams.all_lanes()

    def _offer_settings(self) -> None:
        add_ledger_settings(self.settings, self.ledger)
        add_watchdog_setting(self.settings, self.hop_watch)
        add_client_settings(
            self.settings, self.consumer_timeout, self.notifier_rules, self.look_at_clients
        )
        add_credit_settings(self.settings, self.connections, self._store_hops, self.context)
        paging = self.stores.paging
        if paging is not None:
            add_rabbit_settings(self.settings, self.context, paging.follow_profile)
        add_soft_limit_setting(self.settings, self.context)
        add_adaptive_settings(self.settings, self.context)
        add_rate_settings(self.settings, self.rates)
        rules_of = self.rule_manager.rules_of
        add_depth_setting(
            self.settings, DepthSettings(self.context, self.depth_marks, rules_of, self.cleanup)
        )
        add_parking_settings(
            self.settings, self.parking, self.full_actions, self.connections, self.negotiators
        )

    @property
    def profile(self) -> Profile:
        """What flow control does, by its settings."""
        return self.context.profile

    @property
    def strategy(self) -> Strategy:
        """How hops are charged and granted."""
        return self.context.strategy

    @property
    def catalogue(self) -> Catalogue:
        """What keeps durable things now."""
        return self.context.catalogue

    @property
    def memory_used_bytes(self) -> int:
        """By the process, when it was last looked at."""
        return self.context.memory_used_bytes

    # -- connections -----------------------------------------------------------------------------

    def accept(
        self,
        peer_host: str,
        peer: str,
        output: Output,
        shell: Shell,
        tls_peer: TlsPeer | None = None,
    ) -> Connection:
        """A peer has connected: the actor that talks to it. tls_peer: None without TLS."""
        self.connection_count += 1
        name = peer if peer not in self.connections else f"{peer}#{self.connection_count}"
        negotiator = Negotiator(self.host, peer_host, name, self.clock.monotonic_ns(), tls_peer)
        connection = Connection(
            name,
            negotiator,
            self.strategy,
            self.profile.is_parking,
            self.parking,
            self.unfinished,
            self.node_account,
            FrameParser(FRAME_BYTES_BEFORE_OPEN.default, self.config.body_bytes_max),
            output,
            shell,
            self.scheduler,
        )
        self.ledger.admit(connection.account)
        self.connections[name] = connection
        self.negotiators[name] = negotiator
        return connection

    def lost(self, connection: Connection) -> None:
        """The peer's socket is gone."""
        negotiator = self.negotiators.get(connection.name)
        if negotiator is not None:
            if connection.phase == PHASE_OPEN and not negotiator.close_reason:
                negotiator.close_reason = LOST
            negotiator.release(connection)

    def opened(self, connection: Connection) -> None:
        self.counts.connections_opened += 1
        negotiator = self.negotiators[connection.name]
        name = client_name(negotiator.client_properties)
        self.recorder.record(ACTOR_UP, connection.identity, "", name, 0)
        session = negotiator.session
        assert session is not None, "it opens with one"
        self.ledger.enter(connection.account, session.user, session.vhost.name)
        connection.lot.full_action = self.full_actions.of(session.vhost.name, session.user)
        self.rates.opened(connection, session.user, session.vhost.name)
        self.limits.opened(connection, session.user, session.vhost.name)
        said = f"user {session.user}, vhost {session.vhost.name}"
        self.log.event(
            "connection.opened",
            f"{negotiator.shown()}: opened, {said}",
            negotiator.fields() | {"user": session.user, "vhost": session.vhost.name},
        )
        self.alarm_manager.opened(connection)

    def members(self) -> Iterator[tuple[Connection, str, str]]:
        """The open connections, with the user and the virtual host of each."""
        for connection in self.connections.values():
            session = self.negotiators[connection.name].session
            if session is not None:
                yield connection, session.user, session.vhost.name

    def closed(self, connection: Connection) -> None:
        self.recorder.record(ACTOR_DOWN, connection.identity, "", "", 0)
        self.ended_count += 1
        self.rates.closed(connection)
        self.ledger.left(connection.account)
        self.connections.pop(connection.name, None)
        negotiator = self.negotiators.pop(connection.name, None)
        if negotiator is not None and negotiator.session is not None:
            self.counts.connections_closed += 1
            session = negotiator.session
            self.limits.closed(connection, session.user, session.vhost.name)
            # Errors have a line of their own already.
            why = f": {LOST}" if negotiator.close_reason == LOST else ""
            self.log.event(
                "connection.closed",
                f"{negotiator.shown()}: closed{why}",
                negotiator.fields() | {"reason": negotiator.close_reason},
            )

    # -- makers ----------------------------------------------------------------------------------

    def make_queue(
        self,
        vhost: VirtualHost,
        name: str,
        durable: bool,
        auto_delete: bool,
        owner: str,
        arguments: Table,
    ) -> QueueActor:
        if is_stream(arguments):
            actor: QueueActor = self.streams.make(vhost.name, name, arguments)
        else:
            classic = actor = ClassicActor(
                vhost.name,
                name,
                durable,
                auto_delete,
                owner,
                dict(arguments),
                self.scheduler,
                self.strategy,
                self.depth_marks.default_bytes if self.depth_marks.has_marks() else 0,
            )
            classic.new_limits = self.rule_manager.new_limits
        self.counts.queues_created += 1
        actor.fair_bytes = self.profile.fair_bytes
        self.rates.queue_made(actor)
        self.rule_manager.made(actor)
        self.kind_notes.made(vhost.name, name, arguments)
        self.recorder.record(ACTOR_UP, actor.identity, "", "", 0)
        return actor

    def queue_gone(self, actor: QueueActor) -> None:
        """Put its last counts on record: samples are a second apart, and what passed since the last
        one would be in none."""
        self.counts.queue_gone(actor)
        recorder, counts, now_ns = self.recorder, actor.messages, self.clock.monotonic_ns()
        passed = (int(counts.publish_count), int(counts.deliver_count), int(counts.ack_count))
        held, last = (0, 0, 0), (recorder.next_seq, now_ns, QUEUE_SAMPLE, actor.identity)
        recorder.keep(CountSample(*last, *held, *passed, 0))
        recorder.record_at(now_ns, ACTOR_DOWN, actor.identity, "", "", 0)

    def exchange_made(self, vhost: VirtualHost, exchange: Exchange) -> None:
        self.policy_manager.exchange_made(vhost.name, exchange)

    # -- keeping ---------------------------------------------------------------------------------

    def keep(self, catalogue: Catalogue) -> None:
        """Tell `catalogue` of every change from now on."""
        self.context.catalogue = catalogue
        self.limits.catalogue = catalogue
        self.permissions.catalogue = catalogue
        for vhost in self.vhosts.values():
            vhost.catalogue = catalogue

    def add_vhost(self, name: str) -> VirtualHost:
        """A new virtual host; `name` is free."""
        vhost = _make_vhost(self.config, name)
        self._equip(vhost)
        self.vhosts[name] = vhost
        self.policies.add_vhost(name)
        self.catalogue.vhost_added(name)
        if name in self.stores.stores:
            # One that was deleted in this life has left them open.
            self.stores.vhost_is_back(name)
        else:
            self.stores.vhost_made(name)
            self.streams.vhost_made(name)
        return vhost

    def drop_vhost(self, name: str) -> None:
        """`name` has no connections, queues or exchanges any more, and is gone with its policies,
        limits and permissions. Its store stays open, empty, until the broker stops, and its
        directory goes then."""
        self.policy_manager.vhost_gone(name)
        self.permissions.forget(vhost=name)
        self.limits.vhost_gone(name)
        self.counts.add_vhost(self.vhosts.pop(name))
        self.catalogue.vhost_removed(name)
        self.transactions.vhost_gone(name)
        self.stores.vhost_gone(name)

    def queues_in(self, vhost: str) -> list[QueueActor]:
        """Those of a virtual host, none of one that is gone."""
        there = self.vhosts.get(vhost)
        return [] if there is None else list(there.queues.values())

    def park_on(self, directory: Directory, disk: Disk) -> None:
        """Parking lots that are large go to `directory`; what is in it is of another life."""
        forget_all(directory)
        parking = ParkingDisk(directory, disk, self.clock, self.dues, self.log)
        parking.bytes_max = self.config.parked_disk_bytes
        self.parking.disk = parking

    def parking_accounts(self) -> list[Account]:
        """Who pays for what ended channels have on the disk."""
        channels = [one for one in self.parking.rests if isinstance(one, Channel)]
        return list({one.parking.lot.account: None for one in channels})

    def _equip(self, vhost: VirtualHost) -> None:
        vhost.exchange_added = self.delays.exchange_made
        vhost.queue_added = self.streams.queue_made
        vhost.catalogue = self.catalogue
        vhost.queue_gone = self.queue_gone

    def set_user(self, user: UserConfig) -> None:
        """A new user with a hashed password, or another password for one of these."""
        self.access.users[user.name] = user
        self.catalogue.user_set(user)
        self.permissions.user_changed(user.name)

    def _upgraded(self, user: UserConfig) -> None:
        """Those of the configuration stay as it says."""
        if user.name not in self.permissions.configured or self.config.users == Config().users:
            self.set_user(user)

    def _rights_changed(self, user: str, vhost: str) -> None:
        """Operations ask anew by themselves; consumers that are there do not."""

        def recheck(connection: Connection) -> Recheck | None:
            negotiator = self.negotiators.get(connection.name)
            if negotiator is None or negotiator.token is not None:
                return None
            session, verbs = negotiator.session, negotiator.verbs
            if session is None or verbs is None or session.vhost.name != vhost:
                return None
            return Recheck(connection, verbs, session.rights)

        connections = self.limits.connections_in(USER, user)
        if connections:
            self.cleanup.begin(RecheckAll(connections, recheck))

    def drop_user(self, name: str) -> None:
        """`name` can log in no more, and its permissions and limits are gone; connections stay."""
        del self.access.users[name]
        self.access.forget(name)
        self.catalogue.user_removed(name)
        self.limits.user_gone(name)
        self.permissions.forget(user=name)

    # -- alarms ----------------------------------------------------------------------------------

    def set_alarm(self, resource: str, text: str) -> None:
        """This node is short of `resource`, memory or disk: every publisher stops (property 9)."""
        self.alarm_manager.set(resource, text)

    def clear_alarm(self, resource: str) -> None:
        self.alarm_manager.clear(resource)

    def alarm_reason(self) -> str:
        return self.alarm_manager.reason()

    # -- watching --------------------------------------------------------------------------------

    def notify_clients(self, now_ns: int) -> bool:
        """Ten times a second: tell clients what has lasted too long; True if any was looked at.
        Costs nothing while no client is to be told."""
        if not self.notifier_rules.is_watching():
            return False
        self.look_at_clients()
        return True

    def look_at_clients(self) -> None:
        """Tell every client what has to be told now."""
        now_ns = self.clock.monotonic_ns()
        for line in self.notifier_rules.look(self.connections, now_ns):
            self.note(line)

    def watch_hops(self, now_ns: int) -> None:
        """Once a second: report hops that wait without end, mend those whose grant was lost."""
        for line in self.hop_watch.tick(now_ns):
            self.log.warning(line)

    def look_at_unfinished(self, now_ns: int) -> None:
        """Once a second: close whoever keeps others waiting with messages that do not end."""
        for one in self.unfinished.overdue(now_ns):
            connection = self.connections.get(one.account.name.partition(":")[2])
            if connection is not None:
                self.log.warning(f"{connection.name}: {one.fault().text}; closed")
                connection.fail(one.fault())

    def page(self) -> None:
        """Once a second: how much memory each queue may use from now on."""
        if self.stores.paging is not None and self.stores.stores:
            self.stores.paging.tick(self.memory_high_bytes)

    @property
    def cluster_name(self) -> str:
        """The same whoever leads; that of a broker alone is its node's, as in RabbitMQ."""
        return self.config.cluster_name if self.config.cluster_node else self.node_name

    # -- log -------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        self.log.info(text)


def _identity(config: Config) -> ServerIdentity:
    return ServerIdentity(
        config.product,
        config.product_version or penstock.__version__,
        f"Python {platform.python_version()}",
        "Copyright the Penstock authors",
        "Licensed under the Apache License 2.0",
        config.cluster_name if config.cluster_node else NODE_NAME,
    )


def _make_permissions(
    config: Config, vhosts: dict[str, VirtualHost], access: Access
) -> Permissions:
    names = [one.name for one in config.users]
    rows, topics = config.permissions, config.topic_permissions
    return Permissions(vhosts, access.users, names, rows, topics)


def _make_vhost(config: Config, name: str) -> VirtualHost:
    vhost = VirtualHost(name, QUEUES_PER_VHOST.default)
    vhost.allows_immediate = config.immediate_publish
    vhost.binding_bounds = BindingBounds(
        config.topic_hashes,
        config.topic_positions,
        config.headers_values,
        config.headers_exchange_values,
    )
    vhost.headers_max = config.message_headers
    return vhost
