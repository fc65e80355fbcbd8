"""What is in force of policies and arguments; the laws are in property/test_policy_laws."""

import pytest

from penstock.queues.policy_merge import merge_arguments, merge_policies


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
