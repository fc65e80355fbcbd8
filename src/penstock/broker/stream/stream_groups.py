"""The reader groups of one stream, and what they hold: see streams/reader_groups; their registry.

While a group is too far behind, the stream's gate is closed in its name: grants are deferred, so
publishers wait, with confirms or without. It opens again when the group has caught up, or is gone.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.base.errors import ChannelFault
from penstock.base.limits import STREAM_GROUP_LAG_BYTES, STREAM_GROUPS, STREAM_MEMORY_BYTES
from penstock.broker.actors.actor import Actor
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.vhost.context import Context
from penstock.flow.due import Timer
from penstock.streams.log import StreamLog
from penstock.streams.origins import Origins
from penstock.streams.reader_groups import LagBound, ReaderGroup, lowest

REASON: Final = "lag"
COMPONENT: Final = "stream-group"
SAVE_NS: Final = 1_000_000_000
LOOK_NS: Final = 2_000_000
"""How soon the catalogue is asked again whether it has a row; mostly it has it by then."""
ROOM_LEAST: Final = 100
"""Positions are not written while the catalogue has room for fewer changes than this."""


class StreamGroups:
    """groups: by name; bound: the stream's own, of its arguments and the policies; rest: whoever
    has published what nobody else did, as far as is known."""

    __slots__ = ("actor", "bound", "groups", "is_in_memory", "log", "rest")

    def __init__(
        self, actor: Actor, log: StreamLog, bound: LagBound, is_in_memory: bool, rest: Cause
    ) -> None:
        self.actor = actor
        self.rest = rest
        self.log = log
        self.bound = bound
        self.is_in_memory = is_in_memory
        self.groups: dict[str, ReaderGroup] = {}

    def register(self, name: str, own: LagBound, position: i64) -> ReaderGroup:
        """A group that begins to read at `position`, or says again where it begins and what it
        asks for. position: -1 for where it is, a new one at the end.

        Raises: ChannelFault 406 when there are too many."""
        now_ns: i64 = self.actor.line.clock.monotonic_ns()
        group = self.groups.get(name)
        if group is None:
            if len(self.groups) >= STREAM_GROUPS.default:
                raise ChannelFault(
                    406,
                    f"{len(self.groups)} groups read {self.actor.identity}, and "
                    f"{STREAM_GROUPS.default} may: {', '.join(sorted(self.groups))}; end one with "
                    "stream.group.remove",
                    240,
                    10,
                )
            group = ReaderGroup(name, own, now_ns)
            self.groups[name] = group
            if self.log.origins is None:
                self.log.origins = Origins(self.rest)
            if position < 0:
                position = self.log.committed
        group.own = own
        group.since_ns = now_ns
        if position >= 0:
            group.move(self.log, position)
        self._bind(group)
        self.measure()
        return group

    def advance(self, group: ReaderGroup, position: i64) -> None:
        """The group has passed everything before `position`; it never goes back by this."""
        if position > group.position:
            group.since_ns = self.actor.line.clock.monotonic_ns()
            group.move(self.log, position)
        self.measure()

    def remove(self, name: str) -> None:
        """The group is no more: it keeps nothing, and holds nobody."""
        group = self.groups.pop(name, None)
        if group is not None:
            self.actor.gate.open(self.identity_of(group), REASON)
            if not self.groups:
                self.log.origins = None
            self.measure()

    def set_bound(self, bound: LagBound) -> None:
        """The policies have changed."""
        self.bound = bound
        for group in self.groups.values():
            self._bind(group)
        self.measure()

    def _bind(self, group: ReaderGroup) -> None:
        most: i64 = STREAM_MEMORY_BYTES.default // 2 if self.is_in_memory else 0
        group.bound_by(self.bound, STREAM_GROUP_LAG_BYTES.default, most)

    def measure(self) -> None:
        """Hold publishers, or let them go on."""
        log = self.log
        log.keep_from = lowest(self.groups)
        if log.origins is not None:
            log.origins.passed(log.keep_from)
        for group in self.groups.values():
            was_holding = group.is_holding
            group.judge(log)
            if group.is_holding and not was_holding:
                self.actor.gate.close(self.identity_of(group), REASON)
            elif was_holding and not group.is_holding:
                self.actor.gate.open(self.identity_of(group), REASON)

    def identity_of(self, group: ReaderGroup) -> str:
        """The group's id: `group:NAME@STREAM`."""
        return f"group:{group.name}@{self.actor.identity[6:]}"

    def holder(self) -> str:
        """Why the stream takes nothing, "" while it does."""
        for group in self.groups.values():
            if group.is_holding:
                return REASON
        return ""


class StreamGroupRegistry:
    """Keeps the reader groups of streams where the broker keeps its queues: a row for each.

    A group is on the disk before its readers hear that it is there. Where it is follows lazily, a
    second later at most: after a crash it may be further back than it was, so that more is kept
    than has to be, and never further on.

    found: rows that no stream has claimed yet, by name; moved: groups whose row is behind, with
    those of their stream."""

    __slots__ = ("_clock", "_context", "_dues", "_save", "found", "moved")

    def __init__(self, context: Context) -> None:
        self.found: dict[str, dict[str, object]] = {}
        self.moved: dict[tuple[QueueActor, str], StreamGroups] = {}
        self._context = context
        self._dues = context.dues
        self._clock = context.clock
        self._save = Timer(self._save_due)

    def bring_back(self, queue: QueueActor, groups: StreamGroups) -> None:
        """The stream `queue` has its log: the groups that were kept for it are there again."""
        prefix = f"{queue.queue_id}/"
        for name in [name for name in self.found if name.startswith(prefix)]:
            row = self.found.pop(name)
            bound = LagBound(_number(row, "max_lag_messages"), _number(row, "max_lag_bytes"))
            groups.register(name[len(prefix) :], bound, _number(row, "offset"))

    def ended(self, queue: QueueActor, groups: StreamGroups) -> None:
        """The stream `queue` is deleted, and its groups with it."""
        for name in list(groups.groups):
            self.remove(queue, name)

    # -- changes ---------------------------------------------------------------------------------

    def keep(self, queue: QueueActor, group: ReaderGroup, then: Callable[[], None]) -> None:
        """Write `group` now; `then` is called when it is on the disk."""
        if queue.queue_id == 0:
            then()
            return
        self._write(queue, group)
        self._look(self._context.catalogue.hand_over(), then, 0)

    def note_moved(self, queue: QueueActor, groups: StreamGroups, group: ReaderGroup) -> None:
        """Write where `group` is, when there is time."""
        if queue.queue_id == 0:
            return
        self.moved[(queue, group.name)] = groups
        if self._save.due_ns < 0:
            self._dues.put(self._save, self._clock.monotonic_ns() + SAVE_NS)

    def remove(self, queue: QueueActor, name: str) -> None:
        """The group `name` is no more."""
        self.moved.pop((queue, name), None)
        if queue.queue_id > 0:
            self._context.catalogue.parameter_cleared(
                queue.vhost, COMPONENT, f"{queue.queue_id}/{name}"
            )

    def save_moved(self) -> None:
        """Write all that have moved, if the catalogue has room; the rest a second later."""
        while self.moved and self._context.catalogue.room() >= ROOM_LEAST:
            (queue, name), groups = self.moved.popitem()
            group = groups.groups.get(name)
            if group is not None and queue.is_alive:
                self._write(queue, group)
        if self.moved:
            self._dues.put(self._save, self._clock.monotonic_ns() + SAVE_NS)

    def _save_due(self, now_ns: int) -> None:
        self.save_moved()

    def _look(self, mark: int, then: Callable[[], None], now_ns: int) -> None:
        """Go on with what waits for a row, if the catalogue has what was handed over up to `mark`;
        ask again soon if it has not."""
        if self._context.catalogue.has(mark):
            then()
        else:
            self._dues.put(
                Timer(partial(self._look, mark, then)), self._clock.monotonic_ns() + LOOK_NS
            )

    def _write(self, queue: QueueActor, group: ReaderGroup) -> None:
        row = {
            "offset": int(group.position),
            "max_lag_messages": int(group.own.messages),
            "max_lag_bytes": int(group.own.bytes),
        }
        name = f"{queue.queue_id}/{group.name}"
        self._context.catalogue.parameter_set(queue.vhost, COMPONENT, name, row)


def _number(row: dict[str, object], name: str) -> int:
    value = row.get(name, 0)
    return value if isinstance(value, int) else 0
