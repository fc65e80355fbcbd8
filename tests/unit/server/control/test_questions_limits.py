"""Limits of virtual hosts and users over the control socket's questions."""

import msgspec
import pytest

from penstock.base.errors import OperatorError
from penstock.protocol import methods as m
from penstock.server.control.questions_limits import LimitQuestions
from tests.unit.broker.peer import Bed


def asked(bed: Bed, question: dict[str, object]) -> dict[str, object]:
    """The answer as the control socket writes it."""
    found = LimitQuestions(bed.broker).answer({"op": "limits", **question})
    answer: dict[str, object] = msgspec.to_builtins(found)
    return answer


def test_set_list_clear() -> None:
    bed = Bed()
    bed.connect(channels=2).call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    vhost: dict[str, object] = {"kind": "vhost", "name": "/"}
    user: dict[str, object] = {"kind": "user", "name": "guest"}
    said = asked(bed, {"do": "set", **vhost, "limits": {"max-queues": 5}})
    assert said == {**vhost, "limits": {"max-queues": 5}}
    asked(bed, {"do": "set", **user, "limits": {"max-channels": 9}})
    assert asked(bed, {}) == {
        "limits": [
            {
                **vhost,
                "limits": {"max-queues": 5},
                "used": {"max-connections": 1, "max-queues": 1},
            },
            {
                **user,
                "limits": {"max-channels": 9},
                "used": {"max-connections": 1, "max-channels": 2},
            },
        ]
    }
    assert asked(bed, {"do": "clear", **user, "keys": ["max-channels"]})["limits"] == {}
    assert asked(bed, {"do": "clear", **vhost})["limits"] == {}
    assert asked(bed, {"do": "list"}) == {"limits": []}
    assert "limits of vhost '/': max-queues 5" in bed.log.lines


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"do": "shout"}, "unknown question 'limits shout'; one of: list, set, clear"),
        ({"do": "set", "kind": "vhost", "name": "/"}, "needs limits, as max-connections=100"),
        ({"do": "clear", "kind": "vhost", "name": "/", "keys": "x"}, "takes a list of keys"),
        ({"do": "clear", "kind": "user", "name": "x"}, "no user 'x'"),
    ],
)
def test_what_cannot_be_answered(question: dict[str, object], words: str) -> None:
    with pytest.raises(OperatorError, match=words):
        asked(Bed(), question)
