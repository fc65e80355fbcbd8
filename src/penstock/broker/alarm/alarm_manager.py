"""Alarms and what they do to connections: who is stopped, what is recorded, said and listed.

    set     every connection (or those that are named) holds its publishes from now on
    clear   they go on, when no living node is short of the resource any more
Only publishing stops; deliveries, acks and all other methods go on. A connection that is stopped
hears connection.blocked once, when its first publish is held, and connection.unblocked once, when
nothing stops it any more: strictly in turn (property 8). That is why a second alarm that joins
sends no second connection.blocked, although its reason would be newer: clients count.
Source: flow-semantics sections 3 and 10; scenarios 68 to 74, 118; reliability C9.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.base.config import AlarmAction
from penstock.base.errors import OperatorError
from penstock.broker.alarm.alerts import Teller, tell_nobody
from penstock.broker.connection.alarm_action import ACTIONS
from penstock.broker.connection.connection import Connection
from penstock.broker.connection.phases import PHASE_OPEN
from penstock.broker.session.negotiate import Negotiator
from penstock.broker.vhost.context import Context
from penstock.flow.alarms import Alarms
from penstock.telemetry.events import ALARM_CLEARED, ALARM_SET
from penstock.telemetry.words import called, duration


class AlarmActions:
    """default: the action where no row fits; one of ACTIONS. Raises: OperatorError."""

    def __init__(self, default: str, rows: tuple[AlarmAction, ...]) -> None:
        self.default = checked(default)
        self.rows = rows
        for row in rows:
            checked(row.action)

    def of(self, vhost: str, user: str) -> str:
        """The action for publishes of `user` in `vhost`."""
        for row in self.rows:
            if row.vhost in ("", vhost) and row.user in ("", user):
                return row.action
        return self.default


def checked(text: str) -> str:
    """`text` if it is an action. Raises: OperatorError naming those that there are."""
    stripped = text.strip()
    if stripped not in ACTIONS:
        raise OperatorError(f"alarm action '{text}' is unknown; one of: {', '.join(ACTIONS)}")
    return stripped


TEXT_BYTES_MAX = 255
"""Of a short string on the wire."""
_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@dataclass(frozen=True, slots=True)
class ResourceLevel:
    """How much of a resource is used (memory) or free (disk), its limit, and where an alarm ends;
    bytes."""

    now_bytes: int
    limit_bytes: int
    clear_bytes: int


def pair(now_bytes: int, limit_bytes: int) -> str:
    """Two sizes in the unit of the greater: `1.90/2.00 GB`."""
    for unit, factor in _UNITS:
        if max(now_bytes, limit_bytes) >= factor:
            return f"{now_bytes / factor:.2f}/{limit_bytes / factor:.2f} {unit}"
    return f"{now_bytes}/{limit_bytes} bytes"


def one(bytes_: int) -> str:
    """A size with two digits after the point: `1.71 GB`."""
    for unit, factor in _UNITS:
        if bytes_ >= factor:
            return f"{bytes_ / factor:.2f} {unit}"
    return f"{bytes_} bytes"


def reason(
    levels: dict[str, ResourceLevel | None], queues: dict[str, int], drained_per_s: float = 0.0
) -> str:
    """The text of connection.blocked, at most TEXT_BYTES_MAX bytes. levels: of every resource that
    an alarm is set for, None where the numbers are not known; queues: bytes held, by id;
    drained_per_s: bytes a second that consumers take."""
    text = f"low on {' & '.join(sorted(levels))}"
    known = [
        ("free " if resource == "disk" else "") + pair(level.now_bytes, level.limit_bytes)
        for resource, level in sorted(levels.items())
        if level is not None
    ]
    if known:
        text += f" ({'; '.join(known)})"
    text += forecast(levels.get(MEMORY), drained_per_s)
    # The name of the queue gives way, because the numbers are what a reader needs.
    return text + biggest(queues, TEXT_BYTES_MAX - len(text.encode()))


def forecast(memory: ResourceLevel | None, drained_per_s: float) -> str:
    """`; ends below 1.71 GB, in 12 s at the earliest`: if nothing came in and all that consumers
    take were memory again; "" where there is nothing to foretell."""
    if memory is None or not 0 < memory.clear_bytes < memory.now_bytes:
        return ""
    text = f"; ends below {one(memory.clear_bytes)}"
    if drained_per_s < 1:
        return text + ", and no consumer takes anything now"
    seconds = (memory.now_bytes - memory.clear_bytes) / drained_per_s
    return text + f", in {duration(round(seconds * 1e9))} at the earliest"


def biggest(queues: dict[str, int], room_bytes: int) -> str:
    """`; biggest: queue /events 71 %` in at most `room_bytes`; "" if all queues are empty."""
    total = sum(queues.values())
    if total == 0:
        return ""
    most = max(queues, key=lambda name: (queues[name], name))
    head = "; biggest: "
    share = f" {100 * queues[most] / total:.0f} %"
    return head + _cut(called(most), room_bytes - len(head) - len(share)) + share


def _cut(text: str, room_bytes: int) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= room_bytes:
        return data.decode()
    return data[: room_bytes - 3].decode("utf-8", "ignore") + "..."


NODE = "node"
MEMORY = "memory"
DISK = "disk"
RESOURCES = (DISK, MEMORY)
MODE_TARGETED = "targeted"
MODE_ALL = "all"


class AlarmManager:
    """connections, negotiators, vhosts: the broker's own, by name. texts: `alarm:memory` to its
    text, of everything that is set; levels: by resource, as measured last; drained_per_s: bytes a
    second that consumers take; memory_alarm_in_s: at the present rise, infinite if it is not on its
    way, 0 while it is set; tell: is told the title and the text of every alarm that begins."""

    def __init__(
        self,
        context: Context,
        connections: Mapping[str, Connection],
        negotiators: Mapping[str, Negotiator],
    ) -> None:
        self.connections = connections
        self.negotiators = negotiators
        self._context = context
        self.vhosts = context.vhosts
        self.recorder = context.recorder
        self.clock = context.clock
        self.log = context.log
        config = context.config
        self.actions = AlarmActions(config.alarm_action, config.alarm_actions)
        self.mode = MODE_ALL
        self.alarms = Alarms(NODE)
        self.texts: dict[str, str] = {}
        self.levels: dict[str, ResourceLevel] = {}
        self.drained_per_s = 0.0
        self.memory_alarm_in_s = math.inf
        self.tell: Teller = tell_nobody
        self._since_ns: dict[str, int] = {}
        self._named: dict[str, frozenset[str]] = {}

    # -- setting and clearing --------------------------------------------------------------------

    def set(
        self,
        resource: str,
        text: str,
        named: frozenset[str] | None = None,
        node: str = NODE,
    ) -> None:
        """`node` is short of `resource`; again changes nobody's state but that of those who are
        named differently. named: the connections that are stopped, None for every one."""
        if self.alarms.set(node, resource):
            self._begin(resource, text, named)
        else:
            self.stop_only(resource, named)

    def clear(self, resource: str, node: str = NODE) -> None:
        """`node` is no longer short of it; nothing if it was not."""
        if self.alarms.clear(node, resource):
            self._end(resource)

    def node_up(self, node: str, resources: Iterable[str]) -> None:
        """Another node has joined, and is short of `resources`."""
        begun, ended = self.alarms.node_up(node, tuple(resources))
        for resource in begun:
            self._begin(resource, f"set on {node}", None)
        for resource in ended:
            self._end(resource)

    def node_down(self, node: str) -> None:
        """Another node is gone: what it had set is cleared (scenario 72)."""
        for resource in self.alarms.node_down(node):
            self._end(resource)

    def stop_only(self, resource: str, named: frozenset[str] | None) -> None:
        """From now on the alarm stops just these connections, None for every one; every one too
        while another node has set it, because it cannot know who fills that."""
        source = f"alarm:{resource}"
        if self.alarms.where(resource) != (NODE,):
            named = None
        if source not in self.texts or self._named.get(resource) == named:
            return
        if named is None:
            self._named.pop(resource, None)
        else:
            self._named[resource] = named
        for connection in list(self.connections.values()):
            if self._is_meant(resource, connection):
                self._stop(connection, source)
            else:
                connection.clear_alarm(source)

    def _begin(self, resource: str, text: str, named: frozenset[str] | None) -> None:
        source = f"alarm:{resource}"
        self.texts[source] = text
        self._since_ns[resource] = self.clock.monotonic_ns()
        if named is not None:
            self._named[resource] = named
        self.recorder.record(ALARM_SET, source, "", text, 0)
        for connection in list(self.connections.values()):
            if self._is_meant(resource, connection):
                self._stop(connection, source)
        line = f"{resource} alarm: {text}; {self.who(resource)}; consumers continue"
        self.log.warning(line)
        self.tell(f"{resource} alarm", line)

    def _end(self, resource: str) -> None:
        source = f"alarm:{resource}"
        del self.texts[source]
        self._named.pop(resource, None)
        lasted = duration(self.clock.monotonic_ns() - self._since_ns.pop(resource))
        self.recorder.record(ALARM_CLEARED, source, "", "", 0)
        left = f"still held by: {', '.join(self.texts)}" if self.texts else "publishing goes on"
        self.log.info(f"{resource} alarm is over after {lasted}; {left}")
        for connection in list(self.connections.values()):
            connection.clear_alarm(source)
            if not self.texts:
                connection.notifier.ask_to_pause(False)

    # -- connections -----------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """A connection that opens under an alarm for all starts `blocking` (scenario 73)."""
        for source in self.texts:
            if source.removeprefix("alarm:") not in self._named:
                self._stop(connection, source)

    def change_action(self, text: str) -> None:
        """Another default action, for every publish from now on; what is held stays held.
        Raises: OperatorError."""
        self.actions.default = checked(text)
        for connection in self.connections.values():
            connection.alarm_action = self._action_of(connection)

    def _stop(self, connection: Connection, source: str) -> None:
        if self._only_tells():
            connection.notifier.ask_to_pause(True)
            return
        connection.alarm_action = self._action_of(connection)
        connection.set_alarm(source, self.texts[source])

    def _only_tells(self) -> bool:
        """Whether the profile's alarms hold no publishes, and ask clients to pause instead."""
        return self._context.profile.broadcasts_flow

    def _action_of(self, connection: Connection) -> str:
        negotiator = self.negotiators.get(connection.name)
        session = None if negotiator is None else negotiator.session
        if session is None:
            return self.actions.default
        return self.actions.of(session.vhost.name, session.user)

    def _is_meant(self, resource: str, connection: Connection) -> bool:
        named = self._named.get(resource)
        return named is None or connection.name in named

    # -- looking ---------------------------------------------------------------------------------

    def who(self, resource: str) -> str:
        """Whom the alarm stops, for a line of the log."""
        count = len([one for one in self.connections.values() if one.receive_count > 0])
        named = self._named.get(resource)
        if self._only_tells():
            return f"channel.flow asks all clients to pause, {count} connections publish"
        if named is None:
            return f"publishing stopped for all, {count} connections publish"
        return f"publishing stopped for {len(named)} of {count} connections, above their fair share"

    def is_own(self, resource: str) -> bool:
        """Whether this node has set the alarm."""
        return NODE in self.alarms.where(resource)

    def named(self, resource: str) -> frozenset[str]:
        """The connections that are stopped by name; none while all are stopped, or none is."""
        return self._named.get(resource, frozenset())

    def reason(self) -> str:
        """The text of connection.blocked."""
        levels = {one: self.levels.get(one) for one in self.alarms.resources()}
        return reason(levels, self._queues(), self.drained_per_s)

    def biggest(self) -> str:
        """`; biggest: queue /events 71 %`, or nothing where nothing rests in queues."""
        return biggest(self._queues(), TEXT_BYTES_MAX)

    def _queues(self) -> dict[str, int]:
        return {
            actor.identity: int(actor.messages.bytes_ready + actor.unacked_bytes)
            for vhost in self.vhosts.values()
            for actor in vhost.queues.values()
        }

    def mode_of(self, resource: str) -> str:
        """Whom its alarm stops."""
        return self.mode if resource == MEMORY else MODE_ALL

    def set_for_ns(self, resource: str) -> int:
        """How long it has been set, by any node."""
        return self.clock.monotonic_ns() - self._since_ns[resource]

    def stopped(self, resource: str) -> list[str]:
        """The open connections that publish, and that its alarm stops now."""
        return [
            name
            for name, connection in self.connections.items()
            if f"alarm:{resource}" in connection.alarms
            and connection.phase == PHASE_OPEN
            and connection.receive_count > 0
        ]
