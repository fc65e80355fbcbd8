"""Prints packaging/penstock.toml: every key of the configuration file with its default, meaning and
bounds, from penstock.base.config and penstock.base.limits.

Keys are commented out, so the file changes nothing but where a service keeps its things.
"""

import json
import re
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import fields
from fnmatch import fnmatchcase
from typing import Final

from penstock.base.config import Config
from penstock.base.limits import LIMITS, Limit

HEADER: Final = """\
# Settings of `penstock serve --config /etc/penstock/penstock.toml`: every key there is, with its
# default. Printed by `make docs`. Keys may also stand in tables: `[store] sync` is `store_sync`,
# and the same for `[tls]` and `[oauth]`. An unknown key, or a value out of range, refuses to start.
"""
OF_A_SERVICE: Final[Mapping[str, str]] = {
    "data_dir": "/var/lib/penstock",
    "control_socket": "/run/penstock/control.sock",
}
"""Not commented out."""
HEADINGS: Final[Mapping[str, str]] = {
    "host": "Where clients come",
    "tls_cert": "TLS (docs/security.md)",
    "oauth_resource_server_id": "Logins by token (docs/security.md)",
    "profile": "Who the broker is, and how its flow control works (docs/profiles.md)",
    "frame_bytes_max": "What a client may do (docs/limits.md)",
    "recorder_events": "What `penstock why` is answered from",
    "queue_depth_bytes": "Queues (docs/queues.md)",
    "memory_high_bytes": "Memory, disk and alarms (docs/alarms.md, docs/paging.md, docs/store.md)",
    "channel_flow": "What clients are told, and how long they are waited for (docs/clients.md)",
    "credit_connection_channel": "Credit windows and accounts (docs/accounts.md)",
    "rate_connection_messages": "Rates (docs/flow-commands.md)",
    "log_file": "The log; SIGHUP opens its file anew, and reads these three again",
    "events_dir": "Flow events, and the socket of the commands",
}
UNSAID: Final[Mapping[str, str]] = {
    "host": "address to listen on; any but this machine's own needs users, and should have TLS",
    "port": "of connections without TLS, 0 for a free one, -1 for none",
    "tls_port": "of connections with TLS, which there are with tls_cert alone",
    "vhosts": "virtual hosts that are there from the start",
    "product": "what clients are told the broker is; Celery looks at it (docs/celery.md)",
    "product_version": 'of it, "" for the version of Penstock',
}
"""Meanings that Config leaves to the name."""
TABLES: Final[Mapping[str, str]] = {
    "users": 'name = "app"\npassword_hash = "..."   # of `penstock users hash-password`',
    "permissions": 'user = "app"\nvhost = "/"\nconfigure = ""\nwrite = "^orders"\nread = "^orders"',
    "alarm_actions": 'action = "nack"   # block, nack or close\nvhost = "/"\nuser = "app"',
    "parked_full_actions": 'action = "nack"   # stop, nack or close\nvhost = "/"\nuser = "app"',
    "rates": 'user = "app"   # or vhost, or queue\nmessages = 500\nbytes = 1000000',
    "policies": 'name = "short"\npattern = "^logs"\ndefinition = { max-length = 1000 }',
    "operator_policies": 'name = "all"\npattern = ".*"\ndefinition = { max-length = 100000 }',
    "vhost_limits": 'vhost = "/"\nmax-queues = 1000\nmax-connections = 1000',
    "user_limits": 'user = "app"\nmax-channels = 100\nmax-connections = 10',
}
"""Keys that are written as [[tables]], with an example of one."""
WIDTH: Final = 98
_BOUNDS: Final[Mapping[str, Limit]] = {limit.name: limit for limit in LIMITS}


def meanings() -> dict[str, str]:
    """By name, or by pattern of names: what the docstring of Config says."""
    text = " ".join((Config.__doc__ or "").split())
    found: dict[str, str] = dict(UNSAID)
    for part in re.split(r"[;.] ", text):
        named = re.match(r"((?:[a-z_]+\*?(?:_[a-z_]+)?)(?:, [a-z_*]+)*): (.*)", part)
        if named is not None:
            found |= dict.fromkeys(named[1].split(", "), named[2].rstrip("."))
    return found


def meaning_of(key: str, said: Mapping[str, str]) -> str:
    """One line for people; bounds that have a row in the table of limits speak for themselves."""
    text = said.get(key) or next((said[one] for one in said if fnmatchcase(key, one)), "")
    text = "" if text.startswith("see ") else text
    limit = _BOUNDS.get(key)
    if limit is not None:
        bounds = f"{limit.unit}, {limit.lowest}..{limit.highest}; at the bound: {limit.at_bound}"
        text = f"{text}; {bounds}" if text else bounds
    return text


def value_of(value: object) -> str:
    """As TOML."""
    if isinstance(value, Mapping):
        return "{}"
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def page() -> str:
    """The whole file; the same Config gives the same text."""
    said = meanings()
    lines = [HEADER]
    default = Config()
    for field in fields(Config):
        key = field.name
        if key in HEADINGS:
            lines.append(f"\n# -- {HEADINGS[key]} {'-' * (WIDTH - 6 - len(HEADINGS[key]))}\n")
        if key in TABLES:
            continue
        lines += [f"# {line}" for line in textwrap.wrap(meaning_of(key, said), WIDTH - 2)]
        set_here = OF_A_SERVICE.get(key)
        value = value_of(getattr(default, key) if set_here is None else set_here)
        lines.append(f"{'#' if set_here is None else ''}{key} = {value}\n")
    lines.append(f"\n# -- Tables, at the end of the file {'-' * (WIDTH - 36)}\n")
    for key, example in TABLES.items():
        lines += [f"# {line}" for line in textwrap.wrap(meaning_of(key, said), WIDTH - 2)]
        lines += [f"#[[{key}]]", *(f"#{line}" for line in example.splitlines()), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(page())
