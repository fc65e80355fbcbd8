"""Why messages stay: a reader group that is behind, and what more consumers would not help."""

import pytest

from penstock.explain.advice import advise
from penstock.explain.blame import Stay, Step
from penstock.explain.consumer_causes import consumer_detail, lease_detail
from penstock.explain.explanation import RootCause
from penstock.explain.root_causes import name_cause
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.words import called
from tests.unit.explain.scene import S, actor, scene

GROUP = "group:etl@/orders"
NUMBERS = {
    "lag_messages": 2400.0, "lag_messages_max": 2000.0, "lag_bytes": 281_600.0,
    "lag_bytes_max": 0.0, "position": 1200.0, "still_ns": 9_100_000_000.0,
}  # fmt: skip
STAY = Stay(GROUP, 10, (Step("queue:/orders", GROUP, "lag", 10),), False)


def test_the_root_is_the_group_and_says_how_far_behind_it_is() -> None:
    window = actor(GROUP, (0, 0, 0, 0), numbers=NUMBERS)
    assert name_cause(STAY, {GROUP: window}) == (
        "lag",
        "2 400 messages behind of 2 000, 281.6 kB; at offset 1 200 for 9.1 s",
    )
    assert name_cause(STAY, {}) == ("lag", "")
    assert called(GROUP) == "reader group etl of stream /orders"


def test_a_group_that_has_not_moved_for_long_may_be_ended() -> None:
    cause = RootCause(GROUP, "lag", "", 10, 1.0, ())
    numbers = dict(NUMBERS)
    assert len(advise(cause, {GROUP: actor(GROUP, (0, 0, 0, 0), numbers=numbers)})) == 1
    numbers["still_ns"] = 61e9
    first, _ = advise(cause, {GROUP: actor(GROUP, (0, 0, 0, 0), numbers=numbers)})
    assert "stream.group.remove" in first


ALL = actor(
    "consumers:/orders",
    numbers={"consumers": 1, "prefetch_full_share": 1.0, "unacked": 20, "prefetch": 20},
    rates={"acked": 10.0},
    labels={"queue": "queue:/orders"},
)
LEASE = actor(
    "consumer:etl@conn:a",
    numbers={"unacked": 20, "lease_bytes": 43_200, "lease_ns": 4.0 * S},
    labels={"queue": "queue:/orders", "lease": "spark query etl"},
)
OTHER = actor("consumer:x@conn:b", labels={"queue": "queue:/bills", "lease": "spark query bills"})
SAID = "spark query etl holds 20 messages, 43.2 kB, for 4.0 s"


def test_whoever_leases_is_named_for_the_queue_and_its_consumers() -> None:
    windows = scene(ALL, LEASE, OTHER)
    queue = actor("queue:/orders")
    assert lease_detail(queue, windows) == SAID
    assert lease_detail(LEASE, windows) == SAID
    assert consumer_detail(ALL, windows) == f"{SAID}; 10/s acked"


def test_a_queue_without_leases_has_nothing_of_it() -> None:
    assert lease_detail(ALL, scene(ALL, OTHER)) == ""
    assert "spark" not in consumer_detail(ALL, scene(ALL, OTHER))


def test_the_advice_is_about_the_query() -> None:
    cause = RootCause("consumers:/orders", "consumer", "", S, 1.0, ("queue:/orders",))
    found = advise(cause, scene(ALL, LEASE))
    assert "maxOffsetsPerTrigger" in found[0]
    assert "spark query etl" in found[0]


def consumers(labels: dict[str, str], redelivered: float = 0.0) -> ActorWindow:
    return actor(
        "consumers:/q",
        numbers={"consumers": 2.0, "ready": 300.0, "prefetch": 20.0, "prefetch_full_share": 1.0},
        rates={"delivered": 100.0, "redelivered": redelivered, "acked": 10.0},
        labels=labels,
    )


@pytest.mark.parametrize(
    ("window", "detail", "advice"),
    [
        (
            consumers({"paused": "yes"}),
            "it is paused: consumers are given nothing; 300 ready",
            "let its consumers go on: penstock queues resume /q",
        ),
        (
            consumers({}, redelivered=95.0),
            "its 2 consumers give back 95/s of what they get; 300 ready",
            "reject without requeue what cannot be worked on: the consumers of queue /q are given "
            "the same messages again, 95/s",
        ),
        (
            consumers({"single_active": "yes"}),
            "prefetch window full 100 %",
            "let the one consumer that queue /q gives messages to ack sooner, or end it: it is the "
            "single active one, and those beside it are given nothing",
        ),
    ],
)
def test_what_more_consumers_would_not_help(window: ActorWindow, detail: str, advice: str) -> None:
    assert consumer_detail(window).startswith(detail)
    cause = RootCause("consumers:/q", "consumer", consumer_detail(window), 1, 1.0, ())
    found = advise(cause, {window.actor: window})
    assert found[0] == advice
    assert not any("add consumers" in one for one in found)
