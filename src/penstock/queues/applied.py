"""The policies that apply to one queue or exchange, and what they say together.

    policy with operator policy   numbers: the smaller; everything else: the operator's
    that with arguments           numbers: the smaller; everything else: the argument
A negative delivery limit is none, so a limit wins over it; so does a consumer timeout or a depth
mark over 0, which is none. Source: RabbitMQ's rabbit_policies (merge_policy_value),
rabbit_amqqueue_process (process_args_policy), rabbit_quorum_queue (resolve_delivery_limit).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.base.policy import Policy


@dataclass(frozen=True, slots=True)
class Applied:
    """policy, operator: None where none matches, but not both; definition: merged, made of them."""

    policy: Policy | None
    operator: Policy | None
    definition: Mapping[str, object] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        said = {} if self.policy is None else self.policy.definition
        above = {} if self.operator is None else self.operator.definition
        object.__setattr__(self, "definition", merge_policies(said, above))

    def source_of(self, key: str) -> str:
        """Which of them says what is in force of `key`: `policy 'limit'`, "" for neither."""
        value = self.definition.get(key)
        for kind, one in (("operator policy", self.operator), ("policy", self.policy)):
            if one is not None and key in one.definition and one.definition[key] == value:
                return f"{kind} '{one.name}'"
        return ""


def names_of(applied: Applied | None) -> tuple[str, str]:
    """The names of the policy and of the operator policy, "" for none."""
    if applied is None:
        return "", ""
    policy, operator = applied.policy, applied.operator
    return "" if policy is None else policy.name, "" if operator is None else operator.name


SMALLER: Final = frozenset(
    (
        "expires",
        "max-in-memory-bytes",
        "max-in-memory-length",
        "max-length",
        "max-length-bytes",
        "message-ttl",
    )
)
ZERO_IS_NONE: Final = frozenset(("consumer-timeout", "depth-mark"))
PREFIX: Final = "x-"


def merge_policies(
    definition: Mapping[str, object], operator: Mapping[str, object]
) -> dict[str, object]:
    """What both say together."""
    merged = dict(definition)
    for key, value in operator.items():
        merged[key] = _both(key, merged[key], value) if key in merged else value
    return merged


def merge_arguments(
    arguments: Mapping[str, object], definition: Mapping[str, object]
) -> dict[str, object]:
    """What a queue with `arguments` goes by under the merged `definition`; keys without `x-`."""
    merged = dict(definition)
    for name, value in arguments.items():
        if name.startswith(PREFIX):
            key = name[len(PREFIX) :]
            merged[key] = _both(key, merged[key], value) if key in merged else value
    return merged


def _both(key: str, value: object, stronger: object) -> object:
    """The smaller of two numbers as `key` counts them; `stronger` of anything else."""
    if not _is_number(value) or not _is_number(stronger):
        return stronger
    one, other = int(str(value)), int(str(stronger))
    if key in SMALLER:
        return min(one, other)
    if key == "delivery-limit":
        return max(one, other) if one < 0 or other < 0 else min(one, other)
    if key in ZERO_IS_NONE:
        return max(one, other) if one == 0 or other == 0 else min(one, other)
    return stronger


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
