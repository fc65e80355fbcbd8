"""Policies over the control socket's questions: set, listed, cleared, exported."""

import pytest

from penstock.base.errors import OperatorError
from penstock.protocol import methods as m
from penstock.server.control.questions_policies import PolicyQuestions
from penstock.server.control.questions_queues import row_of
from tests.unit.broker.peer import Bed

POLICY: dict[str, object] = {
    "name": "short",
    "pattern": "^q",
    "definition": {"max-length": 2, "queue-mode": "lazy"},
}
WHOLE = POLICY | {"vhost": "/", "apply-to": "all", "priority": 0}


def asked(bed: Bed, question: dict[str, object]) -> dict[str, object]:
    return PolicyQuestions(bed.broker, bed.run).answer({"op": "policies", **question})


def test_set_list_export_clear() -> None:
    bed = Bed()
    bed.connect().call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    actor = bed.broker.vhosts["/"].queues["q"]
    assert asked(bed, {"do": "set", "policy": POLICY}) == {
        "policy": WHOLE,
        "notes": ["queue-mode has no effect: there is one kind of classic queue here"],
        "before": None,
        "changed": 1,
        "left": 0,
    }
    row = row_of(actor, None)
    assert (row.policy, row.operator_policy) == ("short", "")
    assert row.effective_policy_definition == POLICY["definition"]
    assert row.rules == {"max-length": "2", "overflow": "drop-head"}
    assert asked(bed, {"vhost": "/"}) == {"policies": [WHOLE]}
    assert asked(bed, {"operator": True}) == {"policies": []}
    assert asked(bed, {"do": "export"}) == {"policies": [WHOLE], "parameters": []}
    assert asked(bed, {"do": "clear", "vhost": "/", "name": "short"}) == {
        "vhost": "/",
        "name": "short",
        "before": WHOLE,
        "changed": 1,
        "left": 0,
    }
    assert row_of(actor, None).effective_policy_definition == {}


def test_operator_policies_are_apart() -> None:
    bed = Bed()
    cap = {"name": "cap", "pattern": "", "definition": {"max-length": 1}}
    asked(bed, {"do": "set", "policy": cap, "operator": True})
    assert asked(bed, {"do": "list"}) == {"policies": []}
    with pytest.raises(OperatorError, match="no policy 'cap'"):
        asked(bed, {"do": "clear", "name": "cap"})
    asked(bed, {"do": "clear", "name": "cap", "operator": True})
    assert asked(bed, {"operator": True}) == {"policies": []}


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"do": "shout"}, "unknown question 'policies shout'; one of: list, set, clear, export"),
        ({"do": "set"}, "needs the policy as an object"),
        ({"do": "list", "vhost": "nowhere"}, "no vhost 'nowhere'"),
        (
            {"do": "set", "policy": POLICY | {"pattern": "("}},
            "should be regular expression but is invalid",
        ),
    ],
)
def test_what_cannot_be_answered(question: dict[str, object], words: str) -> None:
    with pytest.raises(OperatorError, match=words):
        asked(Bed(), question)
