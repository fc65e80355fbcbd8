"""What the control socket answers about policies: a listing, setting and clearing one.

One request is {"op": "policies", "do": "list" | "set" | "clear" | "export", ...}. `set` carries the
policy under `policy`, with the keys of RabbitMQ's definitions; `operator` says which kind is meant.
"""

from collections.abc import Mapping

from penstock.base.errors import OperatorError
from penstock.base.policy import policy_from
from penstock.broker.policy.policy_manager import Outcome
from penstock.queues.policy_keys import without_effect
from penstock.server.control.request import Request

Answer = dict[str, object]


def listing(request: Request) -> Answer:
    found = request.broker.policies.listing(request.is_set("operator"), request.text("vhost"))
    return {"policies": [one.as_json() for one in found]}


def change(request: Request) -> Answer:
    table = request.fields.get("policy")
    if not isinstance(table, Mapping):
        raise OperatorError("policies set needs the policy as an object")
    policy = policy_from(table)
    outcome = request.broker.policy_manager.set(policy, request.is_set("operator"))
    notes = without_effect(policy.definition)
    return {"policy": policy.as_json(), "notes": notes} | _numbers(request, outcome)


def clear(request: Request) -> Answer:
    vhost, name = request.text("vhost", "/"), request.text("name")
    outcome = request.broker.policy_manager.clear(vhost, name, request.is_set("operator"))
    return {"vhost": vhost, "name": name} | _numbers(request, outcome)


def export(request: Request) -> Answer:
    return dict(request.broker.policies.export())


def _numbers(request: Request, outcome: Outcome) -> Answer:
    request.run_soon()
    before = None if outcome.before is None else outcome.before.as_json()
    return {"before": before, "changed": outcome.changed, "left": outcome.left}
