"""What bounds a queue, with the policy that says so, as its snapshot has it."""

from penstock.base.policy import Policy
from penstock.broker.queue.ruling_view import note_limit
from penstock.queues.applied import Applied
from penstock.queues.rules import rules_from


def limit(said: dict[str, object], applied: Applied | None) -> str:
    labels: dict[str, str] = {}
    note_limit(rules_from(said), applied, labels)
    return labels.get("limit", "")


def test_who_says_what_bounds_a_queue() -> None:
    policy = Policy("/", "mine", "", {"max-length": 5, "expires": 9})
    cap = Policy("/", "cap", "", {"max-length-bytes": 70})
    both: dict[str, object] = {"max-length": 5, "max-length-bytes": 70}
    assert limit({}, None) == ""
    assert limit({"expires": 9}, Applied(policy, None)) == ""
    assert limit(both, None) == "max-length 5, max-length-bytes 70"
    assert limit(both, Applied(policy, cap)) == (
        "max-length 5 (policy 'mine'), max-length-bytes 70 (operator policy 'cap')"
    )


def test_a_smaller_argument_is_not_the_policys() -> None:
    policy = Policy("/", "mine", "", {"max-length": 5})
    assert limit({"max-length": 3}, Applied(policy, None)) == "max-length 3"
