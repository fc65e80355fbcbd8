"""The policies that apply to one queue or exchange, and what they say together."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.base.policy import Policy
from penstock.queues.policy_merge import merge_policies


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
