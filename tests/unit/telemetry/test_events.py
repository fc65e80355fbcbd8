"""Every kind has a name of its own, and samples know their kind."""

import pytest

from penstock.telemetry import events
from penstock.telemetry.events import KIND_NAMES, CountSample, kind_named


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
