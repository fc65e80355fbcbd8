"""One policy as the configuration, a command and exported definitions have it.

Whether its keys and values make sense is said by queues/policy_keys, and whether its pattern is one
by broker/policy/policies; here stands only what every policy is made of. Source: RabbitMQ's
rabbit_policy.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.base.errors import OperatorError

QUEUES: Final = ("queues", "classic_queues", "all")
"""What `apply-to` says of policies for classic queues."""
QUORUM_QUEUES: Final = ("queues", "quorum_queues", "all")
"""The same for queues that are declared as quorum queues."""
STREAMS: Final = ("queues", "streams", "all")
"""The same for streams."""
EXCHANGES: Final = ("exchanges", "all")
APPLY_TO: Final = ("queues", "classic_queues", "quorum_queues", "streams", "exchanges", "all")
NAME_BYTES_MAX: Final = 255
PRIORITY_MAX: Final = (1 << 31) - 1
_KEYS: Final = ("vhost", "name", "pattern", "apply-to", "definition", "priority")
_IGNORED: Final = ("operator",)


@dataclass(frozen=True, slots=True)
class Policy:
    """pattern: looked for anywhere in a name; apply_to: of APPLY_TO; definition: by RabbitMQ's
    keys; priority: the highest one of those that match counts, the first name of equal ones."""

    vhost: str
    name: str
    pattern: str
    definition: Mapping[str, object]
    priority: int = 0
    apply_to: str = "all"

    def as_json(self) -> dict[str, object]:
        """In the form of RabbitMQ's exported definitions."""
        return {
            "vhost": self.vhost,
            "name": self.name,
            "pattern": self.pattern,
            "apply-to": self.apply_to,
            "definition": dict(self.definition),
            "priority": self.priority,
        }


def policy_from(table: Mapping[str, object], vhost: str = "/") -> Policy:
    """The policy in `table`, which has the keys of `as_json`; apply-to, priority and vhost may be
    missing. vhost: where it belongs if it does not say. Raises: OperatorError."""
    name = table.get("name")
    if not isinstance(name, str) or not 1 <= len(name.encode()) <= NAME_BYTES_MAX:
        raise OperatorError(
            f"a policy needs a name of 1..{NAME_BYTES_MAX} bytes, not {shown(name)}"
        )
    for key in table:
        if key not in _KEYS and key not in _IGNORED:
            raise _fault(name, f"unrecognised key '{key}'; known: {', '.join(_KEYS)}")
    for key in ("pattern", "definition"):
        if key not in table:
            raise _fault(name, f'Key "{key}" not found in {name}')
    return Policy(
        _text(name, "vhost", table.get("vhost", vhost)),
        name,
        _text(name, "pattern", table["pattern"]),
        _definition(name, table["definition"]),
        _priority(name, table.get("priority", 0)),
        _apply_to(name, table.get("apply-to", "all")),
    )


def shown(value: object) -> str:
    """A value for a message, as JSON has it."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _fault(name: str, text: str) -> OperatorError:
    return OperatorError(f"policy '{name}': {text}")


def _text(name: str, key: str, value: object) -> str:
    if not isinstance(value, str):
        raise _fault(name, f"{key} should be binary, actually was {shown(value)}")
    return value


def _priority(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _fault(name, f"priority should be a number, actually was {shown(value)}")
    if not -PRIORITY_MAX <= value <= PRIORITY_MAX:
        raise _fault(name, f"priority {value} is not within -{PRIORITY_MAX}..{PRIORITY_MAX}")
    return value


def _apply_to(name: str, value: object) -> str:
    if value not in APPLY_TO:
        raise _fault(
            name,
            f"apply-to '{value}' unrecognised; should be one of: 'queues', 'classic_queues', "
            "'quorum_queues', 'streams', 'exchanges', or 'all'",
        )
    return str(value)


def _definition(name: str, value: object) -> dict[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _fault(name, f"definition must be a dictionary: {shown(value)}")
    if not value:
        raise _fault(name, "no policy provided: the definition is empty")
    return dict(value)
