"""The policies of one queue: merged, and by whom a value is in force."""

from penstock.base.policy import Policy
from penstock.queues.applied import Applied, names_of

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
