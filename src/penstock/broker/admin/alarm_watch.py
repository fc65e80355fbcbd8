"""From what the machine says of memory and disk to alarms: read, compare, decide whom to stop.

    memory   once a second; at once when its mark is changed (scenario 63), and when a quarter of
             the room to the next mark has been read from clients
    disk     as often as the room that is left asks for (scenario 75), and when the stores have
             written half of it (F18)
Memory that only waits to be given back is no reason to stop a publisher: before an alarm is set,
and while it lasts, the machine is asked to reclaim, but not for a mark of 0, which no reclaiming
meets (flow-semantics 11.2); and within a minute after most of what the process held is gone. The
tighter of two gauges counts: this process against the mark, or its whole control group against the
group's own limit, at which the kernel kills. A disk that cannot be read sets no alarm and ends
none; it is tried again and said once (F19).
"""

import math
from collections.abc import Mapping
from typing import Final

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.broker.admin.answers import AlarmRow
from penstock.broker.alarm.alarm_manager import (
    DISK,
    MEMORY,
    MODE_ALL,
    MODE_TARGETED,
    NODE,
    RESOURCES,
    AlarmManager,
    ResourceLevel,
    one,
    pair,
)
from penstock.broker.alarm.alerts import FORECAST
from penstock.broker.broker import Broker
from penstock.broker.connection.phases import PHASE_OPEN
from penstock.broker.settings.settings import Setting, Settings
from penstock.flow.due import Timer
from penstock.flow.targeting import ALL, NOBODY, SOME, STEP_NS, Holder, MemoryShares
from penstock.flow.watermark import (
    POLL_MS_MAX,
    Ceiling,
    Floor,
    Pace,
    Trend,
    next_look_ms,
    parse_ceiling,
    parse_floor,
)
from penstock.telemetry.words import duration, size

DEFAULT_MARK: Final = "40%"
GROUP_SHARE: Final = (9, 10)
"""Of its control group's limit, above which the whole group is too close to being killed."""
FORECAST_S: Final = 900
FORECAST_PAUSE_NS: Final = 600_000_000_000

LEFT_BYTES: Final = 67_108_864
LEFT_SHARE: Final = 4
"""What a backlog has left is given back when it is more than LEFT_BYTES, and LEFT_SHARE times what
messages hold."""
QUEUE_BYTES: Final = 4_096
"""What a queue takes without its messages, about: nothing that a backlog has left."""
GROWTH_BYTES: Final = 1_048_576
"""More than this since the last look is growth."""
GIVE_BACK_NS: Final = 20_000_000_000
GIVE_BACK_SELDOM_NS: Final = 300_000_000_000


class MachineProbe:
    """What the watch asks of the machine. Nominal base; the server's is real, tests state values.

    disk_dir: for people."""

    disk_dir = ""

    def memory_total_bytes(self) -> int:
        """What this process may use at most: its control group's limit or the whole machine."""
        raise NotImplementedError

    def memory_used_bytes(self) -> int:
        """What this process uses, and others of the same node."""
        raise NotImplementedError

    def others_bytes(self) -> list[int]:
        """Of that, what each of the others has come to use beside what any has from the start."""
        return []

    def group_bytes(self) -> tuple[int, int]:
        """Used by the control group, without what the kernel can drop, and its limit; (0, 0)
        without one."""
        raise NotImplementedError

    def reclaim(self, looks: bool = True) -> None:
        """Give back memory that is no longer used. looks: also what only refers to one another."""

    def disk_free_bytes(self) -> int:
        """Free for this process. Raises: OSError."""
        raise NotImplementedError

    def reserve_missing_bytes(self) -> int:
        """What the reserve file would take that is not there now."""
        return 0

    def keep_reserve(self) -> None:
        """Make the reserve file, if it is wanted and not there."""

    def give_up_reserve(self) -> None:
        """Remove the reserve file."""

    def changed(self) -> None:
        """Actors may have work now."""


class AlarmWatch:
    """Owner of the marks of one broker. Raises: OperatorError for a mark or mode that is none."""

    def __init__(self, broker: Broker, around: MachineProbe) -> None:
        config = broker.config
        self.broker = broker
        self.manager = broker.alarm_manager
        self.around = around
        # RabbitMQ's own profiles have no band and stop everybody, as RabbitMQ does.
        self.has_band = broker.profile.is_parking
        self.total_bytes = around.memory_total_bytes()
        self.memory_text = memory_text(config)
        self.memory_mark = memory_mark_bytes(config, self.total_bytes)
        self.disk_text = config.disk_free_min
        self.floor = Floor(
            _of("disk_free_min", self.disk_text, parse_floor, self.total_bytes), self.has_band
        )
        self.shares = MemoryShares()
        self.stage = NOBODY
        self.waiting_count = 0
        self.step_ns = 0
        self.step = Timer(self._step)
        self.trend = Trend()
        self.drained = Pace()
        self.give_back_ns = 0
        self.used_before = 1 << 62
        self.queues_before = 0
        self.is_disk_unreadable = False
        self.told_forecast_ns = -FORECAST_PAUSE_NS
        broker.stores.meter.look = self.check_disk
        broker.context.intake.look = self._look_early
        self.set_mode(config.alarm_mode or (MODE_TARGETED if self.has_band else MODE_ALL))

    # -- changes ---------------------------------------------------------------------------------

    def set_memory_high(self, text: str) -> None:
        """Another mark, in force at once and without the old one's band. Raises: OperatorError."""
        self.memory_mark = parse_ceiling(text, self.total_bytes)
        self.memory_text = text.strip()
        self._check_memory(False)
        self.around.changed()

    def set_disk_free_min(self, text: str) -> None:
        """Another mark, in force at once. Raises: OperatorError."""
        self.floor = Floor(parse_floor(text, self.total_bytes), self.has_band)
        self.disk_text = text.strip()
        self._check_disk(False)
        self.around.changed()

    def set_mode(self, text: str) -> None:
        """`targeted` or `all`. Raises: OperatorError."""
        stripped = text.strip()
        if stripped not in (MODE_TARGETED, MODE_ALL):
            raise OperatorError(
                f"alarm mode '{text}' is unknown; one of: {MODE_TARGETED}, {MODE_ALL}"
            )
        self.manager.mode = stripped
        if self.manager.is_own(MEMORY):
            self.check_memory()
            self.around.changed()

    # -- memory ----------------------------------------------------------------------------------

    def check_memory(self) -> None:
        """Once a second."""
        self._check_memory(self.manager.is_own(MEMORY))

    def _look_early(self) -> None:
        """Much has come in since the last look."""
        self.check_memory()
        self.around.changed()

    def _step(self, now_ns: int) -> None:
        """Time to let the next ones on."""
        self.check_memory()
        self.around.changed()

    def _check_memory(self, was_set: bool) -> None:
        ceiling = self._measure()
        used = self.broker.memory_used_bytes
        is_forced = ceiling.limit_bytes == 0
        if not is_forced and (was_set or ceiling.is_set(was_set, used)):
            self.around.reclaim()
            ceiling = self._measure()
            used = self.broker.memory_used_bytes
        is_set = ceiling.is_set(was_set, used)
        now_ns = self.broker.clock.monotonic_ns()
        self.trend.add(now_ns, used)
        taken = int(self.broker.scheduler.outputs.delivered_bytes)
        self.manager.drained_per_s = self.drained.per_second(now_ns, taken)
        if is_set:
            self.manager.memory_alarm_in_s = 0.0
            self._set_memory(ceiling, used)
        elif not was_set or not self._is_letting_on(ceiling, used, now_ns):
            self.stage = NOBODY
            self.waiting_count = 0
            own = self._own_bytes()
            self.shares.rest(own)
            self.manager.clear(MEMORY)
            self._forecast(ceiling.limit_bytes, now_ns)
            self._give_back(own, now_ns)
        self._allow(ceiling, used)

    def _own_bytes(self) -> int:
        return self.broker.memory_used_bytes - sum(self.around.others_bytes())

    def _give_back(self, used: int, now_ns: int) -> None:
        """Return what a backlog that is gone has left behind, well before any mark: only where that
        is most of what the process uses, because looking for it takes time that grows with what is
        held. Where it gives nothing back it is asked less often."""
        if now_ns < self.give_back_ns or self.shares.lowest_bytes < 0:
            return
        queues = sum(len(vhost.queues) for vhost in self.broker.vhosts.values())
        is_busy = used > self.used_before + GROWTH_BYTES or queues < self.queues_before
        self.used_before = used
        self.queues_before = queues
        if is_busy:
            # What grows is in use, if not by messages, and queues that end, by the hundred thousand
            # say, give back what they had themselves.
            return
        held = self.broker.node_account.memory_bytes()
        left = used - self.shares.lowest_bytes - held - queues * QUEUE_BYTES
        if left < LEFT_BYTES or left < LEFT_SHARE * held:
            return
        # Messages and connections go by themselves, and leave nothing that has to be looked for.
        self.around.reclaim(False)
        self._measure()
        is_useful = (used - self._own_bytes()) * LEFT_SHARE > left
        self.give_back_ns = now_ns + (GIVE_BACK_NS if is_useful else GIVE_BACK_SELDOM_NS)

    def _set_memory(self, ceiling: Ceiling, used: int) -> None:
        """The alarm is set, or lasts."""
        before = self.stage
        self.waiting_count = 0
        named = self._named(ceiling, used)
        share = pair(used, ceiling.limit_bytes)
        text = f"{share} used, clears below {one(ceiling.clear_bytes)}"
        if ceiling.limit_bytes == 0:
            text = "the mark is 0, which stops all publishing until it is changed"
        self.manager.set(MEMORY, text, named)
        if before == SOME and self.stage == ALL:
            self.broker.log.warning(f"memory alarm: {share} used; {self.manager.who(MEMORY)}")

    def _allow(self, ceiling: Ceiling, used: int) -> None:
        """How much clients may send before memory is looked at again."""
        limit = ceiling.limit_bytes
        if not self.has_band or limit == 0 or self.stage == ALL:
            self.broker.context.intake.allow(-1)
        else:
            # Above the mark the fair level falls fast: a hundredth of the mark is looked at.
            self.broker.context.intake.allow(max(limit - used, limit // 25))

    def _measure(self) -> Ceiling:
        """Read both gauges; the tighter one is the level from now on."""
        used, limit = self.around.memory_used_bytes(), self.memory_mark
        group_used, group_limit = self.around.group_bytes()
        group_mark = max(limit, group_limit * GROUP_SHARE[0] // GROUP_SHARE[1])
        if group_limit > 0 and group_used * limit > used * group_mark:
            used, limit = group_used, group_mark
        ceiling = Ceiling(limit, self.has_band)
        self.broker.context.memory_used_bytes = used
        self.broker.memory_high_bytes = limit
        self.manager.levels[MEMORY] = ResourceLevel(used, limit, ceiling.clear_bytes)
        return ceiling

    def _named(self, ceiling: Ceiling, used: int) -> frozenset[str] | None:
        """The connections to be stopped, None for all."""
        holders, left = self._holders()
        shares = self.shares
        limit, clear = ceiling.limit_bytes, ceiling.clear_bytes
        shares.look(holders, left, used, limit, clear, self.around.others_bytes())
        is_targeted = self.manager.mode == MODE_TARGETED
        self.stage = shares.stage(is_targeted, limit, self.stage)
        if self.stage == ALL:
            return None
        before = self.manager.named(MEMORY)
        return shares.above(before) if shares.room_bytes > 0 else before

    def _is_letting_on(self, ceiling: Ceiling, used: int, now_ns: int) -> bool:
        """The alarm is over but for those that are let on one after the other; False when none is
        left. All at once, their sockets full, they would soon be at the mark again."""
        manager = self.manager
        if self.stage == NOBODY or manager.mode != MODE_TARGETED or not self.has_band:
            return False
        holders, left = self._holders()
        shares = self.shares
        limit, clear = ceiling.limit_bytes, ceiling.clear_bytes
        shares.look(holders, left, used, limit, clear, self.around.others_bytes())
        waiting = manager.named(MEMORY)
        if self.stage == ALL:
            # Those who held little when all were stopped had no part in it.
            mean = sum(shares.weights.values()) // max(1, len(shares.weights))
            waiting = frozenset(name for name, one in shares.weights.items() if one >= max(1, mean))
            self.stage = SOME
        else:
            waiting &= shares.weights.keys()
        waiting = shares.not_below(waiting)
        if now_ns >= self.step_ns:
            self.waiting_count = self.waiting_count or len(waiting)
            waiting -= shares.next_on(waiting, limit - used, self.waiting_count)
            self.step_ns = now_ns + STEP_NS
            self.broker.context.dues.put(self.step, self.step_ns)
        if not waiting:
            return False
        manager.stop_only(MEMORY, waiting)
        return True

    def fair_share_bytes(self) -> int:
        """What one publishing connection may hold without being stopped first, bytes of memory, as
        of the last look under an alarm."""
        return self.shares.level()

    def _holders(self) -> tuple[list[Holder], dict[str, int]]:
        """Open connections that publish, and by user what ended ones left behind."""
        holders = []
        left: dict[str, int] = {}
        for connection in self.broker.connections.values():
            if connection.phase != PHASE_OPEN:
                continue
            if connection.receive_count == 0 and connection.unfinished.bytes == 0:
                continue
            account = connection.account
            held = account.memory_bytes()
            user = account.parent
            name = "" if user is None else user.name
            holders.append(Holder(connection.name, name, held))
            if user is not None and name not in left:
                left[name] = sum(
                    page.memory_bytes() for page in user.children.values() if page.is_closed
                )
        return holders, left

    def _forecast(self, limit: int, now_ns: int) -> None:
        """Say once in a while that an alarm is coming, while there is time to do something."""
        seconds = self.trend.seconds_until(limit)
        self.manager.memory_alarm_in_s = seconds if seconds >= 0 else math.inf
        is_near = 0 <= seconds <= FORECAST_S and self.broker.memory_used_bytes * 2 > limit
        if not is_near or now_ns - self.told_forecast_ns < FORECAST_PAUSE_NS:
            return
        self.told_forecast_ns = now_ns
        rise = size(self.trend.per_second())
        biggest = self.manager.biggest()
        line = (
            f"forecast: memory watermark ({one(limit)}) in ~{duration(round(seconds * 1e9))} at "
            f"+{rise}/s{biggest}"
        )
        self.broker.log.warning(line)
        self.manager.tell(FORECAST, line)

    # -- disk ------------------------------------------------------------------------------------

    def check_disk(self) -> int:
        """Look at the disk; milliseconds until the next look."""
        return self._check_disk(self.manager.is_own(DISK))

    def _check_disk(self, was_set: bool) -> int:
        around = self.around
        stores = self.broker.stores
        spare_bytes = stores.spare_bytes()
        try:
            free = around.disk_free_bytes()
        except OSError as error:
            if not self.is_disk_unreadable:
                self.is_disk_unreadable = True
                self.broker.log.warning(
                    f"cannot read the free space of {around.disk_dir}: {error}; no disk alarm is "
                    f"set or ended until it can be; tried again every {POLL_MS_MAX // 1000} s"
                )
            stores.meter.allow(-1)
            return POLL_MS_MAX
        self.is_disk_unreadable = False
        # A reserve that was given up is still wanted: without this it would end its own alarm.
        free = max(0, free - around.reserve_missing_bytes())
        floor = self.floor
        # What stores only keep to write over goes before a publisher is stopped for it.
        stores.keep_spares(free >= floor.clear_bytes)
        free += spare_bytes
        self.manager.levels[DISK] = ResourceLevel(free, floor.limit_bytes, floor.clear_bytes)
        is_set = floor.is_set(was_set, free)
        if is_set:
            share = pair(free, floor.limit_bytes)
            text = f"{share} free in {around.disk_dir}, clears above {one(floor.clear_bytes)}"
            self.manager.set(DISK, text)
            around.give_up_reserve()
        else:
            self.manager.clear(DISK)
            around.keep_reserve()
        is_watched = floor.limit_bytes > 0 and not is_set
        stores.meter.allow(free - floor.limit_bytes if is_watched else -1)
        return next_look_ms(free, floor.limit_bytes, is_set)


def memory_text(config: Config) -> str:
    """The memory mark as it is configured."""
    return config.memory_high or str(config.memory_high_bytes or DEFAULT_MARK)


def memory_mark_bytes(config: Config, total_bytes: int) -> int:
    """The memory mark of a process that may use `total_bytes`. Raises: OperatorError."""
    return _of("memory_high", memory_text(config), parse_ceiling, total_bytes)


def _of(key: str, text: str, parse: object, total_bytes: int) -> int:
    assert callable(parse), "one of the two parsers"
    try:
        return int(parse(text, total_bytes))
    except OperatorError as error:
        raise OperatorError(f"{key}: {error}") from error


def offer(settings: Settings, watch: AlarmWatch) -> None:
    """Add all four to `settings`."""
    settings.add(
        Setting(
            "memory.high",
            "share or size",
            "memory above it stops publishing: 40%, 0.4 or 1.5GB; 0 stops all publishing",
            lambda: watch.memory_text,
            watch.set_memory_high,
        ),
        Setting(
            "disk.free_min",
            "size or mem:FACTOR",
            "free disk space below it stops publishing: 50MB, 2TB or mem:1.0; 0 switches it off",
            lambda: watch.disk_text,
            watch.set_disk_free_min,
        ),
        Setting(
            "alarm.mode",
            "targeted or all",
            "whom a memory alarm stops: connections above their fair share first, or all at once",
            lambda: watch.manager.mode,
            watch.set_mode,
        ),
        Setting(
            "alarm.action",
            "block, nack or close",
            "what an alarm does to a publish, where no row of alarm_actions says otherwise",
            lambda: watch.manager.actions.default,
            watch.manager.change_action,
        ),
    )


def alarm_rows(manager: AlarmManager, names: Mapping[str, str]) -> list[AlarmRow]:
    """Both resources of this node, set or not, and whatever other nodes have set. names: what
    connections are called, by address."""
    rows = []
    for resource in RESOURCES:
        where = manager.alarms.where(resource)
        stopped = [names.get(name, name) for name in manager.stopped(resource)]
        for node in (NODE, *(name for name in where if name != NODE)):
            is_set = node in where
            level = manager.levels.get(resource) if node == NODE else None
            rows.append(
                AlarmRow(
                    resource,
                    node,
                    is_set,
                    manager.set_for_ns(resource) if is_set else 0,
                    None if level is None else level.now_bytes,
                    None if level is None else level.limit_bytes,
                    None if level is None else level.clear_bytes,
                    stopped if is_set else [],
                    manager.mode_of(resource),
                    manager.actions.default,
                )
            )
    return rows
