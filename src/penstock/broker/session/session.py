"""What one open connection may work with: its user, its virtual host, and the broker."""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass

from penstock.base.errors import ConnectionFault
from penstock.broker.actors.cleanup import Cleanup
from penstock.broker.connection.client_notifier import NotifierRules
from penstock.broker.connection.connection import Connection
from penstock.broker.lease.lease_manager import LeaseManager
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.session.access import Access
from penstock.broker.session.audit import Audit, Refusals
from penstock.broker.session.entry_limits import Limits
from penstock.broker.session.guessing import Guessing
from penstock.broker.session.handover import Elsewhere
from penstock.broker.session.node_counts import NodeCounts
from penstock.broker.session.permissions import Permissions
from penstock.broker.session.tokens import TokenChecker
from penstock.broker.transaction.transaction_manager import TransactionManager
from penstock.broker.vhost.context import Context
from penstock.broker.vhost.rights import Rights
from penstock.broker.vhost.vhost import VirtualHost
from penstock.protocol.values import Table
from penstock.routing.exchange import Exchange


@dataclass(slots=True)
class SessionHost:
    """What all sessions of a broker work with, in one record. Owner: the broker.

    properties: the server-properties of connection.start; make_queue: of a virtual host, by name,
    durable, auto_delete, owner and arguments; exchange_made: called before a declared exchange
    takes its first message; opened, closed: called for every connection; alarm_reason: the text of
    connection.blocked; tokens: who verifies those that clients log in with, None where they cannot;
    elsewhere: the virtual hosts that other processes have, None for a broker alone.
    """

    context: Context
    access: Access
    permissions: Permissions
    guessing: Guessing
    cleanup: Cleanup
    notifier_rules: NotifierRules
    limits: Limits
    transactions: TransactionManager
    leases: LeaseManager
    properties: Table
    make_queue: Callable[[VirtualHost, str, bool, bool, str, Table], QueueActor]
    exchange_made: Callable[[VirtualHost, Exchange], None]
    opened: Callable[[Connection], None]
    closed: Callable[[Connection], None]
    alarm_reason: Callable[[], str]
    audit: Audit
    refusals: Refusals
    counts: NodeCounts
    tokens: TokenChecker | None = None
    elsewhere: Elsewhere | None = None

    def fresh_name(self, prefix: str) -> str:
        """A fresh name: `prefix` and 22 random characters."""
        return prefix + urlsafe_b64encode(self.context.chance.token(16)).decode().rstrip("=")

    def enter_vhost(self, name: str, user: str) -> VirtualHost:
        """Raises: ConnectionFault 530 if there is none, or no room for a connection of `user`."""
        vhost = self.context.vhosts.get(name)
        if vhost is None or vhost.is_leaving:
            raise ConnectionFault(530, f"vhost {name} not found", 10, 40)
        self.limits.check_connection(name, user)
        return vhost

    def admit_operator(self, name: str, user: str) -> tuple[VirtualHost, Rights]:
        """For who came over the control socket: every right, and limits of connections do not
        count. Raises: ConnectionFault 530 if there is no such virtual host."""
        vhost = self.context.vhosts.get(name)
        if vhost is None or vhost.is_leaving:
            raise ConnectionFault(530, f"vhost {name} not found", 10, 40)
        return vhost, Rights(user, name)

    def rights_in(self, name: str, user: str) -> Rights:
        """Raises: ConnectionFault 530 if there is nothing that `user` may do there."""
        if self.permissions.of(user, name) is None:
            text = f"access to vhost '{name}' refused for user '{user}'"
            raise ConnectionFault(530, text, 10, 40)
        return self.permissions.rights(user, name)


class Session:
    """One authenticated user's connection to one virtual host. is_emulating: what RabbitMQ does
    not implement is refused, as it refuses it."""

    __slots__ = ("capabilities", "connection", "host", "is_emulating", "rights", "vhost")

    def __init__(
        self,
        connection: Connection,
        rights: Rights,
        vhost: VirtualHost,
        host: SessionHost,
        capabilities: frozenset[str],
        is_emulating: bool,
    ) -> None:
        self.connection = connection
        self.rights = rights
        self.vhost = vhost
        self.host = host
        self.capabilities = capabilities
        self.is_emulating = is_emulating

    @property
    def user(self) -> str:
        """Who has logged in."""
        return self.rights.user

    @property
    def owner(self) -> str:
        """Who owns exclusive queues: this connection."""
        return self.connection.identity
