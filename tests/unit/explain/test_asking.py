"""One question, one answer: live and from a record alike."""

from dataclasses import replace

import pytest

from penstock.base.errors import OperatorError
from penstock.explain.alarm_advice import about_alarm
from penstock.explain.asking import Question, ask_why, explain_memory, render_memory
from penstock.explain.explanation import FREE, THROTTLED, ActorShare
from penstock.explain.kinds import UNNAMED, WHY_KINDS
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.snapshots import ActorSnapshot
from tests.unit.explain.scene import S, actor, held, scene
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
    name = "" if kind in UNNAMED else "x"
    assert ask_why(FlightHistory(), Question(kind, name)).text
    assert ask_why(flight(40), Question(kind, name)).text


@pytest.mark.parametrize("kind", UNNAMED)
def test_a_name_that_would_be_ignored_is_refused(kind: str) -> None:
    with pytest.raises(OperatorError, match=f"why {kind} is about the whole broker .* 'orders'"):
        ask_why(flight(5), Question(kind, "orders"))


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


NODE = actor("node", numbers={"used_bytes": 1.9e9, "limit_bytes": 1.8e9, "memory_bytes": 1e9,
                              "clear_bytes": 1.62e9, "base_bytes": 7e8})  # fmt: skip
ALARM = replace(actor("alarm:memory"), labels={"who": "publishing stopped for 1 of 2 connections"})


def full() -> dict[str, ActorWindow]:
    return scene(
        NODE,
        ALARM,
        actor("conn:a", (2, 0, 8, 0), held("alarm:memory", 8, "alarm"),
              numbers={"memory_bytes": 6e8}),
        actor("conn:b", numbers={"memory_bytes": 2e8}),
        actor("queue:/big", numbers={"bytes": 9e8}),
        actor("queue:/empty", numbers={"bytes": 0}),
        actor("user:guest@/", numbers={"ended_bytes": 2e8}),
    )  # fmt: skip


def was(held_bytes: float) -> dict[str, ActorWindow]:
    """The node at the start of the window."""
    return scene(actor("node", numbers={"memory_bytes": held_bytes}))


def test_the_alarm_is_set() -> None:
    answer = explain_memory(full(), was(0.9e9), 10)
    assert (answer.state, answer.exit_status(), answer.is_held) == (THROTTLED, 3, True)
    assert answer.stopped == (ActorShare("conn:a", 0.8),)
    assert [(one.name, one.bytes) for one in answer.queues] == [("queue:/big", 900_000_000)]
    assert render_memory(answer).splitlines() == [
        "memory: 1.9 GB of 1.8 GB used (106 %); the alarm is set",
        " effect            publishing stopped for 1 of 2 connections; consumers continue",
        " it ends           below 1.6 GB",
        " stopped           a 80 %",
        " messages hold     1.0 GB; the broker itself 700.0 MB; 200.0 MB is kept free after use, "
        "and buffers",
        " in queues         queue /big 900.0 MB (100 %)",
        " published by      a 600.0 MB (75 %)",
        " published by      b 200.0 MB (25 %)",
        " published by      connections that have ended: 200.0 MB",
        " trend             what messages hold grows by 10.0 MB/s",
        " try       consume from or purge queue /big: it holds 900.0 MB, 100 % of what is in "
        "queues (penstock queues purge /big)",
        " try       see who keeps up with it: penstock why queue /big",
        " try       bound queue /big with x-max-length-bytes so that it cannot recur",
    ]


def test_what_no_queue_holds_is_not_ended_by_a_purge() -> None:
    """The broker itself is above the mark, or publishes on their way are."""
    levels = {"used_bytes": 3e8, "limit_bytes": 2e8, "clear_bytes": 1.8e8}
    itself = scene(
        actor("node", numbers={**levels, "memory_bytes": 1e3}),
        actor("alarm:memory", numbers=levels),
        actor("queue:/small", numbers={"bytes": 1e3}),
        actor("conn:a", numbers={"debt_bytes": 100.0}),
    )
    found = about_alarm("alarm:memory", "", itself)
    assert found[0].endswith("penstock flow set memory.high=450MB")
    assert found[1].startswith("or have fewer connections, channels and queues: with 1 connections")
    on_their_way = {**itself, "node": actor("node", numbers={**levels, "memory_bytes": 2.5e8})}
    on_their_way["conn:b"] = actor("conn:b", numbers={"debt_bytes": 2.4e8})
    assert about_alarm("alarm:memory", "", on_their_way) == (
        "see what b waits for: 240.0 MB of 250.0 MB that is on its way is its work: "
        "penstock why connection b",
    )


def test_what_is_bounded_already_is_not_to_be_bounded() -> None:
    world = scene(
        actor("alarm:memory"),
        actor("queue:/q", numbers={"bytes": 9e8}, labels={"rules": "max-length-bytes 1000000000"}),
    )
    assert about_alarm("alarm:memory", "", world) == (
        "consume from or purge queue /q: it holds 900.0 MB, 100 % of what is in queues "
        "(penstock queues purge /q)",
    )


def test_a_forecast_before_the_alarm() -> None:
    windows = scene(
        actor("node", numbers={"used_bytes": 1e9, "limit_bytes": 2e9, "memory_bytes": 1e9})
    )
    answer = explain_memory(windows, was(0.9e9), 10)
    assert (answer.state, answer.exit_status()) == (FREE, 0)
    assert "the alarm in about 100 s at this rate" in render_memory(answer)
    shrinking = render_memory(explain_memory(windows, was(1.1e9), 10))
    assert "shrinks by 10.0 MB/s" in shrinking and "alarm in" not in shrinking
    far = render_memory(explain_memory(windows, was(1e9 - 50_000), 10))
    assert "grows by 5.0 kB/s" in far and "alarm in" not in far


def test_nothing_is_known_yet() -> None:
    assert render_memory(explain_memory({}, {}, 0)).startswith("memory: 0 bytes of 0 bytes used")
