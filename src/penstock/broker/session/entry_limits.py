"""How many connections, channels and queues a virtual host and a user may have.

A limit of 0 allows none; a negative one is no limit. Codes and texts are RabbitMQ's, and so is the
order: the virtual host's limit before the user's. Source: RabbitMQ's rabbit_reader,
rabbit_vhost_limit, rabbit_auth_backend_internal, rabbit_queue_type (check_vhost_queue_limit).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from penstock.base.config import EntryLimits
from penstock.base.errors import ConnectionFault, OperatorError
from penstock.broker.connection.connection import Connection
from penstock.broker.vhost.catalogue import NOTHING_KEPT, Catalogue
from penstock.broker.vhost.vhost import VirtualHost
from penstock.queues.rules import NEVER

VHOST: Final = "vhost"
USER: Final = "user"
CONNECTIONS: Final = "max-connections"
QUEUES: Final = "max-queues"
CHANNELS: Final = "max-channels"
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    VHOST: (CONNECTIONS, QUEUES),
    USER: (CONNECTIONS, CHANNELS),
}
COUNT_MAX: Final = 1_000_000_000
COMPONENT: Final = "vhost-limits"
USER_COMPONENT: Final = "user-limits"


class Limits:
    """The limits of virtual hosts and users, and who is in. vhosts: of the broker; users: those
    there are. Owner: the broker. Bound: one row for each virtual host and each user."""

    def __init__(
        self,
        vhosts: Mapping[str, VirtualHost],
        users: Collection[str],
        rows: Iterable[EntryLimits],
    ) -> None:
        self.vhosts = vhosts
        self.catalogue: Catalogue = NOTHING_KEPT
        # Live: both grow while the broker runs.
        self._names: dict[str, Collection[str]] = {VHOST: vhosts, USER: users}
        self._limits: dict[tuple[str, str], dict[str, int]] = {}
        self._inside: dict[tuple[str, str], dict[Connection, None]] = {}
        # By user. One with thousands of connections opens channels as fast as any other.
        self._channels: dict[str, int] = {}
        for row in rows:
            self.set(row.kind, row.name, row.limits)

    # -- changing --------------------------------------------------------------------------------

    def set(self, kind: str, name: str, limits: Mapping[str, object]) -> dict[str, int]:
        """Put `limits` in force besides those of other keys: all that `name` has now. kind: VHOST
        or USER. No open connection is closed, and no queue is deleted.

        Raises: OperatorError, then nothing has changed."""
        self._check_name(kind, name)
        kept = dict(self._limits.get((kind, name), {}))
        for key, value in limits.items():
            kept[key] = _checked(kind, name, key, value)
        return self._keep(kind, name, kept)

    def clear(self, kind: str, name: str, keys: Iterable[str] = ()) -> dict[str, int]:
        """Take the limits `keys`, all for none, out of force: those that `name` has now.
        Raises: OperatorError."""
        self._check_name(kind, name)
        gone = tuple(keys) or KEYS[kind]
        for key in gone:
            _check_key(kind, key)
        kept = self._limits.get((kind, name), {})
        return self._keep(kind, name, {key: kept[key] for key in kept if key not in gone})

    def user_gone(self, name: str) -> None:
        """Its limits go with it."""
        if self._limits.pop((USER, name), None) is not None:
            self.catalogue.parameter_cleared(*parameter_of(USER, name))

    def vhost_gone(self, name: str) -> None:
        """As `user_gone`."""
        if self._limits.pop((VHOST, name), None) is not None:
            self.catalogue.parameter_cleared(*parameter_of(VHOST, name))

    def _keep(self, kind: str, name: str, limits: dict[str, int]) -> dict[str, int]:
        # As RabbitMQ has it, a negative number is no limit.
        kept = {key: value for key, value in limits.items() if value >= 0}
        if kept:
            self._limits[kind, name] = kept
        else:
            self._limits.pop((kind, name), None)
        if kind == VHOST:
            self.vhosts[name].queue_limit = kept.get(QUEUES, NEVER)
        vhost, component, key = parameter_of(kind, name)
        if kept:
            self.catalogue.parameter_set(vhost, component, key, kept)
        else:
            self.catalogue.parameter_cleared(vhost, component, key)
        return dict(kept)

    def _check_name(self, kind: str, name: str) -> None:
        known = self._names.get(kind)
        if known is None:
            raise OperatorError(f"limits of a {kind}: there are those of a vhost and of a user")
        if name not in known:
            raise OperatorError(f"no {kind} '{name}'; one of: {', '.join(sorted(known))}")

    # -- asking ----------------------------------------------------------------------------------

    def rows(self) -> list[EntryLimits]:
        """Every virtual host and user that has a limit, virtual hosts first."""
        order = sorted(self._limits, key=lambda one: (one[0] != VHOST, one[1]))
        return [EntryLimits(kind, name, dict(self._limits[kind, name])) for kind, name in order]

    def limits_of(self, kind: str, name: str) -> dict[str, int]:
        """The limits of one virtual host or user, by key."""
        return dict(self._limits.get((kind, name), {}))

    def connections_of(self, kind: str, name: str) -> int:
        """Connections of the user, or to the virtual host, that are open."""
        return len(self._inside.get((kind, name), {}))

    def connections_in(self, kind: str, name: str) -> list[Connection]:
        """The same, one by one."""
        return list(self._inside.get((kind, name), {}))

    def channels_of(self, user: str) -> int:
        """Channels that all connections of `user` have open."""
        return self._channels.get(user, 0)

    def export(self) -> dict[str, list[dict[str, object]]]:
        """`parameters` as in RabbitMQ's definitions, and `user_limits` as its management interface
        has them."""
        rows = self.rows()
        return {
            "parameters": [
                {
                    "component": COMPONENT,
                    "vhost": row.name,
                    "name": "limits",
                    "value": dict(row.limits),
                }
                for row in rows
                if row.kind == VHOST
            ],
            "user_limits": [
                {"user": row.name, "value": dict(row.limits)} for row in rows if row.kind == USER
            ],
        }

    # -- connections -----------------------------------------------------------------------------

    def check_connection(self, vhost: str, user: str) -> None:
        """Raise ConnectionFault 530 if there may be no more connection to `vhost`, or of `user`."""
        limit = self._of(VHOST, vhost, CONNECTIONS)
        if limit is not None and self.connections_of(VHOST, vhost) >= limit:
            raise ConnectionFault(
                530,
                f"access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) "
                "is reached",
                10,
                40,
            )
        limit = self._of(USER, user, CONNECTIONS)
        if limit is not None and self.connections_of(USER, user) >= limit:
            raise ConnectionFault(
                530,
                f"connection refused for user '{user}': user connection limit ({limit}) is reached",
                10,
                40,
            )

    def check_channel(self, user: str) -> None:
        """Raise ConnectionFault 530 if `user` may have no more channel."""
        limit = self._of(USER, user, CHANNELS)
        if limit is not None and self.channels_of(user) >= limit:
            raise ConnectionFault(
                530,
                f"number of channels opened for user '{user}' has reached the maximum allowed user "
                f"limit of ({limit})",
                20,
                10,
            )

    def opened(self, connection: Connection, user: str, vhost: str) -> None:
        for key in ((USER, user), (VHOST, vhost)):
            self._inside.setdefault(key, {})[connection] = None

    def closed(self, connection: Connection, user: str, vhost: str) -> None:
        for key in ((USER, user), (VHOST, vhost)):
            inside = self._inside.get(key, {})
            inside.pop(connection, None)
            if not inside:
                self._inside.pop(key, None)

    def channel_opened(self, user: str) -> None:
        """A connection of `user` has one channel more."""
        self._channels[user] = self._channels.get(user, 0) + 1

    def channel_closed(self, user: str) -> None:
        """A channel of `user` has ended, however."""
        left = self._channels[user] - 1
        if left:
            self._channels[user] = left
        else:
            del self._channels[user]

    def _of(self, kind: str, name: str, key: str) -> int | None:
        return self._limits.get((kind, name), {}).get(key)


def check_limits(kind: str, name: str, limits: Mapping[str, object]) -> None:
    """Whether `limits` could be put in force. Raises: OperatorError."""
    for key, value in limits.items():
        _checked(kind, name, key, value)


def parameter_of(kind: str, name: str) -> tuple[str, str, str]:
    """Virtual host, component and name under which limits are kept."""
    return (name, COMPONENT, "limits") if kind == VHOST else ("", USER_COMPONENT, name)


def _check_key(kind: str, key: str) -> None:
    if key not in KEYS[kind]:
        raise OperatorError(
            f"limit '{key}' of a {kind} is unknown; one of: {', '.join(KEYS[kind])}"
        )


def _checked(kind: str, name: str, key: str, value: object) -> int:
    _check_key(kind, key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise OperatorError(f"{kind} '{name}': {key} should be a number, actually was {value!r}")
    if value > COUNT_MAX:
        raise OperatorError(
            f"{kind} '{name}': {key} = {value} is more than {COUNT_MAX}; -1 is no limit"
        )
    return value
