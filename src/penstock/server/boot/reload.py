"""What SIGHUP changes: settings that may change while the broker runs, and which may not.

A setting of the file that is a setting of `penstock flow set` is put in force as that does it. The
log, and files of TLS, are taken over by their owners. Everything else waits for a restart, and is
named.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Final

from penstock.base.config import Config

TLS: Final = tuple(
    f"tls_{name}"
    for name in (
        "cert",
        "key",
        "key_password",
        "ca",
        "verify",
        "min_version",
        "ciphers",
        "user_from",
    )
)
LOG: Final = ("log_level", "log_format", "log_file")


def _as_is(value: object) -> str:
    return str(value)


def _ms(value: object) -> str:
    return f"{value}ms" if value else "off"


def _rate(value: object) -> str:
    return f"{value}/s" if value else "off"


def _bytes(value: object) -> str:
    return str(value) if value else "off"


SETTINGS: Final[dict[str, tuple[str, Callable[[object], str]]]] = {
    **{
        f"account_{scope}_high{unit}": (f"account.{scope}.high{unit}", _as_is)
        for scope in ("connection", "user", "vhost", "node")
        for unit in ("", "_messages")
    },
    **{
        f"credit_{hop}{unit}": (f"credit.{hop}{unit}", _as_is)
        for hop in ("connection_channel", "channel_queue", "queue_store")
        for unit in ("", "_bytes")
    },
    "alarm_action": ("alarm.action", _as_is),
    "alarm_mode": ("alarm.mode", _as_is),
    "consumer_timeout_ms": ("consumer.timeout", _ms),
    "disk_free_min": ("disk.free_min", _as_is),
    "memory_high": ("memory.high", _as_is),
    "notify_blocked_ms": ("notify.blocked", _ms),
    "parked_bytes": ("parked.bytes", _as_is),
    "parked_disk_bytes": ("parked.disk_bytes", _as_is),
    "parked_full": ("parked.full", _as_is),
    "parked_node_bytes": ("parked.node_bytes", _as_is),
    "queue_depth_bytes": ("queue.depth", _bytes),
    "rate_burst_ms": ("rate.burst", _ms),
    "rate_connection_bytes": ("rate.connection.bytes", _rate),
    "rate_connection_messages": ("rate.connection.messages", _rate),
    "watchdog_ms": ("credit.watchdog", _ms),
}
"""By key of the file: key of the setting, and how its value is written there."""
OF_A_PROFILE: Final = ("", None)
"""Values that leave the choice to the profile, or are worked out at the start."""


def settings_to_change(before: Config, after: Config) -> tuple[list[tuple[str, str]], list[str]]:
    """The settings that are other ones in `after`, as (key, text), and the keys of the file that
    only a restart changes."""
    wanted: list[tuple[str, str]] = []
    waiting: list[str] = []
    for field in fields(Config):
        value = getattr(after, field.name)
        if value == getattr(before, field.name) or field.name in (*TLS, *LOG):
            continue
        known = SETTINGS.get(field.name)
        if known is None or value in OF_A_PROFILE:
            waiting.append(field.name)
        else:
            wanted.append((known[0], known[1](value)))
    return wanted, waiting


def in_force(before: Config, after: Config) -> Config:
    """What holds after SIGHUP: of `after` what it changes, of `before` what waits for a restart."""
    _, waiting = settings_to_change(before, after)
    return replace(after, **{name: getattr(before, name) for name in waiting})
