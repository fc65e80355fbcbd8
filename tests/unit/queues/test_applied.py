"""The policies that apply to a queue, and what they say together."""

import pytest

from penstock.base.policy import Policy
from penstock.queues.applied import Applied, merge_arguments, merge_policies, names_of

POLICY = Policy("/", "mine", ".*", {"max-length": 10, "overflow": "backpressure"})
OPERATOR = Policy("/", "cap", ".*", {"max-length": 5, "expires": 9})


def test_both_are_merged() -> None:
    applied = Applied(POLICY, OPERATOR)
    assert applied.definition == {"max-length": 5, "overflow": "backpressure", "expires": 9}
    assert names_of(applied) == ("mine", "cap")
    assert names_of(Applied(None, OPERATOR)) == ("", "cap")
    assert names_of(Applied(POLICY, None)) == ("mine", "")
    assert names_of(None) == ("", "")


def test_who_says_what_is_in_force() -> None:
    applied = Applied(POLICY, OPERATOR)
    assert applied.source_of("max-length") == "operator policy 'cap'"
    assert applied.source_of("overflow") == "policy 'mine'"
    assert applied.source_of("message-ttl") == ""
    assert Applied(POLICY, None).source_of("max-length") == "policy 'mine'"


def test_equal_policies_are_equal() -> None:
    again = Policy("/", "mine", ".*", {"overflow": "backpressure", "max-length": 10})
    assert Applied(POLICY, None) == Applied(again, None)
    assert Applied(POLICY, None) != Applied(POLICY, OPERATOR)


@pytest.mark.parametrize(
    ("key", "policy", "operator", "merged"),
    [
        ("max-length", 10, 5, 5),
        ("max-length", 5, 10, 5),
        ("max-length-bytes", 5, 10, 5),
        ("message-ttl", 100, 0, 0),
        ("expires", 100, 200, 100),
        ("delivery-limit", 3, 5, 3),
        ("delivery-limit", -1, 5, 5),
        ("delivery-limit", 5, -1, 5),
        ("delivery-limit", -1, -1, -1),
        ("overflow", "backpressure", "drop-head", "drop-head"),
        ("alarm-action", "block", "close", "close"),
        ("queue-version", 1, 2, 2),
    ],
)
def test_policy_with_operator_policy(
    key: str, policy: object, operator: object, merged: object
) -> None:
    assert merge_policies({key: policy}, {key: operator}) == {key: merged}


def test_what_only_one_of_them_says_is_in_force() -> None:
    assert merge_policies({"max-length": 1}, {"expires": 2}) == {"max-length": 1, "expires": 2}


@pytest.mark.parametrize(
    ("key", "argument", "policy", "merged"),
    [
        ("max-length", 10, 5, 5),
        ("max-length", 5, 10, 5),
        ("message-ttl", 1, 2, 1),
        ("delivery-limit", -1, 5, 5),
        ("consumer-timeout", 0, 5000, 5000),
        ("consumer-timeout", 5000, 0, 5000),
        ("consumer-timeout", 6000, 5000, 5000),
        ("overflow", "reject-publish", "drop-head", "reject-publish"),
        ("dead-letter-exchange", "mine", "theirs", "mine"),
        ("dead-letter-exchange", "", "theirs", ""),
        ("last-value-key", "a", "b", "a"),
    ],
)
def test_arguments_with_policies(
    key: str, argument: object, policy: object, merged: object
) -> None:
    assert merge_arguments({"x-" + key: argument}, {key: policy}) == {key: merged}


def test_arguments_keep_their_say_and_lose_their_prefix() -> None:
    merged = merge_arguments({"x-max-priority": 5, "colour": "red"}, {"expires": 9})
    assert merged == {"max-priority": 5, "expires": 9}
