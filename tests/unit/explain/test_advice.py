"""Advice is drawn from the cause: it names the actor and the numbers it rests on."""

import pytest

from penstock.explain.advice import advise
from penstock.explain.explanation import RootCause
from penstock.telemetry.actor_window import ActorWindow
from tests.unit.explain.scene import actor, scene


def cause(root: str, reason: str, detail: str = "") -> RootCause:
    return RootCause(root, reason, detail, 10, 1.0, ("conn:a", "queue:/q"))


QUEUE = "queue:/q"


def queue(**numbers: float) -> ActorWindow:
    return actor(QUEUE, numbers=numbers)


@pytest.mark.parametrize(
    ("reason", "window", "words"),
    [
        ("cpu", actor(QUEUE, (0, 9, 0, 1), rates={"published": 6000}), ["busy 90 %", "6.0k/s"]),
        ("cpu", actor(QUEUE, (0, 9, 0, 1)), ["busy 90 %, and its work"]),
        (
            "disk",
            actor("store:/", rates={"syncs": 60.0, "sync_ns": 60 * 8.1e6}),
            ["one takes 8.1 ms", "more credit will not help"],
        ),
        (
            "consumer",
            queue(consumers=0, ready=1200),
            ["start a consumer on queue /q: 1 200 messages", "max-length"],
        ),
        ("socket", queue(socket_blocked=1.0), ["the reading thread behind"]),
        ("flow", actor("chan:a/1"), ["let the client of a/1 stop publishing"]),
        ("flow", actor("consumers:/q"), ["send channel.flow(active=true)"]),
        (
            "rate",
            actor("rate:queue:/q", numbers={"messages_per_s": 500.0}),
            ["penstock flow set rate.queue.messages:/q=1000/s", "spread the publishing"],
        ),
        (
            "rate",
            actor("rate:conn:a", numbers={"messages_per_s": 500.0}),
            ["penstock flow set rate.connection.messages=1000/s"],
        ),
        (
            "rate",
            actor(
                "rate:user:app",
                numbers={"messages_per_s": 500.0, "bytes_per_s": 1e6},
                rates={"published": 100.0},
            ),
            ["penstock flow set rate.user.bytes:app=2000000/s"],
        ),
        (
            "consumer",
            actor("consumers:/q", numbers={"consumers": 0, "ready": 12}),
            ["start a consumer on queue /q: 12 messages", "max-length"],
        ),
        (
            "consumer",
            actor(QUEUE, numbers={"prefetch": 20}, rates={"acked": 14, "published": 90}),
            ["add consumers on queue /q: 14/s are acked, 90/s come in", "prefetch from 20"],
        ),
        (
            "consumer",
            actor("consumer:c@conn:a", numbers={"prefetch": 2, "unacked": 2}, rates={"acked": 4}),
            ["beside consumer c@a: 4.0/s are acked", "now an ack takes 500 ms"],
        ),
        (
            "consumer",
            actor("consumer:c@conn:a", numbers={"prefetch": 3, "unacked": 3}),
            ["let consumer c@a ack: 3 deliveries have no answer", "add consumers beside"],
        ),
        (
            "consumer",
            actor(QUEUE, numbers={"prefetch": 3, "unacked": 6}),
            ["let the consumers of queue /q ack: 6 deliveries", "add consumers on queue /q"],
        ),
        ("consumer", actor(QUEUE), ["add consumers on queue /q"]),
        ("consumer", actor("consumers:/q"), ["add consumers on queue /q"]),
        ("credit", actor(QUEUE, (9, 1, 0, 0)), ["raise the credit", "idle 90 %"]),
        ("socket", actor("conn:a"), ["behind a"]),
        ("circle", actor(QUEUE), ["bug: conn:a → queue:/q"]),
        ("debt", actor("conn:a"), ["let a wait for confirms"]),
    ],
)
def test_advice_names_actor_and_numbers(reason: str, window: ActorWindow, words: list[str]) -> None:
    text = "\n".join(advise(cause(window.actor, reason), scene(window)))
    for word in words:
        assert word in text
    assert len(text.splitlines()) <= 2


def test_the_memory_alarm_points_at_the_largest_queue() -> None:
    windows = scene(
        actor("queue:/a", numbers={"bytes": 1e6}), actor("queue:/b", numbers={"bytes": 3e6})
    )
    first, second = advise(cause("alarm:memory", "alarm:memory"), windows)
    assert first == (
        "consume from or purge queue /b: it holds 3.0 MB, 75 % of what is in queues "
        "(penstock queues purge /b)"
    )
    assert "max-length-bytes" in second
    assert advise(cause("alarm:memory", "alarm:memory"), {}) == ()


def test_the_disk_alarm_asks_for_space_first() -> None:
    windows = scene(actor("queue:/a", numbers={"bytes": 1e6}))
    first, second = advise(cause("alarm:disk", "alarm:disk", "40.0 MB free"), windows)
    assert first == "free space on the broker's disk: 40.0 MB free"
    assert "queue /a" in second


def test_debt_points_at_the_queue_that_holds_it() -> None:
    windows = scene(actor("conn:a"), actor(QUEUE, numbers={"debt:conn:a": 1200}))
    first, _ = advise(cause("conn:a", "debt"), windows)
    assert first == "see why queue /q is slow: 1 200 messages of a are outstanding there"


def test_nothing_is_advised_where_nothing_is_known() -> None:
    assert advise(cause("gone", "cpu"), {}) == ()
    assert advise(cause(QUEUE, "pending"), scene(actor(QUEUE))) == ()
    assert advise(cause("consumers:/q", "consumer"), {})[0] == (
        "start a consumer on queue /q: it has none"
    )
    assert advise(cause("client", "consumer"), {}) == (
        "let client ack sooner, or add consumers beside it",
    )
