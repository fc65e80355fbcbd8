"""Every rate limit of a broker: whose it is, what it is, and who pays at which meter.

    connection     each connection has a meter of its own
    user, vhost    one meter for all connections of the user, or in the virtual host
    queue          one meter for all publishers of the queue; it need not exist yet
A limit set for one name while the broker runs wins over the configured patterns, of which the first
that matches is taken. A connection pays at its own meter, then its user's, then its vhost's.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.limits import RATE_LIMITS
from penstock.base.shown_names import plain_name
from penstock.broker.actors.lane import QueueRate
from penstock.broker.connection.connection import Connection
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.vhost.context import Context
from penstock.flow.rate import Meter

SCOPES: Final = ("connection", "user", "vhost", "queue")
UNITS: Final = ("messages", "bytes")
NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Messages and bytes a second, 0 for no limit."""

    messages: int = 0
    bytes: int = 0

    def is_off(self) -> bool:
        return self.messages == 0 and self.bytes == 0


class Rates:
    """All limits. burst_ns: how much of a second's tokens may pass at once, of every limit."""

    def __init__(
        self, context: Context, members: Callable[[], Iterable[tuple[Connection, str, str]]]
    ) -> None:
        """members: the open connections, with the user and the virtual host of each, at whose
        limits they pay as well."""
        config = context.config
        self.clock = context.clock
        self.line = context.dues
        self.vhosts = context.vhosts
        self.burst_ns = config.rate_burst_ms * NS_PER_MS
        self._patterns = config.rates
        self._defaults = dict.fromkeys(SCOPES, RateLimit())
        self._defaults["connection"] = RateLimit(
            config.rate_connection_messages, config.rate_connection_bytes
        )
        self._named: dict[tuple[str, str], RateLimit] = {}
        self._members = members
        self._meters: dict[tuple[str, str], Meter] = {}

    # -- limits ----------------------------------------------------------------------------------

    def limit_of(self, scope: str, name: str) -> RateLimit:
        """What is in force for `name` of `scope`; name "" for any other of that scope."""
        named = self._named.get((scope, name))
        if named is not None:
            return named
        if name != "":
            plain = plain_name(name) if scope == "queue" else name
            for row in self._patterns:
                pattern = row.pattern
                if row.scope == scope and (
                    fnmatchcase(name, pattern) or fnmatchcase(plain, pattern)
                ):
                    return RateLimit(row.messages, row.bytes)
        return self._defaults[scope]

    def named(self, scope: str) -> list[str]:
        """The names of `scope` that have a limit of their own, set while running."""
        return [name for kind, name in self._named if kind == scope]

    def set_limit(self, scope: str, name: str, unit: str, per_second: int) -> None:
        """Limit one of UNITS from now on, 0 for no limit; name "": of all that have no limit of
        their own. Raises: OperatorError at RATE_LIMITS."""
        limit = self.limit_of(scope, name)
        if unit == "messages":
            limit = replace(limit, messages=per_second)
        else:
            limit = replace(limit, bytes=per_second)
        if name == "":
            self._defaults[scope] = limit
        else:
            self._set_named(scope, name, limit)
        self._apply(scope)

    def _set_named(self, scope: str, name: str, limit: RateLimit) -> None:
        key = (scope, name)
        before = self._named.pop(key, None)
        # What holds for it anyway needs no entry of its own.
        if limit == self.limit_of(scope, name):
            return
        if before is None and len(self._named) >= RATE_LIMITS.default:
            raise OperatorError(
                f"{len(self._named)} users, vhosts and queues have a rate limit of their own, and "
                f"{RATE_LIMITS.default} may; set one of them to off, or use a pattern in [[rates]]"
            )
        self._named[key] = limit

    def set_burst(self, burst_ns: int) -> None:
        """Every bucket holds this much of a second's tokens from now on."""
        self.burst_ns = burst_ns
        for scope in SCOPES:
            self._apply(scope)

    # -- who pays --------------------------------------------------------------------------------

    def opened(self, connection: Connection, user: str, vhost: str) -> None:
        """A connection is open: its publishes pay from now on."""
        self._equip(connection, user, vhost)

    def closed(self, connection: Connection) -> None:
        """A connection is gone. Users and vhosts keep theirs, or reconnecting would fill them."""
        self._meters.pop(("connection", connection.name), None)

    def queue_made(self, actor: QueueActor) -> None:
        """A queue is new, or its limit has changed: it holds from the next message on."""
        name = actor.identity[6:]
        limit = self.limit_of("queue", name)
        queue_rate = actor.queue_rate
        if limit.is_off():
            if queue_rate is not None:
                actor.queue_rate = None
                queue_rate.end()
            return
        if queue_rate is None:
            queue_rate = QueueRate(Meter(f"rate:queue:{name}", self.clock, self.line), actor.lanes)
            actor.queue_rate = queue_rate
        queue_rate.meter.set_limits(limit.messages, limit.bytes, self.burst_ns)

    def meters(self) -> list[Meter]:
        """Every meter in force."""
        found = list(self._meters.values())
        for vhost in self.vhosts.values():
            for actor in vhost.queues.values():
                if actor.queue_rate is not None:
                    found.append(actor.queue_rate.meter)
        return found

    def _apply(self, scope: str) -> None:
        """The limits of `scope` have changed."""
        if scope == "queue":
            for vhost in self.vhosts.values():
                for actor in vhost.queues.values():
                    self.queue_made(actor)
        else:
            for connection, user, name in list(self._members()):
                self._equip(connection, user, name)

    def _equip(self, connection: Connection, user: str, vhost: str) -> None:
        wanted = (("connection", connection.name), ("user", user), ("vhost", vhost))
        meters = [self._meter(scope, name) for scope, name in wanted]
        found = [one for one in meters if one is not None]
        if found or connection.rated is not None:
            connection.set_meters(found)

    def _meter(self, scope: str, name: str) -> Meter | None:
        """The meter of `name` with its limits in force, None if it has none."""
        limit = self.limit_of(scope, name)
        key = (scope, name)
        if limit.is_off():
            self._meters.pop(key, None)
            return None
        meter = self._meters.get(key)
        if meter is None:
            kind = "conn" if scope == "connection" else scope
            meter = Meter(f"rate:{kind}:{name}", self.clock, self.line)
            self._meters[key] = meter
        meter.set_limits(limit.messages, limit.bytes, self.burst_ns)
        return meter
