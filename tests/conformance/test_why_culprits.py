"""Culprits of which `why` once named the wrong one or gave no figure; a live broker, own sockets.

What is true is known from outside: what the test did, counted and timed by its own client.
"""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

import pytest

from bench.outside.broker import LiveBroker
from bench.outside.wire import Connection, Consumer, Loop, Publisher
from tests.conformance.live import free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def loop() -> Iterator[Loop]:
    found = Loop()
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def broker(tmp_path: Path, loop: Loop) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path, free_port()) as found:
        found.loop = loop
        yield found


def milliseconds(text: str) -> float:
    """Of `one sync 15 ms`, `93 µs` or `1.2 s`."""
    found = re.search(r"one sync ([0-9.]+) (µs|ms|s)", text)
    assert found is not None, text
    return float(found[1]) * {"µs": 1e-3, "ms": 1.0, "s": 1e3}[found[2]]


def test_the_time_of_a_sync_is_that_of_the_window(broker: LiveBroker, loop: Loop) -> None:
    """A disk that was slow and is fast again was slow in the window all the same."""
    if not broker.has_slow_sync:
        pytest.skip("no C compiler")
    owner = Connection(loop, broker.port)
    owner.channel()
    owner.declare("kept", durable=True)
    Publisher(loop, broker.port, "kept", body=bytes(500), is_persistent=True, name="bulk")
    Consumer(loop, broker.port, "kept")
    broker.slow_disk(0.5)
    loop.run(6.0)
    broker.slow_disk(0.0)
    loop.run(3.0)
    text = broker.why_text("store", "/", window_s=60)
    count, seconds = broker.syncs()
    # The whole life of the broker; it goes on syncing, fast, while it is asked.
    truth_ms = seconds / count * 1e3
    assert truth_ms / 1.5 <= milliseconds(text) <= truth_ms * 1.5, (truth_ms, text)
    assert "is not blocked, it is what others wait for: disk at store /" in text
    assert " it holds          bulk" in text
    assert "faster disk" in text


def caused(answer: dict[str, object]) -> tuple[str, float, float]:
    """The first cause of an answer, its share of the blocked time, and the blocked share."""
    first = cast(list[dict[str, object]], answer["causes"])[0]
    blocked_share = cast(float, answer["blocked_share"])
    return cast(str, first["root"]), cast(float, first["share"]), blocked_share


def links(answer: dict[str, object]) -> list[tuple[object, object]]:
    chain = cast(list[dict[str, object]], answer["chain"])
    return [(link["who"], link["waits_for"]) for link in chain]


FULL: Final[dict[str, str | int | bool]] = {"x-max-length": 200, "x-overflow": "backpressure"}


def dead_letters_to(target: str, **arguments: str | int | bool) -> dict[str, str | int | bool]:
    return {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": target,
        **{f"x-{name.replace('_', '-')}": value for name, value in arguments.items()},
    }


def test_what_expires_into_a_full_target_blames_the_target(broker: LiveBroker, loop: Loop) -> None:
    owner = Connection(loop, broker.port)
    owner.channel()
    owner.declare("target", arguments=FULL)
    owner.declare(
        "source",
        arguments=dead_letters_to(
            "target", message_ttl=100, max_length=1000, overflow="backpressure"
        ),
    )
    sender = Publisher(loop, broker.port, "source", body=bytes(200), name="sender")
    loop.run(2.0)
    sent = sender.sent
    loop.run(5.0)
    assert sender.sent - sent < 2000, "the sender is held"
    answer = broker.why("connection", "sender", window_s=4)
    assert links(answer)[2:] == [
        ("queue:/source", "dead:/source"),
        ("dead:/source", "queue:/target"),
        ("queue:/target", "consumers:/target"),
    ]
    root, share, blocked = caused(answer)
    assert (root, round(share, 2)) == ("consumers:/target", 1.0)
    assert blocked > 0.95
    advice = " ".join(cast(list[str], answer["suggestions"]))
    assert "start a consumer on queue /target" in advice
    assert "ttl" not in advice and "/source" not in advice
    # What is advised helps.
    Consumer(loop, broker.port, "target")
    loop.run(5.0)
    assert sender.sent > sent + 2000


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_what_is_rejected_into_a_full_target_blames_the_target(
    tmp_path: Path, loop: Loop, strategy: str
) -> None:
    with LiveBroker(tmp_path, free_port(), "--queue-depth", "1000000") as broker:
        owner = Connection(loop, broker.port)
        owner.channel()
        owner.declare("target", arguments=FULL)
        rules = dead_letters_to("target", dead_letter_strategy=strategy, overflow="reject-publish")
        owner.declare("source", arguments=rules)
        Publisher(loop, broker.port, "source", body=bytes(1000), name="sender")
        Consumer(loop, broker.port, "source", prefetch=50, rejects=True, name="rejecter")
        loop.run(7.0)
        answer = broker.why("connection", "sender", window_s=4)
        root, share, blocked = caused(answer)
        assert root == "consumers:/target", answer["text"]
        assert share > 0.9 and blocked > 0.9
        assert ("dead:/source", "queue:/target") in links(answer)
        assert "prefetch" not in " ".join(cast(list[str], answer["suggestions"]))
        loop.close()


def command_in(advice: str) -> list[str]:
    """The words of the command that an advice ends with."""
    return advice.partition("penstock ")[2].split()


def suggestions_of(answer: dict[str, object]) -> list[str]:
    return cast(list[str], answer["suggestions"])


@pytest.mark.parametrize(
    ("scope", "key"),
    [
        ("user", "rate.user.messages:guest"),
        ("queue", "rate.queue.messages:/orders"),
        ("connection", "rate.connection.messages"),
    ],
)
def test_a_rate_limit_has_its_figures_and_the_command_that_helps(
    broker: LiveBroker, loop: Loop, scope: str, key: str
) -> None:
    owner = Connection(loop, broker.port)
    owner.channel()
    owner.declare("orders")
    sender = Publisher(loop, broker.port, "orders", body=bytes(200), window=100, name="sender")
    Consumer(loop, broker.port, "orders")
    assert broker.command("flow", "set", f"{key}=300/s").returncode == 0
    loop.run(4.0)
    began, sent = time.monotonic(), sender.sent
    loop.run(4.0)
    truth = (sender.sent - sent) / (time.monotonic() - began)
    answer = broker.why("connection", "sender", window_s=4)
    first = cast(list[dict[str, object]], answer["causes"])[0]
    assert cast(str, first["root"]).startswith(f"rate:{scope[:4]}"), answer["text"]
    found = re.fullmatch(r"limit 300/s; ([0-9.]+)/s passed", cast(str, first["detail"]))
    assert found is not None, first
    assert float(found[1]) == pytest.approx(truth, rel=0.3)
    words = command_in(suggestions_of(answer)[0])
    assert words == ["flow", "set", f"{key}=600/s"]
    assert broker.command(*words).returncode == 0
    loop.run(1.0)
    began, sent = time.monotonic(), sender.sent
    loop.run(3.0)
    assert (sender.sent - sent) / (time.monotonic() - began) > 1.5 * truth


def test_an_alarm_that_no_queue_explains_says_what_ends_it(broker: LiveBroker, loop: Loop) -> None:
    owner = Connection(loop, broker.port)
    owner.channel()
    owner.declare("orders")
    sender = Publisher(loop, broker.port, "orders", body=bytes(200), window=100, name="sender")
    Consumer(loop, broker.port, "orders")
    loop.run(1.0)
    assert broker.command("flow", "set", "memory.high=20MB").returncode == 0
    loop.run(5.0)
    answer = broker.why("connection", "sender", window_s=3)
    assert caused(answer)[0] == "alarm:memory"
    memory = suggestions_of(broker.why("memory", window_s=3))
    assert suggestions_of(answer)[0].partition("takes")[0] == memory[0].partition("takes")[0]
    words = command_in(memory[0])
    assert words[:2] == ["flow", "set"] and words[2].startswith("memory.high=")
    sent = sender.sent
    assert broker.command(*words).returncode == 0
    loop.run(4.0)
    assert sender.sent > sent + 1000, "what is advised ends the alarm"
