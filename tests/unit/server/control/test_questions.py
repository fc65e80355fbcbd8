"""Limits, policies and what is no question, over the control socket's questions."""

import msgspec
import pytest

from penstock.base.errors import OperatorError
from penstock.protocol import methods as m
from penstock.server.control.questions_queues import row_of
from tests.unit.broker.peer import Bed
from tests.unit.server.control.asked import asked as asked_of

Fields = dict[str, object]

POLICY: Fields = {
    "name": "short",
    "pattern": "^q",
    "definition": {"max-length": 2, "queue-mode": "lazy"},
}
WHOLE = POLICY | {"vhost": "/", "apply-to": "all", "priority": 0}


def asked(bed: Bed, op: str, **fields: object) -> Fields:
    """The answer as the control socket writes it."""
    answer: Fields = msgspec.to_builtins(asked_of(bed.broker, {"op": op, **fields}))
    return answer


def test_limits_are_set_listed_and_cleared() -> None:
    bed = Bed()
    bed.connect(channels=2).call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    vhost: Fields = {"kind": "vhost", "name": "/"}
    user: Fields = {"kind": "user", "name": "guest"}
    said = asked(bed, "limits", do="set", **vhost, limits={"max-queues": 5})
    assert said == {**vhost, "limits": {"max-queues": 5}}
    asked(bed, "limits", do="set", **user, limits={"max-channels": 9})
    used = {"max-connections": 1}
    assert asked(bed, "limits") == {
        "limits": [
            {**vhost, "limits": {"max-queues": 5}, "used": {**used, "max-queues": 1}},
            {**user, "limits": {"max-channels": 9}, "used": {**used, "max-channels": 2}},
        ],
        "total": 2,
        "next": "",
    }
    assert asked(bed, "limits", do="clear", **user, keys=["max-channels"])["limits"] == {}
    assert asked(bed, "limits", do="clear", **vhost)["limits"] == {}
    assert asked(bed, "limits", do="list") == {"limits": [], "total": 0, "next": ""}
    assert "limits of vhost '/': max-queues 5" in bed.log.lines


def test_policies_are_set_listed_exported_and_cleared() -> None:
    bed = Bed()
    bed.connect().call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    actor = bed.broker.vhosts["/"].queues["q"]
    numbers = {"changed": 1, "left": 0}
    notes = ["queue-mode has no effect: there is one kind of classic queue here"]
    assert asked(bed, "policies", do="set", policy=POLICY) == {
        "policy": WHOLE, "notes": notes, "before": None, **numbers
    }  # fmt: skip
    row = row_of(actor, None)
    assert (row.policy, row.operator_policy) == ("short", "")
    assert row.effective_policy_definition == POLICY["definition"]
    assert row.rules == {"max-length": "2", "overflow": "drop-head"}
    assert asked(bed, "policies", vhost="/") == {"policies": [WHOLE], "total": 1, "next": ""}
    assert asked(bed, "policies", operator=True) == {"policies": [], "total": 0, "next": ""}
    assert asked(bed, "policies", do="export") == {"policies": [WHOLE], "parameters": []}
    name = {"vhost": "/", "name": "short"}
    assert asked(bed, "policies", do="clear", **name) == {**name, "before": WHOLE, **numbers}
    assert row_of(actor, None).effective_policy_definition == {}


def test_operator_policies_are_apart() -> None:
    bed = Bed()
    cap = {"name": "cap", "pattern": "", "definition": {"max-length": 1}}
    asked(bed, "policies", do="set", policy=cap, operator=True)
    assert asked(bed, "policies", do="list") == {"policies": [], "total": 0, "next": ""}
    with pytest.raises(OperatorError, match="no policy 'cap'"):
        asked(bed, "policies", do="clear", name="cap")
    asked(bed, "policies", do="clear", name="cap", operator=True)
    assert asked(bed, "policies", operator=True) == {"policies": [], "total": 0, "next": ""}


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"op": "x"}, "unknown question 'x'; one of: why, status, connections, flow, objects"),
        ({"op": "flow"}, "unknown question 'flow '; one of: edges, accounts, alarms, settings"),
        ({"op": "limits", "do": "shout"}, "question 'limits shout'; one of: list, set, clear"),
        ({"op": "limits", "do": "set", "kind": "vhost", "name": "/"}, "needs limits, as max-conn"),
        ({"op": "limits", "do": "clear", "kind": "vhost", "keys": "x"}, "takes a list of keys"),
        ({"op": "limits", "do": "clear", "kind": "user", "name": "x"}, "no user 'x'"),
        ({"op": "policies", "do": "shout"}, "'policies shout'; one of: list, set, clear, export"),
        ({"op": "policies", "do": "set"}, "needs the policy as an object"),
        ({"op": "policies", "do": "list", "vhost": "nowhere"}, "no vhost 'nowhere'"),
        (
            {"op": "policies", "do": "set", "policy": POLICY | {"pattern": "("}},
            "should be regular expression but is invalid",
        ),
        ({"op": "record", "do": "save", "last_s": 1e9}, "a record reaches back 1s to 10m"),
        ({"op": "why", "window_s": "x"}, "window_s = 'x' is not a number of seconds"),
    ],
)
def test_what_cannot_be_answered(question: Fields, words: str) -> None:
    with pytest.raises(OperatorError, match=words):
        asked_of(Bed().broker, question)
