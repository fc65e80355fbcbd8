r"""Settings from a TOML file: unknown keys, wrong types and values out of range refuse to start.

host = "127.0.0.1"        port = 5672        profile = "penstock"
[store]                   sync = "always"    sync_interval_ms = 200
[tls]                     cert = "server.pem"               key = "server.key"
[cluster]                 coordinator = "http://e1:2379"    node = "a"
[oauth]                   resource_server_id = "orders"     jwks_file = "keys.json"
[[users]]                 name = "app"       password = "..."
[[permissions]]           user = "app"       configure = ""      write = "^orders"   read = ""
[[topic_permissions]]     user = "app"       exchange = "amq.topic"  write = "^app\."  read = ""
[[rates]]                 user = "app"       messages = 500      bytes = 1000000
[[policies]]              name = "short"     pattern = "^logs"   definition = { max-length = 1000 }
"""

import difflib
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from penstock.base.config import (
    AlarmAction,
    Config,
    EntryLimits,
    PermissionConfig,
    RateRow,
    TopicPermissionConfig,
    UserConfig,
)
from penstock.base.errors import OperatorError
from penstock.base.limits import LIMITS, RATE_CONNECTION_MESSAGES
from penstock.base.policy import Policy, policy_from
from penstock.broker.session.passwords import ARGON2, SHA256, hash_fault
from penstock.broker.vhost.rights import (
    READ,
    RIGHTS,
    WRITE,
    Permission,
    TopicPermission,
    check_permission,
    check_topic_permission,
)

_BOUNDS = {limit.name: limit for limit in LIMITS}
_PARTS = ("cluster", "oauth", "store", "tls")
_SECRETS = ("password", "password_hash")
_MARKS = ("memory_high", "disk_free_min")
"""Texts that may be written as numbers: bytes, or a share of memory."""
_PORTS = {"port": -1, "tls_port": -1, "management_port": 1, "metrics_port": -1}
"""The lowest value of each: -1 for none of it."""
_PORT_MAX = 65_535
_HOSTS = ("host", "management_host")


def read_config(path: str) -> Config:
    """The settings in `path`. Raises: OperatorError naming the file, the key and the fix."""
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise OperatorError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OperatorError(f"{path} is not TOML: {error}") from error
    return config_from(path, data)


def config_from(path: str, data: dict[str, object]) -> Config:
    """The settings in `data`, which was read from `path`. Raises: OperatorError as above."""
    known = {one.name: one for one in fields(Config)}
    readers: dict[str, Callable[[str, str, object], object]] = {
        "users": _users,
        "permissions": _permissions,
        "topic_permissions": _topic_permissions,
        "alarm_actions": _alarm_actions,
        "parked_full_actions": _alarm_actions,
        "rates": _rates,
        "policies": _policies,
        "operator_policies": _policies,
        "vhost_limits": _entry_limits,
        "user_limits": _entry_limits,
        "vhosts": _names,
        "oauth_algorithms": _names,
        "oauth_preferred_username_claims": _names,
        "oauth_scope_aliases": _aliases,
    }
    default = Config()
    values: dict[str, object] = {}
    for key, value in _flat(path, data).items():
        if key not in known:
            raise OperatorError(f"{path}: unknown key '{key}'; {_meant(key, known)}")
        if key in readers:
            values[key] = readers[key](path, key, value)
        else:
            values[key] = _checked(path, key, value, getattr(default, key))
    return Config(**values)  # type: ignore[arg-type]  # each value was checked against its default


def check_places(where: str, given: dict[str, object]) -> None:
    """The addresses and ports among settings that no file has. where: that has them. Raises:
    OperatorError."""
    default = Config()
    for key, value in given.items():
        if key in _PORTS or key in _HOSTS:
            _checked(where, key, value, getattr(default, key))


def _meant(key: str, known: Iterable[str]) -> str:
    """Which of the `known` keys an unknown one may stand for: those written alike, or else those
    of its table, or those that begin with the same word, or all."""
    table = next((f"{part}_" for part in _PARTS if key.startswith(f"{part}_")), "")
    names = sorted(one.removeprefix(table) for one in known if one.startswith(table))
    close = difflib.get_close_matches(key.removeprefix(table), names, 3, 0.7)
    if close:
        return f"did you mean {' or '.join(table + one for one in close)}?"
    word = key.split("_", 1)[0] + "_"
    some = names if table else [one for one in names if one.startswith(word)]
    return f"known: {', '.join(table + one for one in some or names)}"


def _flat(path: str, data: dict[str, object]) -> dict[str, object]:
    """`[store] sync` is another way to write `store_sync`, and `[tls] cert` of `tls_cert`."""
    flat: dict[str, object] = {}
    for key, value in data.items():
        found = {key: value}
        if key in _PARTS:
            if not isinstance(value, dict):
                raise OperatorError(f"{path}: {key} must be written as a [{key}] table")
            found = {f"{key}_{name}": one for name, one in value.items()}
        for name, one in found.items():
            if name in flat:
                raise OperatorError(f"{path}: {name} is given twice, once in a table")
            flat[name] = one
    return flat


def _checked(path: str, key: str, value: object, default: object) -> object:
    if key in _MARKS and type(value) in (int, float):
        return str(value)
    if type(default) is float and type(value) is int:
        return float(value)
    if type(value) is not type(default):
        raise OperatorError(
            f"{path}: {key} = {value!r} must be of type {type(default).__name__}, as {default!r} is"
        )
    if key in _HOSTS and value == "":
        raise OperatorError(
            f"{path}: {key} is empty; write 127.0.0.1, or 0.0.0.0 or :: for every address there is"
        )
    lowest = _PORTS.get(key)
    if lowest is not None and isinstance(value, int) and not lowest <= value <= _PORT_MAX:
        raise OperatorError(f"{path}: {key} = {value} is not within {lowest}..{_PORT_MAX}")
    limit = _BOUNDS.get(key)
    is_number = limit is not None and isinstance(value, int)
    if limit is not None and is_number and not limit.lowest <= int(str(value)) <= limit.highest:
        raise OperatorError(
            f"{path}: {key} = {value} is not within {limit.lowest}..{limit.highest} {limit.unit}"
        )
    return value


def _names(path: str, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise OperatorError(f"{path}: {key} must be a list of strings")
    return tuple(value)


def _aliases(path: str, key: str, value: object) -> dict[str, tuple[str, ...]]:
    """Scopes by alias: a list, or a text with spaces between them."""
    if not isinstance(value, dict):
        raise OperatorError(f"{path}: {key} must be a table, alias = ['scope', 'scope']")
    return {
        alias: tuple(one.split()) if isinstance(one, str) else _names(path, f"{key}.{alias}", one)
        for alias, one in value.items()
    }


def _tables(path: str, key: str, value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise OperatorError(f"{path}: {key} must be written as [[{key}]] tables")
    return value


def _expect(path: str, what: str, table: dict[str, Any], known: set[str]) -> None:
    """Nothing but the `known` keys."""
    unknown = sorted(set(table) - known)
    if unknown:
        raise OperatorError(f"{path}: {what} has unknown key '{unknown[0]}'")


def _alarm_actions(path: str, key: str, value: object) -> tuple[AlarmAction, ...]:
    """Whether an action is one is said by who takes it, of every way to give it."""
    rows = []
    table = f"an [[{key}]] table"
    for one in _tables(path, key, value):
        if not all(isinstance(text, str) for text in one.values()):
            raise OperatorError(f"{path}: {table} holds strings only")
        _expect(path, table, one, {"action", "vhost", "user"})
        if "action" not in one:
            raise OperatorError(f"{path}: {table} has no action")
        rows.append(AlarmAction(one["action"], one.get("vhost", ""), one.get("user", "")))
    return tuple(rows)


def _rates(path: str, key: str, value: object) -> tuple[RateRow, ...]:
    """Each table names one of user, vhost or queue, and messages, bytes or both."""
    rows = []
    for table in _tables(path, key, value):
        _expect(path, "a [[rates]] table", table, {"user", "vhost", "queue", "messages", "bytes"})
        scopes = [scope for scope in ("user", "vhost", "queue") if scope in table]
        if len(scopes) != 1 or not isinstance(table[scopes[0]], str):
            raise OperatorError(
                f"{path}: a [[rates]] table names one of user, vhost or queue (a string), "
                "for example queue = '/orders' or user = '*'"
            )
        limits = [table[unit] for unit in ("messages", "bytes") if unit in table]
        highest = RATE_CONNECTION_MESSAGES.highest
        if not limits or not all(type(one) is int and 1 <= one <= highest for one in limits):
            raise OperatorError(
                f"{path}: the [[rates]] table of {scopes[0]} '{table[scopes[0]]}' needs messages, "
                f"bytes or both, 1..{highest} a second"
            )
        pattern = table[scopes[0]]
        rows.append(RateRow(scopes[0], pattern, table.get("messages", 0), table.get("bytes", 0)))
    return tuple(rows)


def _policies(path: str, key: str, value: object) -> tuple[Policy, ...]:
    """What a policy may say is said by broker/policy/policies, of every way to give one."""
    policies: dict[tuple[str, str], Policy] = {}
    for one in _tables(path, key, value):
        try:
            policy = policy_from(one)
        except OperatorError as error:
            raise OperatorError(f"{path}: a [[{key}]] table: {error}") from error
        if (policy.vhost, policy.name) in policies:
            raise OperatorError(
                f"{path}: two [[{key}]] tables are called '{policy.name}' in vhost "
                f"'{policy.vhost}'; give each a name of its own"
            )
        policies[policy.vhost, policy.name] = policy
    return tuple(policies.values())


def _entry_limits(path: str, key: str, value: object) -> tuple[EntryLimits, ...]:
    """Each table names its vhost or user. See broker/session/entry_limits."""
    kind = key.removesuffix("_limits")
    rows = []
    for one in _tables(path, key, value):
        name = one.get(kind)
        if not isinstance(name, str):
            raise OperatorError(f"{path}: every [[{key}]] table names its {kind}, a string")
        rows.append(EntryLimits(kind, name, {k: v for k, v in one.items() if k != kind}))
    return tuple(rows)


def _users(path: str, key: str, value: object) -> tuple[UserConfig, ...]:
    users: list[UserConfig] = []
    for one in _tables(path, key, value):
        if not isinstance(one.get("name"), str):
            raise OperatorError(f"{path}: every [[users]] table needs a name")
        user = f"user '{one['name']}'"
        if any(one["name"] == other.name for other in users):
            raise OperatorError(f"{path}: {user} is given twice")
        _expect(path, user, one, {*_SECRETS, "name", "is_loopback_only", "tags"})
        given = [key for key in _SECRETS if one.get(key, "") != ""]
        if len(given) != 1 or not isinstance(one[given[0]], str):
            raise OperatorError(
                f"{path}: {user} needs a password or a password_hash (a string that is not empty)"
            )
        hashed = one.get("password_hash", "")
        hashing = "" if hashed == "" else ARGON2 if hashed.startswith("$") else SHA256
        wrong = "" if hashed == "" else hash_fault(hashed, hashing)
        if wrong != "":
            raise OperatorError(f"{path}: {user}: {wrong}")
        users.append(
            UserConfig(
                one["name"],
                one.get("password", ""),
                one.get("is_loopback_only") is True,
                _names(path, "tags", one.get("tags", [])),
                hashed,
                hashing,
            )
        )
    return tuple(users)


def _patterns(path: str, what: str, one: dict[str, Any], rights: tuple[str, ...]) -> list[str]:
    patterns = [one.get(right) for right in rights]
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise OperatorError(
            f"{path}: {what}: {', '.join(rights)} are patterns, '' for nothing, '.*' for all"
        )
    return list(map(str, patterns))


def _user_and_vhost(path: str, key: str, one: dict[str, Any]) -> tuple[str, str]:
    user, vhost = one.get("user"), one.get("vhost", "/")
    if not isinstance(user, str) or not isinstance(vhost, str):
        raise OperatorError(f"{path}: every [[{key}]] table names its user, a string")
    return user, vhost


def _topic_permissions(path: str, key: str, value: object) -> tuple[TopicPermissionConfig, ...]:
    rows: dict[tuple[str, str, str], TopicPermissionConfig] = {}
    for one in _tables(path, key, value):
        user, vhost = _user_and_vhost(path, key, one)
        exchange = one.get("exchange")
        if not isinstance(exchange, str):
            raise OperatorError(f"{path}: every [[{key}]] table names its exchange, a string")
        what = f"topic permissions of user '{user}' in vhost '{vhost}' for '{exchange}'"
        _expect(path, what, one, {"user", "vhost", "exchange", WRITE, READ})
        write, read = _patterns(path, what, one, (WRITE, READ))
        try:
            check_topic_permission(TopicPermission(write, read))
        except OperatorError as error:
            raise OperatorError(f"{path}: {what}: {error}") from error
        if (user, vhost, exchange) in rows:
            raise OperatorError(f"{path}: {what} are there twice")
        rows[user, vhost, exchange] = TopicPermissionConfig(user, vhost, exchange, write, read)
    return tuple(rows.values())


def _permissions(path: str, key: str, value: object) -> tuple[PermissionConfig, ...]:
    rows: dict[tuple[str, str], PermissionConfig] = {}
    for one in _tables(path, key, value):
        user, vhost = _user_and_vhost(path, key, one)
        what = f"permissions of user '{user}' in vhost '{vhost}'"
        _expect(path, what, one, {"user", "vhost", *RIGHTS})
        configure, write, read = _patterns(path, what, one, RIGHTS)
        try:
            check_permission(Permission(configure, write, read))
        except OperatorError as error:
            raise OperatorError(f"{path}: {what}: {error}") from error
        if (user, vhost) in rows:
            raise OperatorError(f"{path}: {what} are there twice")
        rows[user, vhost] = PermissionConfig(user, vhost, configure, write, read)
    return tuple(rows.values())
