"""A window that the consumers of a channel share, under any order of turns and answers.

When nothing is ready to run, nobody waits in line for room that there is, nobody with room and
messages is forgotten, and the line and the ready rings of the queues do not overlap. That turns go
round is in tests/unit/broker/channel/test_shared_prefetch.
"""

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.broker.actors.actor import Actor, Picker
from penstock.broker.channel.channel import Channel
from penstock.broker.queue.queue_actor import QueueActor
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from tests.unit.broker.peer import Bed, Peer, publish

QUEUES: dict[str, Table] = {
    "plain": {},
    "other": {},
    "ttl": {"x-message-ttl": 1_000_000},
    "high": {"x-max-priority": 2},
    "short": {"x-max-length": 6},
}


class Shuffled(Picker):
    """Any actor may be next."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, ready: list[Actor]) -> int:
        return self.random.randrange(len(ready))

    def budget(self, budget: int) -> int:
        return self.random.choice((1, 3, budget))


class SharedPrefetch(RuleBasedStateMachine):
    """Channel 1 consumes, channel 2 does everything else."""

    @initialize(seed=st.integers(0, 1000), window=st.integers(1, 5), bytes_=st.sampled_from((0, 9)))
    def begin(self, seed: int, window: int, bytes_: int) -> None:
        self.bed = Bed()
        self.bed.broker.scheduler.picker = Shuffled(seed)
        self.bed.broker.scheduler.is_exploring = True
        self.peer: Peer = self.bed.connect(channels=2)
        self.open: list[int] = []
        self.unanswered = dict.fromkeys(QUEUES, True)
        self.window = window
        for name, arguments in QUEUES.items():
            self.peer.say(2, m.QueueDeclare(name, arguments=arguments))
        self.peer.say(1, m.BasicQos(bytes_, window, True))
        for name in QUEUES:
            self.peer.say(1, m.BasicConsume(name, name))

    def channel(self) -> Channel:
        return self.peer.connection.channels[1]

    def queue(self, name: str) -> QueueActor:
        return self.bed.broker.vhosts["/"].queues[name]

    def hear(self) -> None:
        for one in self.peer.heard():
            method = one.method
            if isinstance(method, m.BasicDeliver) and self.unanswered[method.consumer_tag]:
                self.open.append(method.delivery_tag)

    @rule(name=st.sampled_from(sorted(QUEUES)), sizes=st.lists(st.integers(0, 12), max_size=8))
    def publish(self, name: str, sizes: list[int]) -> None:
        self.peer.send(*(publish(2, "", name, bytes(size)) for size in sizes))

    @rule(data=st.data(), multiple=st.booleans(), word=st.sampled_from("arq"))
    def answer(self, data: st.DataObject, multiple: bool, word: str) -> None:
        self.hear()
        if not self.open:
            return
        tag = data.draw(st.sampled_from(self.open))
        gone = [one for one in self.open if one == tag or (multiple and one < tag)]
        self.open = [one for one in self.open if one not in gone]
        if word == "a":
            self.peer.say(1, m.BasicAck(tag, multiple))
        else:
            self.peer.say(1, m.BasicNack(tag, multiple, word == "q"))

    @rule(name=st.sampled_from(sorted(QUEUES)), deed=st.sampled_from(("get", "purge", "look")))
    def meddle(self, name: str, deed: str) -> None:
        said: m.Method = m.BasicGet(name, no_ack=True)
        if deed == "purge":
            said = m.QueuePurge(name)
        elif deed == "look":
            said = m.QueueDeclare(name, passive=True)
        self.peer.say(2, said)

    @rule(name=st.sampled_from(sorted(QUEUES)), no_ack=st.booleans(), own=st.integers(0, 2))
    def consume_anew(self, name: str, no_ack: bool, own: int) -> None:
        self.hear()
        self.peer.say(1, m.BasicCancel(name), m.BasicQos(0, own, False))
        self.unanswered[name] = not no_ack
        self.peer.say(1, m.BasicConsume(name, name, no_ack=no_ack))

    @rule(window=st.integers(0, 5))
    def widen(self, window: int) -> None:
        self.window = window
        self.peer.say(1, m.BasicQos(0, window, True))

    @rule(is_active=st.booleans())
    def flow(self, is_active: bool) -> None:
        self.peer.say(1, m.ChannelFlow(is_active))

    @invariant()
    def nobody_is_forgotten(self) -> None:
        if not hasattr(self, "bed"):
            return
        self.hear()
        sink = self.channel().sink
        line = list(sink.waiting or ())
        assert len(line) == len(set(line)) <= len(QUEUES)
        for consumer in self.channel().consumers.values():
            assert consumer.is_waiting == (consumer in line)
            assert not (consumer.is_waiting and consumer.is_ready)
            messages = self.queue(consumer.tag).messages
            if sink.has_room() and not line and messages.ready_count() > 0:
                assert consumer.room() == 0 or not consumer.fits(messages)
        if line and sink.has_room():
            assert sink.prefetch_bytes > 0 and not line[0].fits(self.queue(line[0].tag).messages)

    def teardown(self) -> None:
        if hasattr(self, "bed"):
            self.peer.hang_up()
            self.bed.settle()


TestSharedPrefetch = SharedPrefetch.TestCase
TestSharedPrefetch.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
