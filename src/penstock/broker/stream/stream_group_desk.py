"""Keeps the reader groups of streams where the broker keeps its queues: a row for each.

A group is on the disk before its readers hear that it is there. Where it is follows lazily, a
second later at most: after a crash it may be further back than it was, so that more is kept than
has to be, and never further on.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.broker.stream.stream_actor import StreamActor, StreamGroupKeeper
from penstock.broker.stream.stream_groups import StreamGroups
from penstock.broker.vhost.context import Context
from penstock.flow.due import Timer
from penstock.streams.reader_groups import LagBound, ReaderGroup

COMPONENT: Final = "stream-group"
SAVE_NS: Final = 1_000_000_000
LOOK_NS: Final = 2_000_000
"""How soon the catalogue is asked again whether it has a row; mostly it has it by then."""
ROOM_LEAST: Final = 100
"""Positions are not written while the catalogue has room for fewer changes than this."""


class StreamGroupDesk(StreamGroupKeeper):
    """found: rows that no stream has claimed yet, by name; moved: groups whose row is behind."""

    def __init__(self, context: Context) -> None:
        self.found: dict[str, dict[str, object]] = {}
        self.moved: dict[tuple[StreamActor, str], None] = {}
        self._context = context
        self._dues = context.dues
        self._clock = context.clock
        self._save = Timer(self._save_due)

    def bring_back(self, actor: StreamActor, groups: StreamGroups) -> None:
        prefix = f"{actor.queue_id}/"
        for name in [name for name in self.found if name.startswith(prefix)]:
            row = self.found.pop(name)
            bound = LagBound(_number(row, "max_lag_messages"), _number(row, "max_lag_bytes"))
            groups.register(name[len(prefix) :], bound, _number(row, "offset"))

    def ended(self, actor: StreamActor, groups: StreamGroups) -> None:
        for name in list(groups.groups):
            self.remove(actor, name)

    # -- changes ---------------------------------------------------------------------------------

    def keep(self, actor: StreamActor, group: ReaderGroup, then: Callable[[], None]) -> None:
        """Write `group` now; `then` is called when it is on the disk."""
        if actor.queue_id == 0:
            then()
            return
        self._write(actor, group)
        self._look(self._context.catalogue.hand_over(), then, 0)

    def note_moved(self, actor: StreamActor, group: ReaderGroup) -> None:
        """Write where `group` is, when there is time."""
        if actor.queue_id == 0:
            return
        self.moved[(actor, group.name)] = None
        if self._save.due_ns < 0:
            self._dues.put(self._save, self._clock.monotonic_ns() + SAVE_NS)

    def remove(self, actor: StreamActor, name: str) -> None:
        """The group `name` is no more."""
        self.moved.pop((actor, name), None)
        if actor.queue_id > 0:
            self._context.catalogue.parameter_cleared(
                actor.vhost, COMPONENT, f"{actor.queue_id}/{name}"
            )

    def save_moved(self) -> None:
        """Write all that have moved, if the catalogue has room; the rest a second later."""
        while self.moved and self._context.catalogue.room() >= ROOM_LEAST:
            actor, name = self.moved.popitem()[0]
            groups = actor.groups
            group = None if groups is None else groups.groups.get(name)
            if group is not None and actor.is_alive:
                self._write(actor, group)
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

    def _write(self, actor: StreamActor, group: ReaderGroup) -> None:
        row = {
            "offset": int(group.position),
            "max_lag_messages": int(group.own.messages),
            "max_lag_bytes": int(group.own.bytes),
        }
        name = f"{actor.queue_id}/{group.name}"
        self._context.catalogue.parameter_set(actor.vhost, COMPONENT, name, row)


def _number(row: dict[str, object], name: str) -> int:
    value = row.get(name, 0)
    return value if isinstance(value, int) else 0
