"""`penstock why` names what unmodified clients wait for by their own choice; with a disk."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, cast

import pytest
from pamqp import body, commands, frame, header
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import UnroutableError

from penstock.server.control.control_client import ask, control_path
from tests.conformance.live import Broker
from tests.conformance.peer import Frame, Peer
from tests.conformance.test_restart import CLI, connected, serving
from tests.patience import undisturbed, waited_for_processor_s

WINDOW_S = 4.0
LATE_S = 0.5
SAFE = BasicProperties(delivery_mode=2)
BODY = b"x" * 200


class Told(NamedTuple):
    """first: the longest of the waits; a_second: how often the step was done; lost_share: of the
    time, in which the client itself waited for a processor."""

    first: dict[str, object]
    explanation: dict[str, object]
    text: str
    a_second: float
    lost_share: float

    def share(self) -> float:
        return cast(float, self.first["share"])

    def stages(self) -> dict[str, float]:
        return cast(dict[str, float], self.first["stages"])


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A broker of its own, with a data directory."""
    with serving(tmp_path_factory.mktemp("why"), signal.SIGTERM) as found:
        yield found


@pytest.fixture
def channel(port: int) -> Iterator[BlockingChannel]:
    with connected(port) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        yield channel


def told(port: int, kind: str, name: str, step: Callable[[], object]) -> Told:
    """What is said of an actor while its client does `step` again and again."""

    def measure() -> Told:
        began, count, lost_s = time.monotonic(), 0, waited_for_processor_s(os.getpid())
        while time.monotonic() - began < WINDOW_S + 2.0:
            step()
            count += 1
        took_s = time.monotonic() - began
        lost_share = (waited_for_processor_s(os.getpid()) - lost_s) / took_s
        request: dict[str, object] = {"op": "why", "kind": kind, "name": name, "window_s": WINDOW_S}
        answer = ask(control_path(port), request)
        explanation = cast(dict[str, object], answer["explanation"])
        waits = cast(list[dict[str, object]], explanation["waits"])
        assert waits, answer["text"]
        return Told(waits[0], explanation, str(answer["text"]), count / took_s, lost_share)

    return undisturbed(measure, LATE_S)


def name_of(channel: BlockingChannel) -> str:
    host, number = channel.connection._impl._transport._sock.getsockname()
    return f"{host}:{number}"


def test_the_disk_is_what_a_publisher_with_confirms_waits_for(
    port: int, channel: BlockingChannel, tmp_path: Path
) -> None:
    channel.confirm_delivery()
    found = told(
        port,
        "connection",
        name_of(channel),
        lambda: channel.basic_publish("", "orders", BODY, SAFE),
    )
    assert found.first["for"] == "confirms"
    assert "waits for confirms" in found.text and "keep 20 in flight" in found.text
    assert "it simply sends" not in found.text
    stages = found.stages()
    assert sum(stages.values()) == pytest.approx(cast(float, found.first["mean_ms"]))
    assert max(stages, key=lambda name: stages[name]) == "sync"
    # The store's own books, out of a record, and the client's own count say the same.
    saved = tmp_path / "one.pflow"
    subprocess.run([*CLI, "record", "save", "--port", str(port), "-o", str(saved)], check=True)
    replayed = subprocess.run(
        [*CLI, "replay", str(saved), "why", "connection", name_of(channel)],
        capture_output=True, encoding="utf-8",
    )  # fmt: skip
    assert "waits for confirms" in replayed.stdout
    assert found.share() >= 0.8 * stages["sync"] / 1000 * found.a_second


def test_who_does_nothing_else_waits_most_of_its_time(port: int) -> None:
    """A client that answers a confirm at once: what is left is its own reading and writing, which
    is the larger a part, the faster the disk answers."""
    with Peer(Broker("127.0.0.1", port)) as peer:
        peer.open()
        peer.send(1, commands.Confirm.Select())
        peer.expect(commands.Confirm.SelectOk)
        peer.send(1, commands.Queue.Declare(queue="orders", durable=True))
        peer.expect(commands.Queue.DeclareOk)
        parts: tuple[Frame, ...] = (
            commands.Basic.Publish(0, "", "orders"),
            header.ContentHeader(0, len(BODY), commands.Basic.Properties(delivery_mode=2)),
            body.ContentBody(BODY),
        )
        # In one piece: what a client sends in several waits for Nagle's algorithm, and not for us.
        message = b"".join(frame.marshal(part, 1) for part in parts)

        def step() -> None:
            peer.send_bytes(message)
            peer.expect(commands.Basic.Ack)

        host, number = peer.socket.getsockname()
        found = told(port, "connection", f"{host}:{number}", step)
    assert found.first["for"] == "confirms"
    assert found.share() + found.lost_share >= 0.6, json.dumps(found.explanation)


def test_a_commit(port: int, channel: BlockingChannel) -> None:
    channel.tx_select()

    def step() -> None:
        channel.basic_publish("", "orders", BODY, SAFE)
        channel.tx_commit()

    found = told(port, "channel", f"{name_of(channel)}/1", step)
    assert (found.first["for"], found.first["in_flight"]) == ("tx.commit-ok", 1.0)
    assert max(found.stages().items(), key=lambda one: one[1])[0] == "sync"
    assert "commit 20 publishes at once" in found.text


def test_a_return(port: int, channel: BlockingChannel) -> None:
    channel.confirm_delivery()

    def step() -> None:
        with suppress(UnroutableError):
            channel.basic_publish("", "nobody", BODY, SAFE, mandatory=True)

    found = told(port, "connection", name_of(channel), step)
    assert found.first["for"] == "basic.return"
    assert set(found.stages()) <= {"read", "channel"}


def test_a_declare(port: int, channel: BlockingChannel) -> None:
    step = lambda: channel.queue_declare("orders", durable=True)  # noqa: E731
    found = told(port, "connection", name_of(channel), step)
    assert found.first["for"] == "queue.declare-ok"
    assert set(found.stages()) <= {"read", "channel"}
    total = found.share() + cast(float, found.explanation["own_share"])
    assert total == pytest.approx(1.0)


def test_a_consumer_with_a_prefetch_of_one(port: int, channel: BlockingChannel) -> None:
    for _ in range(60_000):
        channel.basic_publish("", "orders", b"")
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(
        "orders", lambda c, m, p, b: c.basic_ack(m.delivery_tag), consumer_tag="one"
    )
    found = told(
        port, "consumer", "one", lambda: channel.connection.process_data_events(time_limit=0.01)
    )
    assert found.first["for"] == "basic.deliver"
    assert "the next delivery" in found.text
    assert found.share() + cast(float, found.explanation["own_share"]) <= 1.0
