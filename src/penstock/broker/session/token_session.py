"""The token that a connection has logged in with: what it allows, until when, and the next one.

    expires            320 CONNECTION_FORCED, "credential expired"
    update-secret      a token of the same user takes its place: rights and end are its own from
                       then on, consumers of queues that it may not read are cancelled. One that
                       is not accepted: 530 NOT_ALLOWED, and the connection closes

Source: RabbitMQ's rabbit_reader (credential_expired, connection.update_secret) and rabbit_channel
(recheck_consumers).
"""

from collections.abc import Callable
from typing import Final

from penstock.base.errors import ConnectionFault
from penstock.broker.connection.connection import Connection
from penstock.broker.connection.phases import PHASE_OPEN
from penstock.broker.session.recheck import Recheck
from penstock.broker.session.scopes import ScopeRights
from penstock.broker.session.session import SessionHost
from penstock.broker.session.tokens import NEVER_S, TokenFault, TokenUser
from penstock.broker.session.verbs import ChannelVerbs
from penstock.broker.vhost.rights import IMPERSONATOR, Rights
from penstock.flow.due import Timer
from penstock.protocol.constants import CONNECTION_FORCED, NOT_ALLOWED

NS_PER_S: Final = 1_000_000_000
LOOK_NS: Final = 60 * NS_PER_S
"""The wall clock may be set while a token waits for its end: it is looked at this often."""
UPDATE_SECRET: Final = (10, 70)


class TokenRights(Rights):
    """What a token's scopes allow in one virtual host. Belongs to one connection. Nothing is
    remembered: publishers ask once for every route."""

    __slots__ = ("scopes",)

    def __init__(self, user: str, vhost: str, scopes: ScopeRights) -> None:
        super().__init__(user, vhost)
        self.scopes = scopes

    def may(self, right: str, name: str) -> bool:
        return self.scopes.may(right, name)

    def may_topic(self, right: str, exchange: str, key: str) -> bool:
        return self.scopes.may_topic(right, exchange, key)

    def has_topics(self) -> bool:
        return True


class TokenSession:
    """One connection's token. user: by the token in force; is_checking: the next one is being
    looked at; rights: None until the virtual host is known."""

    __slots__ = ("_connection", "_host", "_timer", "is_checking", "rights", "user", "verbs")

    def __init__(self, host: SessionHost, connection: Connection, user: TokenUser) -> None:
        self._host = host
        self._connection = connection
        self._timer = Timer(self._look)
        self.user = user
        self.is_checking = False
        self.rights: TokenRights | None = None
        self.verbs: ChannelVerbs | None = None

    def enter(self, vhost: str) -> TokenRights:
        """Its rights in `vhost`. Raises: ConnectionFault 530 without any."""
        scopes = self._scopes(self.user, vhost, 10, 40)
        self.rights = TokenRights(self.user.name, vhost, scopes)
        self.rights.is_impersonator = IMPERSONATOR in self.user.tags
        return self.rights

    def opened(self, verbs: ChannelVerbs) -> None:
        """The connection is open: its time runs."""
        self.verbs = verbs
        self._look(self._host.context.clock.monotonic_ns())

    def ended(self) -> None:
        """Nothing falls due any more."""
        self._host.context.dues.take_off(self._timer)

    # -- its end ---------------------------------------------------------------------------------

    def _look(self, now_ns: int) -> None:
        if self.user.expires_s == NEVER_S or self._connection.phase != PHASE_OPEN:
            return
        context = self._host.context
        left_ns = self.user.expires_s * NS_PER_S - context.clock.wall_ns()
        if left_ns > 0:
            context.dues.put(self._timer, now_ns + min(left_ns, LOOK_NS))
            return
        name = self._connection.name
        context.log.warning(f"{name}: the token of user '{self.user.name}' has expired")
        self._connection.fail(ConnectionFault(CONNECTION_FORCED, "credential expired"))

    # -- the next one ----------------------------------------------------------------------------

    def update(self, secret: bytes, done: Callable[[], None]) -> None:
        """connection.update-secret: `done` is called once the new token is in force.
        Raises: ConnectionFault 530."""
        tokens = self._host.tokens
        assert tokens is not None, "it has logged in by one"
        if self.is_checking:
            raise _refused("the secret of before is still being checked")
        self.is_checking = True

        def checked(found: TokenUser | TokenFault) -> None:
            self.is_checking = False
            if self._connection.phase != PHASE_OPEN:
                return
            try:
                rights = self._exchange(found)
            except ConnectionFault as fault:
                self._connection.fail(fault)
                return
            done()
            assert self.verbs is not None, "it is open"
            self._host.cleanup.begin(Recheck(self._connection, self.verbs, rights))

        tokens.check(secret.decode("utf-8", "replace"), checked)

    def _exchange(self, found: TokenUser | TokenFault) -> TokenRights:
        """What is allowed now. Raises: ConnectionFault 530."""
        log = self._host.context.log
        name, user = self._connection.name, self.user.name
        if isinstance(found, TokenUser) and found.name != user:
            found = TokenFault(f"it is of user '{found.name}'")
        if isinstance(found, TokenFault):
            log.warning(f"{name}: the next token of user '{user}' is refused: {found}")
            raise _refused("New secret was refused by one of the backends")
        rights = self.rights
        assert rights is not None, "it is open"
        rights.scopes = self._scopes(found, rights.vhost, *UPDATE_SECRET)
        rights.is_impersonator = IMPERSONATOR in found.tags
        self.user = found
        log.info(f"{name}: user '{user}' has shown another token")
        self._look(self._host.context.clock.monotonic_ns())
        for channel in self._connection.channels.values():
            channel.publisher.forget_routes()
        return rights

    def _scopes(self, user: TokenUser, vhost: str, class_id: int, method_id: int) -> ScopeRights:
        scopes = user.scopes.in_vhost(vhost)
        if scopes is None:
            text = f"access to vhost '{vhost}' refused for user '{user.name}'"
            raise ConnectionFault(NOT_ALLOWED, text, class_id, method_id)
        return scopes


def _refused(text: str) -> ConnectionFault:
    return ConnectionFault(NOT_ALLOWED, text, *UPDATE_SECRET)
