"""A client behind a node that does not lead goes on when brokers die under it, whenever that is.

Real brokers in memory; what one had in its queue the next one has, as the log sees to in a cluster.
"""

import random
from collections import Counter

import pytest

from penstock.protocol import methods as m
from tests.unit.broker.peer import Heard, publish
from tests.unit.forwarding.relay import QUEUE, Relay


class Client:
    """What it has sent and heard on a channel with confirms and a consumer."""

    def __init__(self, relay: Relay, chance: random.Random, number: int) -> None:
        self.relay = relay
        self.chance = chance
        self.number = number
        self.sent: dict[int, bytes] = {}
        self.answers: dict[int, str] = {}
        self.delivered: list[bytes] = []
        self.unacked: list[int] = []
        self.last_tag = 0
        for method, answer in (
            (m.ConfirmSelect(), m.ConfirmSelectOk),
            (m.BasicQos(prefetch_count=5), m.BasicQosOk),
            (m.BasicConsume(QUEUE, f"tag{number}"), m.BasicConsumeOk),
        ):
            relay.say(number, method)
            assert [type(one.method) for one in relay.heard()] == [answer]

    def publish(self) -> bytes:
        seq = len(self.sent) + 1
        body = b"%d-%d " % (self.number, seq) + b"x" * self.chance.choice((0, 1, 300, 9000))
        self.sent[seq] = body
        return publish(self.number, "", QUEUE, body, frame_bytes_max=4096)

    def hear(self, one: Heard) -> None:
        match one.method:
            case m.BasicAck() | m.BasicNack() as answer:
                word = "ack" if isinstance(answer, m.BasicAck) else "nack"
                first = 1 if answer.multiple else answer.delivery_tag
                for seq in range(first, answer.delivery_tag + 1):
                    assert seq in self.sent, (seq, self.sent)
                    assert answer.multiple or seq not in self.answers, "answered twice"
                    self.answers.setdefault(seq, word)
            case m.BasicDeliver(delivery_tag=tag):
                assert tag == self.last_tag + 1, "deliveries are numbered without a gap"
                self.last_tag = tag
                self.unacked.append(tag)
                self.delivered.append(one.body)
            case other:
                raise AssertionError(other)

    def settle(self) -> m.Method | None:
        if not self.unacked:
            return None
        match self.chance.randrange(3):
            case 0:
                tag = self.unacked.pop(self.chance.randrange(len(self.unacked)))
                return m.BasicAck(tag)
            case 1:
                at = self.chance.randrange(len(self.unacked))
                tag = self.unacked[at]
                del self.unacked[: at + 1]
                return m.BasicAck(tag, multiple=True)
            case _:
                return m.BasicReject(self.unacked.pop(0), requeue=True)


@pytest.mark.parametrize("seed", range(60))
def test_brokers_die_and_nobody_notices(seed: int) -> None:
    chance = random.Random(seed)
    relay = Relay(chance, chance.choice((2000, 1 << 24)), chance.choice((0.2, 0.9)))
    relay.say(9, m.ChannelOpen())
    relay.say(9, m.QueueDeclare(QUEUE, durable=True))
    relay.heard()
    clients = [Client(relay, chance, 1)]
    relay.say(2, m.ChannelOpen())
    relay.heard()
    clients.append(Client(relay, chance, 2))
    by_number = {client.number: client for client in clients}

    def hear() -> None:
        for one in relay.heard():
            by_number[one.channel].hear(one)

    for _ in range(120):
        client = chance.choice(clients)
        match chance.randrange(12):
            case 0:
                relay.die()
            case 1 | 2 | 3 | 4:
                relay.send(*(client.publish() for _ in range(chance.randrange(1, 6))))
            case 5:
                # Half of a publish, and the broker dies in between.
                data = client.publish()
                cut = chance.randrange(1, len(data))
                relay.send(data[:cut])
                relay.die()
                relay.send(data[cut:])
            case _:
                settled = client.settle()
                if settled is not None:
                    relay.say(client.number, settled)
        if chance.random() < 0.5:
            hear()
    hear()
    for _ in range(2000):
        said = [(client, client.settle()) for client in clients]
        if all(settled is None for _, settled in said):
            break
        for client, settled in said:
            if settled is not None:
                relay.say(client.number, settled)
        hear()
    seen = Counter(body for client in clients for body in client.delivered)
    for client in clients:
        assert set(client.answers) == set(client.sent), "each is answered"
        for seq, word in client.answers.items():
            assert word == "nack" or seen[client.sent[seq]] >= 1, "confirmed and not delivered"
    assert relay.bed.actor(QUEUE).messages.ready_count() == 0
    relay.bed.settle()
    nacks = sum(word == "nack" for client in clients for word in client.answers.values())
    assert nacks == 0 or relay.share.bound == 2000
    relay.share.close()
    assert relay.budget.used == 0
