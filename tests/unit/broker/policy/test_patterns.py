"""Patterns: found anywhere, bounded, and what RE2 lacks is said."""

import time

import pytest

from penstock.base.errors import OperatorError
from penstock.base.limits import PATTERN_BYTES
from penstock.broker.policy.policies import compile_pattern


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
