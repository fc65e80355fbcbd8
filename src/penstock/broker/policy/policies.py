"""Every policy and operator policy of a broker, and which of them apply to a name.

Of the policies that match one counts: the highest priority, of equal ones the first by name, so
that the answer does not depend on the order in which they were set. The whole state is one value,
`export`, in the form of RabbitMQ's definitions; operator policies stand there as `parameters`.

Patterns: see broker/vhost/patterns.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.limits import POLICIES_PER_VHOST
from penstock.base.policy import EXCHANGES, QUEUES, QUORUM_QUEUES, STREAMS, Policy
from penstock.broker.vhost.patterns import Pattern, compile_pattern
from penstock.queues.applied import Applied
from penstock.queues.policy_keys import check_definition

POLICY_COMPONENT: Final = "policy"
COMPONENT: Final = "operator_policy"


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """A policy in force, with its pattern."""

    policy: Policy
    pattern: Pattern


class PolicySet:
    """The policies, or the operator policies, of one virtual host."""

    def __init__(self) -> None:
        self.entries: dict[str, PolicyEntry] = {}
        self._of_kind: dict[tuple[str, ...], list[PolicyEntry]] = {}

    def put(self, entry: PolicyEntry) -> None:
        self.entries[entry.policy.name] = entry
        self._of_kind.clear()

    def drop(self, name: str) -> Policy | None:
        """The policy that was called so."""
        entry = self.entries.pop(name, None)
        self._of_kind.clear()
        return None if entry is None else entry.policy

    def sorted(self) -> list[PolicyEntry]:
        """The one that counts first, first."""
        return sorted(
            self.entries.values(), key=lambda one: (-one.policy.priority, one.policy.name)
        )

    def find(self, kinds: tuple[str, ...], name: str) -> Policy | None:
        """The one that counts for `name`. kinds: what it may say it applies to."""
        entries = self._of_kind.get(kinds)
        if entries is None:
            entries = [one for one in self.sorted() if one.policy.apply_to in kinds]
            self._of_kind[kinds] = entries
        for entry in entries:
            if entry.pattern.search(name) is not None:
                return entry.policy
        return None


class Policies:
    """vhosts: those there are. Raises: OperatorError for a policy that cannot be.
    Owner: the broker."""

    def __init__(
        self, vhosts: Iterable[str], policies: Iterable[Policy], operators: Iterable[Policy]
    ) -> None:
        self._sets: dict[tuple[str, bool], PolicySet] = {
            (vhost, is_operator): PolicySet() for vhost in vhosts for is_operator in (False, True)
        }
        for policy in policies:
            self.put(policy, False)
        for policy in operators:
            self.put(policy, True)

    # -- changing --------------------------------------------------------------------------------

    def add_vhost(self, vhost: str) -> None:
        """A virtual host is new, and has none yet."""
        for is_operator in (False, True):
            self._sets[(vhost, is_operator)] = PolicySet()

    def drop_vhost(self, vhost: str) -> None:
        """A virtual host is no more, nor are its policies."""
        for is_operator in (False, True):
            del self._sets[(vhost, is_operator)]

    def put(self, policy: Policy, is_operator: bool) -> Policy | None:
        """`policy` is in force from now on, instead of the one of that name, which is answered.

        Raises: OperatorError, then nothing has changed."""
        there = self._set_of(policy.vhost, is_operator)
        check_definition(policy.name, policy.definition, is_operator)
        try:
            pattern = compile_pattern(policy.pattern)
        except OperatorError as error:
            raise OperatorError(f"policy '{policy.name}': {error}") from error
        before = there.entries.get(policy.name)
        if before is None and len(there.entries) >= POLICIES_PER_VHOST.default:
            kind = "operator policies" if is_operator else "policies"
            raise OperatorError(
                f"vhost '{policy.vhost}' has {len(there.entries)} {kind}, and may have "
                f"{POLICIES_PER_VHOST.default}; clear one, or widen a pattern"
            )
        there.put(PolicyEntry(policy, pattern))
        return None if before is None else before.policy

    def drop(self, vhost: str, name: str, is_operator: bool) -> Policy:
        """The policy `name` is in force no more. Raises: OperatorError if there is none."""
        there = self._set_of(vhost, is_operator)
        found = there.drop(name)
        if found is None:
            kind = "operator policy" if is_operator else "policy"
            known = ", ".join(sorted(there.entries)) or "none"
            raise OperatorError(f"no {kind} '{name}' in vhost '{vhost}'; there is: {known}")
        return found

    # -- asking ----------------------------------------------------------------------------------

    def for_queue(
        self, vhost: str, name: str, is_quorum: bool = False, is_stream: bool = False
    ) -> Applied | None:
        """What applies to a queue called `name`, by what it was declared as."""
        kinds = STREAMS if is_stream else QUORUM_QUEUES if is_quorum else QUEUES
        return self._find(vhost, kinds, name)

    def for_exchange(self, vhost: str, name: str) -> Applied | None:
        """What applies to an exchange called `name`."""
        return self._find(vhost, EXCHANGES, name)

    def _find(self, vhost: str, kinds: tuple[str, ...], name: str) -> Applied | None:
        policies, operators = self._pair(vhost)
        policy, operator = policies.find(kinds, name), operators.find(kinds, name)
        if policy is None and operator is None:
            return None
        return Applied(policy, operator)

    def listing(self, is_operator: bool, vhost: str = "") -> list[Policy]:
        """By virtual host ("" for all), in the order in which they count. Raises: OperatorError."""
        if vhost != "":
            return [entry.policy for entry in self._set_of(vhost, is_operator).sorted()]
        return [
            entry.policy
            for (_, of_operator), there in sorted(self._sets.items())
            if of_operator == is_operator
            for entry in there.sorted()
        ]

    def count(self, vhost: str) -> int:
        """Policies of both kinds: what one name is compared with at most."""
        policies, operators = self._pair(vhost)
        return len(policies.entries) + len(operators.entries)

    # -- keeping ---------------------------------------------------------------------------------

    def export(self) -> dict[str, list[dict[str, object]]]:
        """`policies` and `parameters` as in RabbitMQ's definitions."""
        return {
            "policies": [one.as_json() for one in self.listing(False)],
            "parameters": [_as_parameter(one) for one in self.listing(True)],
        }

    def _set_of(self, vhost: str, is_operator: bool) -> PolicySet:
        there = self._sets.get((vhost, is_operator))
        if there is None:
            known = ", ".join(sorted({name for name, _ in self._sets}))
            raise OperatorError(f"no vhost '{vhost}'; one of: {known}")
        return there

    def _pair(self, vhost: str) -> tuple[PolicySet, PolicySet]:
        return self._sets[(vhost, False)], self._sets[(vhost, True)]


def _as_parameter(policy: Policy) -> dict[str, object]:
    value = policy.as_json()
    del value["vhost"], value["name"]
    return {
        "component": COMPONENT,
        "vhost": policy.vhost,
        "name": policy.name,
        "value": value,
    }
