"""The reader groups of one stream, and whom they hold: see streams/reader_groups.

While a group is too far behind, the stream's gate is closed in its name: grants are deferred, so
publishers wait, with confirms or without. It opens again when the group has caught up, or is gone.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.base.errors import ChannelFault
from penstock.base.limits import STREAM_GROUP_LAG_BYTES, STREAM_GROUPS, STREAM_MEMORY_BYTES
from penstock.broker.actors.actor import Actor
from penstock.streams.log import StreamLog
from penstock.streams.origins import Origins
from penstock.streams.reader_groups import LagBound, ReaderGroup, lowest

REASON: Final = "lag"


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
