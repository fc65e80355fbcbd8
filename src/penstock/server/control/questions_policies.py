"""What the control socket answers about policies: a listing, setting and clearing one.

One request is {"op": "policies", "do": "list" | "set" | "clear" | "export", ...}. `set` carries the
policy under `policy`, with the keys of RabbitMQ's definitions; `operator` says which kind is meant.
"""

from collections.abc import Callable, Mapping

from penstock.base.errors import OperatorError
from penstock.base.policy import policy_from
from penstock.broker.broker import Broker
from penstock.broker.policy.policy_manager import Outcome
from penstock.queues.policy_keys import without_effect


class PolicyQuestions:
    """broker: its present; run_soon: lets it work on what a changed policy has set free."""

    def __init__(self, broker: Broker, run_soon: Callable[[], None]) -> None:
        self.broker = broker
        self.run_soon = run_soon

    def answer(self, request: dict[str, object]) -> dict[str, object]:
        """Raises: OperatorError for a question it does not know, or a policy that cannot be."""
        do = request.get("do", "list")
        is_operator = request.get("operator", False) is True
        if do == "list":
            vhost = str(request.get("vhost", ""))
            found = self.broker.policies.listing(is_operator, vhost)
            return {"policies": [one.as_json() for one in found]}
        if do == "set":
            return self._set(request.get("policy"), is_operator)
        if do == "clear":
            return self._clear(request, is_operator)
        if do == "export":
            return dict(self.broker.policies.export())
        raise OperatorError(f"unknown question 'policies {do}'; one of: list, set, clear, export")

    def _set(self, table: object, is_operator: bool) -> dict[str, object]:
        if not isinstance(table, Mapping):
            raise OperatorError("policies set needs the policy as an object")
        policy = policy_from(table)
        outcome = self.broker.policy_manager.set(policy, is_operator)
        self.run_soon()
        return {"policy": policy.as_json(), "notes": without_effect(policy.definition)} | (
            _numbers(outcome)
        )

    def _clear(self, request: dict[str, object], is_operator: bool) -> dict[str, object]:
        vhost, name = str(request.get("vhost", "/")), str(request.get("name", ""))
        outcome = self.broker.policy_manager.clear(vhost, name, is_operator)
        self.run_soon()
        return {"vhost": vhost, "name": name} | _numbers(outcome)


def _numbers(outcome: Outcome) -> dict[str, object]:
    before = None if outcome.before is None else outcome.before.as_json()
    return {"before": before, "changed": outcome.changed, "left": outcome.left}
