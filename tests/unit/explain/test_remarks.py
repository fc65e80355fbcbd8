"""Lines beside an answer: what a queue gave up, and a channel that mixes queues."""

import pytest

from penstock.explain.explain import explain
from penstock.explain.explanation import Cause
from penstock.explain.remarks import CONFIRMS, PARKS, about_mixture, mixture_on, notes_on, unmix
from penstock.explain.render import render
from penstock.telemetry.window import ActorWindow
from tests.unit.explain.scene import actor, held, scene

STALLED = Cause("consumers:/slow", "consumer", "", 10, 1.0, ("conn:a", "chan:a/1", "queue:/slow"))


def mixing(
    labels: dict[str, str],
    queues: tuple[str, ...] = ("slow", "fast"),
    routed: float = 800,
    sent: float = 400,
) -> dict[str, ActorWindow]:
    """Connection a with one channel that publishes to `queues`, the first of which holds it."""
    credit = {f"credit_initial:queue:/{name}": 400.0 for name in queues}
    return scene(
        actor("conn:a", (0, 0, 9, 0), held("chan:a/1", 9), numbers={"routed": routed}),
        actor("chan:a/1", (0, 0, 9, 0), held("queue:/slow", 9), numbers=credit, labels=labels),
        *(actor(f"queue:/{name}", numbers={"sent:conn:a": sent}) for name in queues),
    )


def test_who_publishes_to_a_stopped_queue_and_a_running_one_is_told_to_part_them() -> None:
    found = mixture_on(STALLED, mixing({PARKS: "yes"}))
    assert found is not None
    assert (found.channel.actor, found.holders, found.others) == (
        "chan:a/1", ("queue:/slow",), ("queue:/fast",),
    )  # fmt: skip
    assert about_mixture(found) == (
        "a/1 publishes to queue /fast too: behind a publish that queue /slow does not take, and "
        "the next one without a place, all wait"
    )


@pytest.mark.parametrize(
    ("labels", "end"),
    [
        ({PARKS: "yes"}, ", or keep fewer than 400 publishes unconfirmed (confirm.select)"),
        ({PARKS: "yes", CONFIRMS: "yes"}, ", or keep fewer than 400 publishes unconfirmed"),
        ({CONFIRMS: "yes"}, ""),
    ],
)
def test_what_helps_depends_on_parking_and_confirms(labels: dict[str, str], end: str) -> None:
    found = mixture_on(STALLED, mixing(labels))
    assert found is not None
    first = "publish to queue /slow over a channel, better a connection, of its own"
    assert unmix(found) == first + end


def test_a_channel_of_one_queue_mixes_nothing() -> None:
    assert mixture_on(STALLED, mixing({}, queues=("slow",))) is None


def test_copies_of_the_same_publishes_cannot_be_parted() -> None:
    assert mixture_on(STALLED, mixing({}, routed=400, sent=400)) is None


def test_a_channel_that_nobody_holds_mixes_nothing() -> None:
    windows = mixing({})
    windows["chan:a/1"] = actor("chan:a/1", numbers=windows["chan:a/1"].numbers)
    assert mixture_on(STALLED, windows) is None


def test_many_queues_are_counted() -> None:
    found = mixture_on(STALLED, mixing({}, ("slow", "b", "c", "d", "e", "f")))
    assert found is not None
    assert "queue /b, queue /c, queue /d and 2 more" in about_mixture(found)


def test_the_answer_has_the_note_and_the_advice_first() -> None:
    text = render(explain("channel", "a/1", mixing({PARKS: "yes"}), 0))
    assert "\n note      a/1 publishes to queue /fast too" in text
    assert text.index("try       publish to queue /slow over a channel") == text.index("try ")


def test_drops_are_named_by_reason_the_present_ones_first() -> None:
    window = actor(
        "queue:/q",
        numbers={"dropped:expired": 1200, "dropped:maxlen": 40, "dead_letter_dropped:no route": 3},
        rates={"dropped:maxlen": 4.0},
    )
    assert notes_on(window) == (
        "gave up messages: 4.0/s over its limit (40 in all), 1 200 expired",
        "lost dead letters: 3 no route",
    )


def test_a_queue_that_gave_up_nothing_has_no_note() -> None:
    assert notes_on(actor("queue:/q", numbers={"ready": 5, "dropped:expired": 0})) == ()
    assert notes_on(actor("conn:a", labels={"paused": "yes"})) == ()


def test_why_queue_tells_of_drops_and_a_pause_although_nothing_is_blocked() -> None:
    windows = scene(
        actor("queue:/q", numbers={"dropped:refused": 7}, labels={"paused": "yes"}),
    )
    assert render(explain("queue", "/q", windows, 0)).splitlines() == [
        "queue /q is not blocked: busy 0 %",
        " note      queue /q is paused: consumers are given nothing (penstock queues resume /q)",
        " note      queue /q gave up messages: 7 refused to publishers",
    ]
