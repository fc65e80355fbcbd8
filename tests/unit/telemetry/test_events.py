"""Every kind has a name of its own, and samples know their kind."""

import pytest

from penstock.telemetry import events
from penstock.telemetry.events import KIND_NAMES, CountSample, TimeSample, kind_named


def test_names_and_kinds_are_one_to_one() -> None:
    assert len(set(KIND_NAMES)) == len(KIND_NAMES)
    for kind, name in enumerate(KIND_NAMES):
        assert kind_named(name) == kind
        assert getattr(events, name.upper()) == kind


def test_an_unknown_name_has_no_kind() -> None:
    assert kind_named("gate closed") == -1


def test_a_sample_of_counts_is_one_of_two_kinds() -> None:
    with pytest.raises(AssertionError, match="not a sample"):
        CountSample(0, 0, events.GATE_CLOSED, "queue:/a", 0, 0, 0, 0, 0, 0, 0)


def test_a_sample_says_its_numbers_besides_the_usual_ones() -> None:
    plain = TimeSample(3, 5, "conn:a", 10, 20, 30, 40).plain()
    assert plain == {
        "seq": 3,
        "t": 5,
        "kind": "time_sample",
        "actor": "conn:a",
        "peer": "",
        "reason": "",
        "amount": 0,
        "idle_ns": 10,
        "busy_ns": 20,
        "blocked_ns": 30,
        "waiting_ns": 40,
    }
