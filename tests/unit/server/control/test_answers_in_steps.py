"""Whoever asks waits, nobody else: long answers are made in steps, and what goes in between is no
error."""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.base.steps import whole
from penstock.broker.broker import Broker
from penstock.explain.asking import Question, answering
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.routing.factory import make_exchange
from penstock.server.control.control_socket import json_steps
from penstock.server.control.questions_node import FILES, STEP_FILES, entries_in, open_files
from penstock.server.control.questions_objects import STEP_OFFERS, STEP_ROWS
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.snapshots import NS_PER_S, ActorSnapshot
from penstock.telemetry.window import STEP_WINDOWS
from tests.unit.broker.peer import Bed, Peer, PeerOutput, PeerShell, start_ok
from tests.unit.server.control.asked import questions

COUNT = 2_000


def crowd(broker: Broker, count: int = COUNT) -> None:
    vhost = broker.vhosts["/"]
    for number in range(count):
        vhost.add_queue(broker.make_queue(vhost, f"q{number:05}", False, False, "", {}))
        vhost.add_exchange(make_exchange("direct", f"e{number}", False))


def remembered(history: FlightHistory, broker: Broker, rounds: int = 3) -> None:
    """Rounds in which every queue stood still."""
    actors = {
        one.identity: ActorSnapshot(one.identity, "queue", numbers={"published": 0.0})
        for one in broker.queues_in("/")
    }
    for number in range(1, rounds + 1):
        history.push(number * NS_PER_S, actors)


@pytest.mark.parametrize(
    ("question", "least"),
    [
        ({"op": "queues", "limit": 1000}, COUNT // STEP_WINDOWS + 32),
        ({"op": "flow", "do": "edges", "limit": 1000}, COUNT // STEP_WINDOWS),
        ({"op": "flow", "do": "accounts", "limit": 1000}, COUNT // STEP_WINDOWS),
        ({"op": "flow", "do": "alarms"}, COUNT // STEP_WINDOWS),
        ({"op": "flow", "do": "top"}, COUNT // STEP_WINDOWS),
        ({"op": "why"}, COUNT // STEP_WINDOWS),
        ({"op": "why", "kind": "memory"}, COUNT // STEP_WINDOWS),
        ({"op": "status"}, COUNT // 256),
        ({"op": "vhosts"}, COUNT // 256),
        ({"op": "queues", "do": "readers"}, COUNT // 256),
        ({"op": "queues", "limit": 1000, "sort": "name"}, COUNT // STEP_WINDOWS + 32),
        ({"op": "objects", "do": "queues", "limit": 1000}, COUNT // STEP_OFFERS + 32),
        ({"op": "objects", "do": "consumers"}, COUNT // STEP_OFFERS),
        ({"op": "objects", "do": "bindings"}, COUNT // STEP_OFFERS),
        ({"op": "objects", "do": "exchanges", "name": "e7"}, COUNT // STEP_OFFERS),
        (
            {"op": "objects", "do": "exchanges", "limit": 1000},
            COUNT // STEP_OFFERS + 1000 // STEP_ROWS,
        ),
    ],
)
def test_many_small_steps_and_queues_that_go_in_between(
    question: dict[str, object], least: int
) -> None:
    bed = Bed()
    crowd(bed.broker)
    asking = questions(bed.broker)
    remembered(asking.history, bed.broker)
    steps: Any = asking.answer(question)
    assert isinstance(steps, Generator)
    vhost = bed.broker.vhosts["/"]
    count = 0
    answer = None
    while answer is None:
        try:
            next(steps)
            count += 1
            # Two of them go with each step, from either end.
            for queue in (next(iter(vhost.queues.values())), next(reversed(vhost.queues.values()))):
                vhost.remove_queue(queue)
        except StopIteration as end:
            answer = end.value
    assert count >= least - 2, f"{count} steps"
    assert isinstance(msgspec.json.decode(b"".join(whole(json_steps(answer)))), dict)


def test_a_window_is_the_one_that_was_newest_when_it_was_asked_for() -> None:
    bed = Bed()
    crowd(bed.broker, 200)
    history = FlightHistory()
    remembered(history, bed.broker, 70)
    steps = history.looking(60.0)
    next(steps)
    # Its first second is forgotten while the answer is made.
    for number in (71, 72):
        history.push(number * NS_PER_S, {})
    look = whole(steps)
    assert look.end_ns == 70 * NS_PER_S
    assert len(look.windows) == 200
    lengths = {one.window_ns // NS_PER_S for one in look.windows.values()}
    assert lengths <= {58, 59, 60}


def test_an_answer_in_steps_is_the_same_as_in_one_go() -> None:
    bed = Bed()
    crowd(bed.broker, 100)
    history = FlightHistory()
    remembered(history, bed.broker)
    question = Question("queue", "q00007", 2.0)
    steps = answering(history, question)
    next(steps)
    assert whole(steps) == whole(answering(history, question))


@pytest.mark.parametrize("count", [0, 1, 300, 1025])
def test_long_objects_are_written_in_pieces(count: int) -> None:
    value: dict[str, object] = {"n": 1, "queues": {f"q{one}": [one] for one in range(count)}}
    steps = json_steps(value)
    pieces = sum(1 for _ in json_steps(value))
    assert msgspec.json.decode(b"".join(whole(steps))) == value
    assert pieces >= count // 256


def test_files_of_very_many_connections_are_not_listed_in_one_go(tmp_path: Path) -> None:
    for number in range(3 * STEP_FILES):
        (tmp_path / str(number)).touch()
    assert len(list(entries_in(str(tmp_path)))) == 3
    assert whole(entries_in(str(tmp_path))) == 3 * STEP_FILES
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(50)]
    try:
        # The directory is open itself while it is listed.
        assert whole(open_files()) in (len(os.listdir(FILES)), len(os.listdir(FILES)) - 1)
    finally:
        for one in held:
            os.close(one)


@pytest.mark.parametrize("listing", ["connections", "channels"])
@pytest.mark.parametrize(
    "meant", [{}, {"user": "nobody"}, {"vhost": "/"}, {"name": "the only one"}], ids=str
)
def test_connections_that_are_not_meant_are_passed_over_in_steps(
    listing: str, meant: dict[str, object]
) -> None:
    bed = Bed()
    for number in range(10 * STEP_OFFERS):
        output = PeerOutput(bed.broker.scheduler.outputs, 1 << 20)
        bed.broker.accept("127.0.0.1", f"127.0.0.1:{number}", output, PeerShell(output))
    peer = Peer(bed, "127.0.0.1:last")
    peer.send(PROTOCOL_HEADER)
    peer.say(0, start_ok(name="the only one"), m.ConnectionTuneOk(9, 131_072, 0))
    peer.say(0, m.ConnectionOpen("/"))
    peer.say(1, m.ChannelOpen())
    steps: Any = questions(bed.broker).answer({"op": "objects", "do": listing, "limit": 1, **meant})
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer = end.value
            break
        count += 1
    assert count >= 10
    is_all = not meant and listing == "connections"
    assert answer["total"] == (10 * STEP_OFFERS + 1 if is_all else "user" not in meant)
