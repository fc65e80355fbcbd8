"""The marks, the mode and the action of alarms as settings of a running broker."""

from penstock.broker.admin.alarm_watch import AlarmWatch
from penstock.broker.settings.settings import Setting, Settings


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
            lambda: watch.desk.mode,
            watch.set_mode,
        ),
        Setting(
            "alarm.action",
            "block, nack or close",
            "what an alarm does to a publish, where no row of alarm_actions says otherwise",
            lambda: watch.desk.actions.default,
            watch.desk.change_action,
        ),
    )
