"""Long seeded walks over one topology, each restarted often: cheaper than the model beside it, and
dense in what goes along with something else. Durable, auto-delete and bound is the common case."""

import random
from pathlib import Path

import pytest

from penstock.protocol import methods as m
from penstock.protocol.values import Table
from tests.unit.broker.peer import Peer
from tests.unit.server.durable_bed import DurableBed, topology

STEPS = 240
RESTART_EVERY = 12
NAMES = ("a", "b", "c")


class Walk:
    """One broker after the other on the same file, changed by whatever `dice` say."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.dice = random.Random(seed)
        self.bed = DurableBed(path)
        self.peer: Peer = self.bed.connect()

    def step(self) -> None:
        dice = self.dice
        name, other, key = dice.choice(NAMES), dice.choice(NAMES), dice.choice(NAMES)
        tables: tuple[Table, ...] = ({}, {"n": 1}, {"n": 1.0})
        arguments = dice.choice(tables)
        source = dice.choice((name, "amq.fanout"))
        durable = dice.random() < 0.8
        kind = dice.choice(("direct", "topic"))
        self.say(
            dice.choice(
                (
                    m.QueueDeclare(name, durable=durable, exclusive=dice.random() < 0.1),
                    m.ExchangeDeclare(name, kind, durable=durable, auto_delete=dice.random() < 0.6),
                    m.QueueBind(other, source, key, arguments=arguments),
                    m.QueueBind(other, source, key, arguments=arguments),
                    m.ExchangeBind(other, source, key),
                    m.QueueUnbind(other, source, key, arguments),
                    m.ExchangeUnbind(other, source, key),
                    m.QueueDelete(name),
                    m.ExchangeDelete(name),
                )
            )
        )
        self.bed.disk.work(dice.choice((0, 0, 1, 2)))
        if dice.random() < 0.1:
            self.bed.catalogue.hand_over()

    def say(self, method: m.Method) -> None:
        self.peer.say(1, method)
        if any(isinstance(one.method, m.ChannelClose) for one in self.peer.heard()):
            self.peer.say(1, m.ChannelCloseOk(), m.ChannelOpen())
            self.peer.one(m.ChannelOpenOk)

    def restart(self) -> None:
        self.peer.hang_up()
        before = topology(self.bed.broker)
        self.bed.close()
        assert not self.bed.catalogue.is_full and self.bed.log.errors == []
        self.bed = DurableBed(self.path)
        self.peer = self.bed.connect()
        assert topology(self.bed.broker) == before


@pytest.mark.parametrize("seed", range(6))
def test_a_walk_with_restarts(tmp_path: Path, seed: int) -> None:
    walk = Walk(tmp_path / "m", seed)
    for number in range(STEPS):
        walk.step()
        if number % RESTART_EVERY == RESTART_EVERY - 1:
            walk.restart()
    walk.bed.crash()
