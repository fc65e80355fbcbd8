"""The marks, the mode and the action of alarms as settings of a running broker."""

from penstock.broker.admin.alarm_watch import AlarmWatch
from penstock.broker.settings.settings import Setting, Settings


class MemoryHigh(Setting):
    """memory.high"""

    __slots__ = ("watch",)

    def __init__(self, watch: AlarmWatch) -> None:
        super().__init__(
            "memory.high",
            "share or size",
            "memory above it stops publishing: 40%, 0.4 or 1.5GB; 0 stops all publishing",
        )
        self.watch = watch

    def read(self) -> str:
        return self.watch.memory_text

    def write(self, text: str) -> None:
        self.watch.set_memory_high(text)


class DiskFreeMin(Setting):
    """disk.free_min"""

    __slots__ = ("watch",)

    def __init__(self, watch: AlarmWatch) -> None:
        super().__init__(
            "disk.free_min",
            "size or mem:FACTOR",
            "free disk space below it stops publishing: 50MB, 2TB or mem:1.0; 0 switches it off",
        )
        self.watch = watch

    def read(self) -> str:
        return self.watch.disk_text

    def write(self, text: str) -> None:
        self.watch.set_disk_free_min(text)


class AlarmMode(Setting):
    """alarm.mode"""

    __slots__ = ("watch",)

    def __init__(self, watch: AlarmWatch) -> None:
        super().__init__(
            "alarm.mode",
            "targeted or all",
            "whom a memory alarm stops: connections above their fair share first, or all at once",
        )
        self.watch = watch

    def read(self) -> str:
        return self.watch.desk.mode

    def write(self, text: str) -> None:
        self.watch.set_mode(text)


class AlarmActionSetting(Setting):
    """alarm.action"""

    __slots__ = ("watch",)

    def __init__(self, watch: AlarmWatch) -> None:
        super().__init__(
            "alarm.action",
            "block, nack or close",
            "what an alarm does to a publish, where no row of alarm_actions says otherwise",
        )
        self.watch = watch

    def read(self) -> str:
        return self.watch.desk.actions.default

    def write(self, text: str) -> None:
        self.watch.desk.change_action(text)


def offer(settings: Settings, watch: AlarmWatch) -> None:
    """Add all four to `settings`."""
    settings.add(MemoryHigh(watch))
    settings.add(DiskFreeMin(watch))
    settings.add(AlarmMode(watch))
    settings.add(AlarmActionSetting(watch))
