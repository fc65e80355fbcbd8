"""What the control socket answers about policies: a listing, setting and clearing one.

One request is {"op": "policies", "do": "list" | "set" | "clear" | "export", ...}. `set` carries the
policy under `policy`, with the keys of RabbitMQ's definitions; `operator` says which kind is meant.
"""

from collections.abc import Mapping
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.policy import policy_from
from penstock.broker.actors.cooperative import Steps
from penstock.broker.policy.policy_manager import Outcome
from penstock.queues.policy_keys import without_effect
from penstock.server.control.request import Keyed, Request

Answer = dict[str, object]
STEP_ROWS: Final = 256


def listing(request: Request) -> Steps[Keyed]:
    """By virtual host, in the order in which they count; in steps. A page goes on behind so many:
    a policy that comes meanwhile may move one to the next page."""
    found = request.broker.policies.listing(request.is_set("operator"), request.text("vhost"))
    pager = request.pager("place")
    for place, one in enumerate(found):
        pager.offer((one.vhost, place), one)
        if place % STEP_ROWS == STEP_ROWS - 1:
            yield 0.0
    rows = [one.as_json() for one in pager.rows()]
    answer: Answer = {"policies": rows, "total": pager.total, "next": pager.next()}
    return request.keyed(answer, pager)


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
