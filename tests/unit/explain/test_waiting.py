"""Publishes that wait at a stopped queue although nobody blocks their publisher."""

import pytest

from penstock.explain.explain import explain
from penstock.explain.remarks import CONFIRMS
from penstock.telemetry.window import ActorWindow
from tests.unit.explain.scene import actor, held, scene

WHY = (
    "queue /full was blocked 100 % of the last 10 s, 100 % of that by the consumers of queue "
    "/full (no consumer)"
)


def parked(count: float = 50, blocked_ms: int = 10_000, now: int | None = 1) -> ActorWindow:
    """A full queue with `count` publishes of web-50 in its mailbox."""
    hold = held("consumers:/full", blocked_ms, "full")
    times = (10_000 - blocked_ms, 0, blocked_ms, 0)
    return actor("queue:/full", times, hold, numbers={"debt:conn:web-50": count}, since_ns=now)


def publisher(confirms: bool, sent: float = 50) -> tuple[ActorWindow, ActorWindow]:
    credit = {"credit_initial:queue:/full": 400.0, "credit_now:queue:/full": 400.0 - sent}
    labels = {CONFIRMS: "yes"} if confirms else {}
    return actor("conn:web-50"), actor("chan:web-50/1", numbers=credit, labels=labels)


@pytest.mark.parametrize(
    ("kind", "name", "who"),
    [
        ("publish", "", "web-50"),
        ("not", "", "web-50"),
        ("connection", "web-50", "web-50"),
        ("channel", "web-50/1", "web-50/1"),
    ],
)
def test_a_publisher_that_waits_for_confirms_is_told_where(kind: str, name: str, who: str) -> None:
    # Credit for what the queue took before is withheld, and no message stands for it.
    windows = scene(*publisher(confirms=True, sent=150), actor("conn:idle"), parked())
    answer = explain(kind, name, windows, 0)
    begin = f"{who} is not blocked, but 50 publishes wait unconfirmed at queue /full: "
    assert answer.text == begin + WHY
    assert answer.exit_status() == 0


def test_without_confirms_they_just_wait() -> None:
    windows = scene(*publisher(confirms=False, sent=1), parked(1))
    answer = explain("publish", "", windows, 0)
    assert answer.text == f"web-50 is not blocked, but 1 publish waits at queue /full: {WHY}"


def test_who_is_blocked_comes_before_who_waits() -> None:
    blocked = actor("conn:b", (5_000, 0, 5_000, 0), held("queue:/full", 5_000))
    windows = scene(*publisher(confirms=True), blocked, parked())
    assert explain("publish", "", windows, 0).subject == "conn:b"


@pytest.mark.parametrize("queue", [parked(0), parked(50, 4_000), parked(50, 10_000, None)])
def test_an_empty_mailbox_or_a_queue_that_goes_on_is_no_wait(queue: ActorWindow) -> None:
    windows = scene(*publisher(confirms=True, sent=0), queue)
    assert explain("publish", "", windows, 0).text == "nothing is blocked: nobody publishes"
    assert explain("channel", "web-50/1", windows, 0).text.startswith("web-50/1 is not blocked:")


@pytest.mark.parametrize(("blocked_ms", "is_told"), [(6_000, True), (4_000, False)])
def test_a_queue_that_stops_between_batches_is_told_while_it_takes_something(
    blocked_ms: int, is_told: bool
) -> None:
    shop = actor("conn:shop", rates={"published": 100.0})
    innocent = actor("conn:innocent", rates={"published": 900.0})
    answer = explain("publish", "", scene(shop, innocent, parked(1, blocked_ms, None)), 0)
    detail = (
        ", but who waits for confirms of queue /full waits with it: queue /full was blocked 60 % "
        "of the last 10 s, 100 % of that by the consumers of queue /full (no consumer)"
        if is_told
        else "; innocent is not blocked: idle 100 %, it simply sends 900/s"
    )
    assert answer.text == f"nothing is blocking any of 2 publishers{detail}"
    assert answer.exit_status() == 0


def test_what_waits_in_the_publishers_own_channel_counts_too() -> None:
    credit = {"credit_initial:chan:web-50/1": 400.0, "credit_now:chan:web-50/1": 295.0}
    sender = actor("conn:web-50", numbers={"debt_messages": 19.0, **credit})
    hold = held("queue:/full", 10_000)
    channel = actor("chan:web-50/1", (0, 0, 10_000, 0), hold, labels={CONFIRMS: "yes"}, since_ns=1)
    for kind, name in (("publish", ""), ("connection", "web-50")):
        text = explain(kind, name, scene(sender, channel, parked(0)), 0).text
        assert text.startswith(
            "web-50 is not blocked, but 19 publishes wait unconfirmed at web-50/1: "
            "web-50/1 was blocked 100 % of the last 10 s, 100 % of that by the consumers of"
        )


def test_another_connections_channel_is_none_of_ones_business() -> None:
    other = actor("chan:other/1", (0, 0, 10_000, 0), held("queue:/full", 10_000), since_ns=1)
    sender = actor("conn:web-50", numbers={"debt_messages": 19.0})
    text = explain("connection", "web-50", scene(sender, other, parked(0)), 0).text
    assert text.startswith("web-50 is not blocked:")
