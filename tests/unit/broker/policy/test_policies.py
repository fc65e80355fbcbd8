"""Which policy counts, what is refused, the state as definitions, and patterns."""

import time

import pytest

from penstock.base.errors import OperatorError
from penstock.base.limits import PATTERN_BYTES, POLICIES_PER_VHOST
from penstock.base.policy import Policy
from penstock.broker.policy.policies import Policies
from penstock.broker.vhost.patterns import compile_pattern
from penstock.queues.applied import Applied
from tests.definitions import policies_in


def made(name: str, pattern: str = "", priority: int = 0, apply_to: str = "all") -> Policy:
    return Policy("/", name, pattern, {"max-length": 1}, priority, apply_to)


def policy_of(policies: Policies, name: str) -> str:
    applied = policies.for_queue("/", name)
    return "" if applied is None or applied.policy is None else applied.policy.name


def test_the_highest_priority_that_matches_counts_and_of_equal_ones_the_first_name() -> None:
    policies = Policies(["/"], [made("low"), made("high", "^a", 5), made("none", "^z", 9)], [])
    assert policy_of(policies, "abc") == "high"
    assert policy_of(policies, "b") == "low"
    policies = Policies(["/"], [made("b"), made("a"), made("c")], [])
    assert policy_of(policies, "q") == "a"


@pytest.mark.parametrize(
    ("apply_to", "applies_to"),
    [
        ("all", "classic quorum stream exchange"),
        ("queues", "classic quorum stream"),
        ("classic_queues", "classic"),
        ("quorum_queues", "quorum"),
        ("streams", "stream"),
        ("exchanges", "exchange"),
    ],
)
def test_what_a_policy_applies_to(apply_to: str, applies_to: str) -> None:
    policies = Policies(["/"], [made("p", "x", 0, apply_to)], [])
    found = {
        "classic": policies.for_queue("/", "x"),
        "quorum": policies.for_queue("/", "x", is_quorum=True),
        "stream": policies.for_queue("/", "x", is_stream=True),
        "exchange": policies.for_exchange("/", "x"),
    }
    assert " ".join(kind for kind, one in found.items() if one is not None) == applies_to
    assert policies.for_queue("/", "y") is None


def test_a_policy_and_an_operator_policy_apply_together() -> None:
    mine, cap = made("mine"), made("cap")
    policies = Policies(["/"], [mine], [cap])
    assert policies.for_queue("/", "q") == Applied(mine, cap)
    assert policies.count("/") == 2
    assert policies.drop("/", "mine", False) == mine
    assert policies.for_queue("/", "q") == Applied(None, cap)
    assert policies.drop("/", "cap", True) == cap
    assert policies.for_queue("/", "q") is None


def test_virtual_hosts_are_apart() -> None:
    policies = Policies(["/", "t"], [made("p")], [])
    assert policies.for_queue("t", "q") is None
    assert policies.listing(False, "t") == [] and policies.listing(False) == [made("p")]


def test_setting_again_replaces() -> None:
    policies = Policies(["/"], [made("p", "^a")], [])
    assert policies.put(made("p", "^b"), False) == made("p", "^a")
    assert policy_of(policies, "a") == "" and policy_of(policies, "b") == "p"
    assert policies.listing(False) == [made("p", "^b")]


def test_what_is_refused_changes_nothing() -> None:
    policies = Policies(["/"], [made("p")], [])
    for bad, words in (
        (Policy("nowhere", "p", "", {"expires": 1}), "no vhost 'nowhere'; one of: /"),
        (Policy("/", "p", "(", {"expires": 1}), "should be regular expression but is invalid"),
        (Policy("/", "p", "", {"expires": 0}), "not a valid queue expiry"),
    ):
        with pytest.raises(OperatorError, match=words):
            policies.put(bad, False)
    assert policies.listing(False) == [made("p")]
    with pytest.raises(OperatorError, match="no operator policy 'p' in vhost '/'; there is: none"):
        policies.drop("/", "p", True)
    with pytest.raises(OperatorError, match="no policy 'q' in vhost '/'; there is: p"):
        policies.drop("/", "q", False)


def test_policies_are_bounded_and_an_old_name_is_not_a_new_one() -> None:
    most = POLICIES_PER_VHOST.default
    policies = Policies(["/"], [made(f"p{number}") for number in range(most)], [])
    with pytest.raises(OperatorError, match=f"has {most} policies, and may have {most}"):
        policies.put(made("more"), False)
    policies.put(made("p0", "^x"), False)
    policies.put(made("more"), True)


def test_the_state_is_rabbitmqs_definitions() -> None:
    policies = Policies(["/"], [made("mine", "^a", 1, "queues")], [made("cap")])
    exported = policies.export()
    assert exported == {
        "policies": [
            {
                "vhost": "/",
                "name": "mine",
                "pattern": "^a",
                "apply-to": "queues",
                "definition": {"max-length": 1},
                "priority": 1,
            }
        ],
        "parameters": [
            {
                "component": "operator_policy",
                "vhost": "/",
                "name": "cap",
                "value": {
                    "pattern": "",
                    "apply-to": "all",
                    "definition": {"max-length": 1},
                    "priority": 0,
                },
            }
        ],
    }
    assert policies_in(dict(exported)) == (policies.listing(False), policies.listing(True))


# -- patterns ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "name", "is_found"),
    [
        ("", "anything", True),
        ("orders", "new.orders.eu", True),
        ("^orders", "new.orders", False),
        ("^amq\\.", "amq.gen-1", True),
        ("(?i)ORDERS$", "orders", True),
        ("^(a|b)\\d{2}$", "b07", True),
        ("^.$", "ö", True),
        ("x", "", False),
    ],
)
def test_a_pattern_is_looked_for_anywhere(pattern: str, name: str, is_found: bool) -> None:
    assert (compile_pattern(pattern).search(name) is not None) == is_found


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("^(?=logs)", "RE2 has no look-ahead and look-behind"),
        ("(?<!x)a", "RE2 has no look-ahead and look-behind"),
        ("(a)\\1", "RE2 has no back references"),
        ("(?>a)", "RE2 has no atomic groups"),
        ("a++", "RE2 has no possessive repetition"),
        ("(?#c)a", "RE2 has no comments"),
        ("a\\Z", "RE2 writes the end of the text"),
        ("a{1001}", "RE2 repeats at most 1,000 times"),
        ("(x", "missing \\)"),
        ("[a", "missing \\]"),
        ("x" * (PATTERN_BYTES.default + 1), "must not exceed 1024 bytes"),
        ("\ud800", "should be regular expression but is invalid"),
    ],
)
def test_what_cannot_be_a_pattern_is_refused(pattern: str, words: str) -> None:
    with pytest.raises(OperatorError, match=words):
        compile_pattern(pattern)


def test_a_hostile_pattern_takes_no_time() -> None:
    """Reliability F102: exponential for a backtracking engine, linear here."""
    pattern = compile_pattern("^(a|aa|a?a?)*$")
    began = time.process_time()
    for _ in range(100):
        assert pattern.search("a" * 254 + "b") is None
    # A backtracking engine would not come back at all; this is much for the slowest machine.
    assert time.process_time() - began < 10.0
