"""Consumers of several priorities: who is given a message, and what that costs over very many."""

import random
import sys
from types import FrameType

import pytest

from penstock.broker.queue import queue_actor
from penstock.protocol import methods as m
from penstock.simulation.laws.checks import check_place
from scripts.show_build import is_compiled
from tests.unit.broker.peer import Bed, Heard, Peer


def consume(peer: Peer, tag: str, priority: int, prefetch: int) -> None:
    arguments = {"x-priority": priority}
    peer.say(
        1,
        m.BasicQos(0, prefetch, False),
        m.BasicConsume("q", tag, no_wait=True, arguments=arguments),  # type: ignore[arg-type]  # as AMQP's
    )


def delivered(peer: Peer) -> list[Heard]:
    return [one for one in peer.heard() if isinstance(one.method, m.BasicDeliver)]


def calls_over(others: int) -> int:
    """Calls that eight messages cost, each of which a consumer of a high priority with a window of
    one is given and acknowledges, over so many `others` that have room."""
    bed = Bed()
    publisher, low, high = bed.connect("publisher"), bed.connect("low"), bed.connect("high")
    publisher.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    for number in range(others):
        consume(low, f"t{number}", number % 3, 5)
    consume(high, "high", 9, 1)
    high.heard()
    calls = 0

    def count(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    for number in range(9):
        if number == 1:
            # The first one has things made that stay.
            sys.setprofile(count)
        publisher.publish("q", b"x")
        high.say(1, m.BasicAck(number + 1))
    sys.setprofile(None)
    assert len(delivered(high)) == 9 and delivered(low) == []
    return calls


@pytest.mark.skipif(is_compiled(queue_actor.__name__), reason="compiled calls are not counted")
def test_a_message_costs_the_same_however_many_stand_by() -> None:
    few, many = calls_over(30), calls_over(1500)
    assert many <= few * 1.02


class Crowd:
    """Consumers of one queue, and what each of them has to be given. windows: prefetch and
    unanswered tags, by consumer tag; priorities: the same of priorities."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.bed = Bed()
        self.publisher = self.bed.connect("publisher")
        self.publisher.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
        self.peer = self.bed.connect("crowd")
        self.windows: dict[str, tuple[int, list[int]]] = {}
        self.priorities: dict[str, int] = {}
        self.published = 0
        self.got: list[int] = []
        self.of_the_gone: list[int] = []
        self.named = 0

    def with_room(self) -> list[str]:
        return [tag for tag, (window, tags) in self.windows.items() if len(tags) < window]

    def publish(self) -> None:
        for _ in range(self.chance.randrange(1, 6)):
            self.publisher.publish("q", b"%d" % self.published)
            self.published += 1

    def consume(self) -> None:
        tag = f"t{self.named}"
        self.named += 1
        priority, window = self.chance.randrange(-1, 3), self.chance.choice((1, 1, 2, 5))
        self.windows[tag] = (window, [])
        self.priorities[tag] = priority
        consume(self.peer, tag, priority, window)

    def cancel(self) -> None:
        if self.windows:
            tag = self.chance.choice(list(self.windows))
            self.of_the_gone += self.windows.pop(tag)[1]
            self.peer.say(1, m.BasicCancel(tag, no_wait=True))

    def acknowledge(self) -> None:
        lists = [tags for _, tags in self.windows.values() if tags]
        if self.of_the_gone:
            lists.append(self.of_the_gone)
        if lists:
            tags = self.chance.choice(lists)
            self.peer.say(1, m.BasicAck(tags.pop(self.chance.randrange(len(tags)))))

    def hear(self) -> None:
        """Everything that was delivered went to the highest priority that had room."""
        for one in delivered(self.peer):
            assert isinstance(one.method, m.BasicDeliver)
            tag = one.method.consumer_tag
            best = max(self.priorities[other] for other in self.with_room())
            assert tag in self.with_room() and self.priorities[tag] == best
            self.windows[tag][1].append(one.method.delivery_tag)
            self.got.append(int(one.body))

    def check(self) -> None:
        queue = self.bed.actor("q")
        for consumer in queue.consumers:
            check_place(queue, consumer)
        assert int(queue.messages.ready_count()) == self.published - len(self.got)
        assert not self.with_room() or len(self.got) == self.published


@pytest.mark.parametrize("seed", range(12))
def test_every_message_goes_once_and_to_the_highest_priority_with_room(seed: int) -> None:
    crowd = Crowd(seed)
    deeds = (crowd.publish, crowd.consume, crowd.cancel, crowd.acknowledge, crowd.acknowledge)
    for _ in range(250):
        crowd.chance.choice(deeds)()
        crowd.hear()
        crowd.check()
    assert crowd.got == sorted(crowd.got) == list(range(len(crowd.got)))
    crowd.peer.hang_up()
    crowd.bed.settle()
    assert not crowd.bed.actor("q").consumers


def test_turns_of_those_that_stood_by_go_on_where_they_were() -> None:
    bed = Bed()
    publisher, peer, high = bed.connect("publisher"), bed.connect("low"), bed.connect("high")
    publisher.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    for tag in "abcd":
        consume(peer, tag, 0, 100)
    consume(high, "high", 1, 1)
    got = ""
    for number in range(1, 5):
        publisher.publish("q", b"x", b"x")
        for one in delivered(peer):
            assert isinstance(one.method, m.BasicDeliver)
            got += one.method.consumer_tag
        high.say(1, m.BasicAck(number))
    assert sorted(got) == list("abcd"), "one each, although they stood by between two of them"
    bed.settle()
