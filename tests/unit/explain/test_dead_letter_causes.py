"""A queue that is full of what has died blames where its dead letters go, and loses no time."""

from dataclasses import replace

import pytest

from penstock.base.steps import whole
from penstock.explain.dead_letter_causes import through_letters
from penstock.explain.explain import explain
from penstock.explain.graph_extension import beyond
from penstock.explain.render import render
from penstock.telemetry.actor_window import ActorWindow
from tests.unit.explain.scene import MS, actor, held, scene


def letters(*blocks: tuple[str, int, str], backlog: float = 0.0) -> ActorWindow:
    """The dead letters of queue /q: who held them, for how many ms and why."""
    return actor(
        "dead:/q",
        (0, 0, 10_000, 0),
        *(held(peer, ms, reason) for peer, ms, reason in blocks),
        numbers={"ready": 3.0, "unacked": 32.0, "backlog_bytes": backlog},
        labels={"queue": "queue:/q"},
        since_ns=0,
    )


def source(reason: str, ms: int = 10_000, bytes_: float = 100.0) -> ActorWindow:
    return actor(
        "queue:/q",
        (10_000 - ms, 0, ms, 0),
        held("consumers:/q", ms, reason),
        numbers={"bytes": bytes_},
    )


def blocks_of(*windows: ActorWindow) -> list[tuple[str, str, int]]:
    world = scene(*windows)
    whole(through_letters(world))
    queue = world["queue:/q"]
    assert sum(block.ns for block in queue.blocks) == queue.blocked_ns
    return [(block.peer, block.reason, block.ns // MS) for block in queue.blocks]


def test_as_long_as_letters_waited_they_are_blamed() -> None:
    assert blocks_of(source("full"), letters(("queue:/t", 7_000, "expired"))) == [
        ("dead:/q", "letters", 7_000),
        ("consumers:/q", "full", 3_000),
    ]


@pytest.mark.parametrize("reason", ["full", "depth"])
def test_what_expired_stays_in_the_way_of_either_bound(reason: str) -> None:
    found = blocks_of(source(reason), letters(("queue:/t", 10_000, "expired")))
    assert found == [("dead:/q", "letters", 10_000)]


def test_a_backlog_makes_a_queue_deep_but_not_full() -> None:
    late = letters(("queue:/t", 10_000, "late"), backlog=300.0)
    assert blocks_of(source("full"), late) == [("consumers:/q", "full", 10_000)]
    assert blocks_of(source("depth"), late) == [("dead:/q", "letters", 10_000)]


def test_a_small_backlog_is_not_why_a_queue_is_deep() -> None:
    late = letters(("queue:/t", 10_000, "late"), backlog=10.0)
    assert blocks_of(source("depth"), late) == [("consumers:/q", "depth", 10_000)]


def test_other_reasons_are_not_touched() -> None:
    stopped = replace(source("full"), blocks=(held("store:/", 10_000),))
    assert blocks_of(stopped, letters(("queue:/t", 10_000, "expired"))) == [
        ("store:/", "credit", 10_000)
    ]


def test_the_chain_names_the_target() -> None:
    world = beyond(
        scene(
            actor("conn:a", (0, 0, 10_000, 0), held("queue:/q", 10_000)),
            source("full"),
            letters(("queue:/t", 10_000, "expired")),
            actor("queue:/t", (0, 0, 10_000, 0), held("consumers:/t", 10_000, "full")),
            actor("consumers:/t", numbers={"consumers": 0.0, "ready": 200.0}),
        )
    )
    answer = explain("connection", "a", world, 0)
    assert [(cause.root, cause.reason) for cause in answer.causes] == [("consumers:/t", "consumer")]
    text = render(answer)
    assert "queue /q                       waits for" in text
    assert "the dead letters of queue /q   wait for room in        queue /t" in text
    assert "start a consumer on queue /t: 200 messages are ready" in text
    noted = explain("queue", "/q", world, 0).notes
    assert noted == ("queue /q has 3 dead letters (0 bytes) that wait for queue /t",)


def test_letters_without_a_target_are_a_root_of_their_own() -> None:
    nowhere = letters(("", 10_000, "late"), backlog=300.0)
    nowhere.labels["warned"] = "there is no dead-letter exchange 'x' in vhost '/'"
    world = beyond(scene(source("depth"), nowhere))
    answer = explain("queue", "/q", world, 0)
    assert [(cause.root, cause.reason) for cause in answer.causes] == [("dead:/q", "letters")]
    assert answer.causes[0].detail == (
        "there is no dead-letter exchange 'x' in vhost '/'; 35 dead letters wait"
    )
    assert answer.suggestions[0].startswith("declare and bind what the dead letters of queue /q")
