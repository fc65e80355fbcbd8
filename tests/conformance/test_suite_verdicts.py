"""The runner of the clients' suites itself: a failure may never get lost on the way to us."""

from __future__ import annotations

import json

from tests.conformance.suite_plugin import matches
from tests.conformance.suites import Off, Result, complaints, merged


def line(test: str, outcome: str) -> str:
    return json.dumps({"test": test, "outcome": outcome, "text": "why"})


def test_a_failure_in_any_phase_is_the_result() -> None:
    lines = [line("a", "failed"), line("b", "passed"), line("b", "failed")]
    lines += [line("c", "failed"), line("c", "passed"), line("d", "passed")]
    outcomes = {result.test: result.outcome for result in merged(lines)}
    assert outcomes == {"a": "failed", "b": "failed", "c": "failed", "d": "passed"}


def test_unlisted_failures_and_stale_entries_are_told() -> None:
    results = [
        Result("m::bad", "failed", "why"),
        Result("m::known[x]", "failed", "why"),
        Result("m::better", "passed", ""),
        Result("m::never", "not run", ""),
        Result("m::good", "passed", ""),
    ]
    off = [
        Off("m::known*", "", True),
        Off("m::better", "", True),
        Off("m::never", "", False),
        Off("m::gone", "", True),
    ]
    told = [complaint.split("\n")[0] for complaint in complaints(results, off)]
    assert told == [
        "FAILED m::bad",
        "STALE m::better passes: take it off the list",
        "STALE m::gone: there is no such test",
    ]


def test_only_the_star_is_special_in_a_name() -> None:
    assert matches("t::x[a-b]", "t::x[a-*")
    assert matches("t::x[a-b]", "*[a-b]")
    assert not matches("t::xa", "t::x[a]")
