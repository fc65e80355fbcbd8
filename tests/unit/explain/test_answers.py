"""Who waits by its own choice: what is said of it, and what would help."""

from typing import Any, cast

import pytest

from penstock.explain.answers import client_line, own_share, waits_of
from penstock.explain.asking import Question, ask_why
from penstock.explain.explain import explain, render
from penstock.telemetry.actor_window import ActorWindow, difference
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.snapshots import ActorSnapshot, Times
from tests.unit.explain.scene import MS, S, actor, held, scene

PIKA = {"client": "Pika Python Client Library 1.4.4", "peer": "10.0.5.31:51544"}


def waited(answer: str, count: float, each_ms: float, flying: float = 1.0) -> dict[str, float]:
    """Rates of a client that has `count` waits a second, 95 % of each for the sync."""
    ns = count * each_ms * MS
    prefix = f"wait:{answer}:"
    return {
        prefix + "ns": ns,
        prefix + "count": count,
        prefix + "flying": count * flying,
        prefix + "sync": ns * 0.95,
        prefix + "read": ns * 0.05,
    }


def publisher(rates: dict[str, float], name: str = "conn:web-7") -> ActorWindow:
    return actor(name, (9_900, 100, 0, 0), rates=rates, labels=PIKA)


ONE_BY_ONE = publisher({"published": 258.0} | waited("confirms", 258.0, 3.8))


def test_who_publishes_one_by_one_is_told_so_first() -> None:
    found = explain("connection", "web-7", scene(ONE_BY_ONE), 0)
    assert found.text == (
        "web-7 waits for confirms 98 % of the last 10 s, not blocked: it sends 258/s, 3.8 ms "
        "each, 1 in flight"
    )
    assert found.exit_status() == 0
    assert found.own_share == pytest.approx(0.0196)
    text = render(found)
    assert "each wait 3.6 ms the sync of the disk · 190 µs until it is read" in text
    assert "its own   2 %: 76 µs from an answer to what it sends next" in text
    # 20 ÷ (3.61 ms + 20 × 266 µs)
    assert "keep 20 in flight instead of 1: about 2.2k/s instead of 258/s" in text
    assert "pika.SelectConnection, or aio-pika: await asyncio.gather" in text
    assert "penstock perf --flag persistent --confirm 20" in text


@pytest.mark.parametrize("kind", ["publish", "not"])
def test_nobody_blocked_does_not_mean_nobody_waits(kind: str) -> None:
    other = publisher({"published": 9000.0}, "conn:bulk")
    found = explain(kind, "", scene(ONE_BY_ONE, other), 0)
    assert found.text.startswith("nothing is blocking any of 2 publishers, but web-7 waits for")
    assert (found.exit_status(), found.unaffected) == (0, 2)


def test_a_commit_a_return_and_a_declare() -> None:
    commit = publisher({"published": 300.0} | waited("tx.commit-ok", 60.0, 16.0, 5.0))
    text = render(explain("connection", "web-7", scene(commit), 0))
    assert "waits for tx.commit-ok 96 %" in text and "60/s, 16 ms each, 5 publishes in one" in text
    assert "commit 20 publishes at once instead of 5" in text
    back = publisher({"published": 500.0} | waited("basic.return", 500.0, 1.0))
    assert "bind a queue" in render(explain("connection", "web-7", scene(back), 0))
    declare = publisher({"published": 100.0} | waited("queue.declare-ok", 100.0, 5.0))
    text = render(explain("connection", "web-7", scene(declare), 0))
    assert "waits for queue.declare-ok 50 %" in text
    assert "do queue.declare once" in text and "about 200/s instead of 100/s" in text


def test_many_in_flight_are_not_told_to_have_more() -> None:
    many = publisher({"published": 90_000.0} | waited("confirms", 100.0, 8.0, 900.0))
    found = explain("connection", "web-7", scene(many), 0)
    assert "900 in flight" in found.text and found.suggestions == ()


def test_who_is_blocked_is_told_of_that() -> None:
    blocked = actor(
        "conn:web-7", (5_000, 0, 5_000, 0), held("queue:/q", 5_000),
        rates=dict(ONE_BY_ONE.rates),
    )  # fmt: skip
    found = explain("connection", "web-7", scene(blocked), 0)
    assert found.exit_status() == 3 and "waits for confirms" not in found.text
    assert found.waits[0].answer == "confirms" and found.own_share == 0.0


def test_a_queue_names_who_waits_for_its_confirms() -> None:
    queue = actor("queue:/orders", rates={"published": 258.0, "sent:conn:web-7": 258.0})
    (note,) = explain("queue", "orders", scene(ONE_BY_ONE, queue), 0).notes
    assert note == (
        "queue /orders is published to by web-7, which waits for confirms 98 % of the time "
        "(penstock why connection web-7)"
    )


def test_shares_stay_within_the_window_whatever_ran_at_its_edges() -> None:
    over = publisher(waited("confirms", 1.0, 900.0) | waited("queue.bind-ok", 2.0, 300.0))
    waits = waits_of(over)
    assert sum(wait.share for wait in waits) == pytest.approx(1.0)
    assert own_share(over, waits) == pytest.approx(0.0)
    assert all(sum(ns for _, ns in wait.stages) == wait.mean_ns for wait in waits)


def test_the_most_in_flight_is_that_of_any_round() -> None:
    rounds = [
        ActorSnapshot("conn:a", "conn", times=Times(at * S), numbers={"wait_most:confirms": most})
        for at, most in ((1, 3.0), (2, 9.0), (3, 1.0))
    ]
    assert difference(rounds[0], rounds[2], rounds[1:]).numbers["wait_most:confirms"] == 9.0


def test_json_and_a_history_without_such_books() -> None:
    history = FlightHistory()
    for second in (1, 11):
        numbers = {"published": 258.0 * second}
        numbers |= {key: rate * second for key, rate in waited("confirms", 258.0, 3.8).items()}
        web = ActorSnapshot("conn:web-7", "conn", times=Times(second * S), numbers=numbers)
        old = ActorSnapshot("conn:old", "conn", times=Times(second * S), numbers={"published": 1.0})
        history.push(second * S, {"conn:web-7": web, "conn:old": old})
    fields = ask_why(history, Question("connection", "web-7")).explanation
    (wait,) = cast(list[dict[str, Any]], fields["waits"])
    assert (wait["for"], wait["count"], wait["in_flight"]) == ("confirms", 2580, 1.0)
    assert sum(wait["stages"].values()) == pytest.approx(wait["mean_ms"]) == 3.8
    assert fields["own_share"] == pytest.approx(1 - wait["share"])
    without = ask_why(history, Question("connection", "old"))
    assert without.explanation["waits"] == [] and "is not blocked" in without.text


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"client": "aiormq 6.9"}, "asyncio.gather"),
        ({"client": "py-amqp 5.3"}, "confirm_publish"),
        ({"client": "RabbitMQ 5.21", "platform": "Java"}, "waitForConfirmsOrDie"),
        ({"client": "RabbitMQ 7.0", "platform": ".NET 9"}, "Task.WhenAll"),
        ({"client": "AMQP 0.9.1 Client β"}, "PublishWithDeferredConfirm"),
        ({}, "before the confirm of the first"),
    ],
)
def test_the_line_is_in_the_clients_own_words(labels: dict[str, str], words: str) -> None:
    window = actor("conn:x", labels=labels)
    channel = actor("chan:x/1")
    assert words in client_line(channel, scene(window, channel))


def consumer(prefetch: float, answer_ms: float, given_ms: float, acked: float) -> ActorWindow:
    return actor(
        "consumer:one@conn:w", (300, 0, 0, 9_700),
        numbers={"prefetch": prefetch, "unacked": prefetch, "prefetch_full_share": 1.0},
        rates={"acked": acked, "held_ns": 0.97 * S, "answer_ns": acked * answer_ms * MS,
               "given_ns": acked * given_ms * MS, "given_count": acked},
    )  # fmt: skip


def test_a_consumer_that_acks_one_by_one_is_idle_in_between() -> None:
    found = explain("consumer", "one", scene(consumer(1.0, 0.6, 0.4, 1000.0)), 0)
    text = render(found)
    assert "an ack comes 600 µs after its delivery, the next delivery 400 µs after the ack" in text
    assert "acks each message before it has the next" in text
    assert "raise the prefetch from 1 to 20" in text and "1.7k/s instead of 1.0k/s" in text
    (wait,) = found.waits
    assert (wait.answer, wait.share, wait.mean_ns) == ("basic.deliver", 0.4, 400_000)
    assert found.own_share == 0.6


def test_a_slow_consumer_gains_nothing_by_a_larger_prefetch() -> None:
    text = render(explain("consumer", "one", scene(consumer(1.0, 5.0, 0.1, 190.0)), 0))
    assert "raise the prefetch from 1 to 20" not in text and "add consumers" in text
