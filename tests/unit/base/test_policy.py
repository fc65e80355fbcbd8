"""A policy from a table and back, in the form of RabbitMQ's definitions."""

import pytest

from penstock.base.errors import OperatorError
from penstock.base.policy import APPLY_TO, PRIORITY_MAX, Policy, policy_from

WHOLE: dict[str, object] = {
    "vhost": "v",
    "name": "short",
    "pattern": "^logs",
    "apply-to": "queues",
    "definition": {"max-length": 10},
    "priority": 3,
}


def test_there_and_back() -> None:
    policy = policy_from(WHOLE)
    assert policy == Policy("v", "short", "^logs", {"max-length": 10}, 3, "queues")
    assert policy.as_json() == WHOLE


def test_what_may_be_missing() -> None:
    few = {"name": "n", "pattern": "", "definition": {"expires": 1}}
    assert policy_from(few) == Policy("/", "n", "", {"expires": 1}, 0, "all")
    assert policy_from(few, "t").vhost == "t"


@pytest.mark.parametrize("apply_to", APPLY_TO)
def test_everything_rabbitmq_applies_to_is_taken(apply_to: str) -> None:
    assert policy_from(WHOLE | {"apply-to": apply_to}).apply_to == apply_to


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"name": ""}, "needs a name of 1..255 bytes"),
        ({"name": "x" * 256}, "needs a name of 1..255 bytes"),
        ({"name": 7}, "needs a name of 1..255 bytes"),
        ({"patern": "x"}, "unrecognised key 'patern'; known: vhost, name, pattern"),
        ({"priority": "high"}, 'priority should be a number, actually was "high"'),
        ({"priority": True}, "priority should be a number, actually was true"),
        ({"priority": PRIORITY_MAX + 1}, "priority 2147483648 is not within"),
        ({"pattern": None}, "pattern should be binary, actually was null"),
        ({"vhost": 1}, "vhost should be binary, actually was 1"),
        ({"apply-to": "topics"}, "apply-to 'topics' unrecognised; should be one of: 'queues'"),
        ({"definition": ["max-length"]}, r"definition must be a dictionary: \[\"max-length\"\]"),
        ({"definition": {}}, "no policy provided"),
    ],
)
def test_what_is_wrong_is_named(changed: dict[str, object], words: str) -> None:
    with pytest.raises(OperatorError, match=words):
        policy_from(WHOLE | changed)


@pytest.mark.parametrize("key", ["pattern", "definition"])
def test_what_may_not_be_missing(key: str) -> None:
    with pytest.raises(OperatorError, match=f'Key "{key}" not found in short'):
        policy_from({name: value for name, value in WHOLE.items() if name != key})
