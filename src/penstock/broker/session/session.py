"""What one open connection may work with: its user, its virtual host, and the broker's makers."""

from penstock.broker.actors.cleanup import Cleanup
from penstock.broker.connection.client_notifier import NotifierRules
from penstock.broker.connection.connection import Connection
from penstock.broker.lease.lease_manager import LeaseManager
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.session.access import Access
from penstock.broker.session.entry_limits import Limits
from penstock.broker.transaction.transaction_manager import TransactionManager
from penstock.broker.vhost.context import Context
from penstock.broker.vhost.vhost import VirtualHost
from penstock.protocol.values import Table
from penstock.routing.exchange import Exchange


class SessionHost:
    """What a session asks of the broker. A base although only the broker derives from it: the
    broker is made of sessions."""

    __slots__ = ()
    context: Context
    access: Access
    cleanup: Cleanup
    notifier_rules: NotifierRules
    limits: Limits
    transactions: TransactionManager
    leases: LeaseManager

    def make_queue(
        self,
        vhost: VirtualHost,
        name: str,
        durable: bool,
        auto_delete: bool,
        owner: str,
        arguments: Table,
    ) -> QueueActor:
        raise NotImplementedError

    def exchange_made(self, vhost: VirtualHost, exchange: Exchange) -> None:
        """An exchange has been declared, and takes no message before this has returned."""
        raise NotImplementedError

    def fresh_name(self, prefix: str) -> str:
        """A name nobody has, `prefix` and 22 characters."""
        raise NotImplementedError

    def enter_vhost(self, name: str, user: str) -> VirtualHost:
        """Raises: ConnectionFault 530 if there is none, or no room for a connection of `user`."""
        raise NotImplementedError

    def properties(self) -> Table:
        """The server-properties of connection.start."""
        raise NotImplementedError

    def opened(self, connection: Connection) -> None:
        raise NotImplementedError

    def closed(self, connection: Connection) -> None:
        raise NotImplementedError

    def alarm_reason(self) -> str:
        """The text of connection.blocked."""
        raise NotImplementedError

    def report(self, error: BaseException, where: str) -> None:
        raise NotImplementedError

    def note(self, text: str) -> None:
        """One line for the log."""
        raise NotImplementedError


class Session:
    """One authenticated user's connection to one virtual host. is_emulating: what RabbitMQ does
    not implement is refused, as it refuses it."""

    __slots__ = ("capabilities", "connection", "is_emulating", "maker", "user", "vhost")

    def __init__(
        self,
        connection: Connection,
        user: str,
        vhost: VirtualHost,
        maker: SessionHost,
        capabilities: frozenset[str],
        is_emulating: bool,
    ) -> None:
        self.connection = connection
        self.user = user
        self.vhost = vhost
        self.maker = maker
        self.capabilities = capabilities
        self.is_emulating = is_emulating

    @property
    def owner(self) -> str:
        """Who owns exclusive queues: this connection."""
        return self.connection.identity
