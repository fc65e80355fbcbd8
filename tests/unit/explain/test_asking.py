"""One question, one answer: live and from a record alike."""

from dataclasses import replace

import pytest

from penstock.base.errors import OperatorError
from penstock.explain.asking import WHY_KINDS, Question, ask_why
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.snapshots import ActorSnapshot
from tests.unit.explain.scene import S
from tests.unit.telemetry.records import ADDRESS, flight


@pytest.mark.parametrize("name", ["web-7", ADDRESS, f"conn:{ADDRESS}", "conn:web-7"])
def test_a_connection_by_any_of_its_names(name: str) -> None:
    answer = ask_why(flight(90), Question("connection", name))
    assert answer.exit_status == 3
    assert answer.explanation["subject"] == "conn:web-7"
    assert answer.explanation["owners"] == ({"name": "conn:web-7", "share": 1.0},)
    causes = answer.explanation["causes"]
    assert isinstance(causes, tuple) and causes[0]["root"] == "consumers:/q"


def test_the_window_may_end_earlier() -> None:
    history = flight(90)
    early = ask_why(history, Question("connection", "web-7", 5.0, 75.0))
    assert early.exit_status == 0 and "is not blocked" in early.text
    with pytest.raises(OperatorError, match="reaches 89 s back"):
        ask_why(history, Question("connection", "web-7", ago_s=200.0))
    with pytest.raises(OperatorError, match="is not known"):
        ask_why(history, Question("connection", "web-7", ago_s=-1.0))


def test_a_broker_that_has_just_started_speaks_of_what_it_has_seen() -> None:
    text = ask_why(flight(24), Question("connection", "web-7", 60.0)).text
    assert "of the last 23 s" in text


@pytest.mark.parametrize("kind", WHY_KINDS)
def test_every_kind_has_an_answer_even_before_the_first_round(kind: str) -> None:
    assert ask_why(FlightHistory(), Question(kind, "x")).text
    assert ask_why(flight(40), Question(kind, "x")).text


def test_what_cannot_be_asked() -> None:
    with pytest.raises(OperatorError, match="unknown kind 'weather'"):
        ask_why(flight(5), Question("weather"))
    for window_s in (0.0, -1.0, 601.0, float("nan")):
        with pytest.raises(OperatorError, match="above 0 and at most 600"):
            ask_why(flight(5), Question(window_s=window_s))


def test_without_accounting_nothing_is_made_up() -> None:
    history = FlightHistory()
    node = ActorSnapshot("node", "node", labels={"accounting": "off"})
    history.push(S, {"node": node})
    with pytest.raises(OperatorError, match="time_accounting = false"):
        ask_why(history, Question())
    history.push(2 * S, {"node": replace(node, labels={"accounting": "on"})})
    assert ask_why(history, Question()).exit_status == 0


def test_memory_knows_what_was_held_before() -> None:
    answer = ask_why(flight(40), Question("memory"))
    assert answer.explanation["growth_bytes_per_s"] == 0.0
    assert "queue /q 500.0 kB (100 %)" in answer.text
