"""A publish that is sent again after a failover is in each queue once, whenever the broker died.

Real brokers in memory with their real store on a disk that works by hand. What a broker's jobs have
written when it dies is in the log, and so is what it has said of the publishes in it. A consumer of
a quorum queue has been given what is in the log, in its order, and nothing else.
"""

import random
from collections import Counter

import pytest

from penstock.broker.actors.confirms import Confirms
from penstock.broker.node import store_registry
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.replication.seen import Answer, Seen
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, give_store
from penstock.storage.recovery.recovery import recover
from tests.unit.broker.peer import Bed, SeededChance, publish
from tests.unit.forwarding.relay import Relay

QUORUM = "q"
QUEUES = ("a", "b", "c", QUORUM)
PERSISTENT = (0x1000, b"\x02")
SEGMENT_BYTES = 8192


class Entries(SimDisk):
    """Files of a leader. publishes: what was said of them in its entries."""

    def __init__(self) -> None:
        super().__init__()
        self.publishes = b""

    def note_publishes(self, runs: bytes) -> None:
        self.publishes += runs


class LeadersDisk(HandDisk):
    def keeps_publishes(self) -> bool:
        return True


class LeadersBed(Bed):
    """Durable queues, one of them a quorum queue with a consumer, and an exchange that leads to all
    of them. given: what the consumer has got, in its order."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = LeadersDisk()
        self.files = Entries()
        self.store = give_store(self.broker, self.disk, self.files, SEGMENT_BYTES)
        admin = self.connect("admin")
        admin.call(1, m.ExchangeDeclare("all", "fanout", durable=True), m.ExchangeDeclareOk)
        for name in QUEUES:
            table: Table = {"x-queue-type": "quorum"} if name == QUORUM else {}
            say = m.QueueDeclare(name, durable=True, arguments=table)
            admin.call(1, say, m.QueueDeclareOk)
            admin.call(1, m.QueueBind(name, "all"), m.QueueBindOk)
        self.reader = self.connect("reader")
        self.reader.call(1, m.BasicConsume(QUORUM, "c"), m.BasicConsumeOk)
        self.given: list[bytes] = []
        self.run()

    def work(self, jobs: int) -> None:
        self.run()
        while jobs > 0 and self.disk.work(1):
            self.run()
            jobs -= 1

    def stop(self) -> None:
        """As a broker does in order when its clients are gone: nobody has a turn any more, and what
        the store has is written."""
        while self.store.batch is not None:
            self.disk.work(1)
        self.store.last_batch().run()

    def rows(self) -> dict[str, list[bytes]]:
        """What is on the disk, by queue."""
        ids = dict(enumerate(QUEUES, 1))
        found = recover(SimDisk(self.files.contents()), SeededChance(2), SEGMENT_BYTES, set(ids))
        rows = {}
        for number, name in ids.items():
            job = found.log.plan_reads(found.queues[number], 0, 100_000, 1 << 30)
            job.run()
            assert not job.damaged
            rows[name] = [one.message.body() for one in job.found]
        self.given += self.reader.bodies()
        assert self.given == rows[QUORUM][: len(self.given)], "what was delivered is in the log"
        return rows


class LoggedRelay(Relay):
    """log: of all leaders so far, by queue."""

    bed: LeadersBed

    def __init__(self, chance: random.Random, pace: float) -> None:
        self.log: dict[str, list[bytes]] = {name: [] for name in QUEUES}
        self.seen = Seen(1 << 20)
        super().__init__(chance, pace=pace)

    def new_bed(self) -> Bed:
        return LeadersBed()

    def lead(self, jobs: int, *, is_stopped: bool = False) -> None:
        """The broker dies when so many more jobs of its disk are done, and another one leads, which
        may die before it has been told everything. is_stopped: in order, it ends its connections
        before, and writes the rest."""
        self.lose(jobs, is_stopped=is_stopped)
        while self.chance.random() < 0.3:
            self.ask(self.answer())
            for _ in range(self.chance.randrange(4)):
                self.kept.say_some(self.chance.randrange(1, 5))
            self.lose(self.chance.randrange(3))
        self.go_on(self.answer())
        assert self.kept.is_attached

    def lose(self, jobs: int, *, is_stopped: bool = False) -> None:
        self.cut()
        if is_stopped:
            self.behind.hang_up()
        self.bed.work(jobs)
        if is_stopped:
            self.bed.stop()
        self.keep()
        self.kept.lost()
        self.bed = LeadersBed()

    def answer(self) -> Answer:
        return Answer(self.seen.among(self.kept.unknown(), 1 << 20))

    def keep(self) -> None:
        for name, bodies in self.bed.rows().items():
            self.log[name] += bodies
        self.seen.note(self.bed.files.publishes)


class Publisher:
    """A channel with confirms. queues: of each persistent publish, by its body."""

    def __init__(self, relay: LoggedRelay, number: int) -> None:
        self.relay = relay
        self.number = number
        self.queues: list[tuple[bytes, tuple[str, ...]]] = []
        self.count = 0
        self.answered: set[int] = set()
        if number > 1:
            relay.call(number, m.ChannelOpen(), m.ChannelOpenOk)
        relay.call(number, m.ConfirmSelect(), m.ConfirmSelectOk)

    def publish(self, chance: random.Random) -> bytes:
        self.count += 1
        body = b"%d-%d " % (self.number, self.count) + bytes(chance.choice((0, 10, 3000)))
        exchange, key = chance.choice(
            (("", "a"), ("", "a"), ("", "b"), ("", QUORUM), ("all", ""), ("all", ""))
        )
        if chance.random() < 0.1:
            return publish(self.number, exchange, key, body)
        self.queues.append((body, QUEUES if exchange else (key,)))
        return publish(self.number, exchange, key, body, PERSISTENT)

    def hear(self, method: m.Method) -> None:
        assert isinstance(method, m.BasicAck), method
        first = 1 if method.multiple else method.delivery_tag
        self.answered |= set(range(first, method.delivery_tag + 1))


def play(seed: int) -> int:
    """How many publishes were not sent again because the log had them."""
    chance = random.Random(seed)
    relay = LoggedRelay(chance, chance.choice((0.2, 1.0)))
    publishers = {number: Publisher(relay, number) for number in (1, 2)}

    def hear() -> None:
        for one in relay.heard():
            publishers[one.channel].hear(one.method)

    for _ in range(60):
        one = publishers[chance.choice((1, 2))]
        match chance.randrange(9):
            case 0:
                relay.lead(chance.randrange(4))
            case 8:
                relay.lead(chance.choice((0, 1, 1 << 30)), is_stopped=True)
            case 1 | 2:
                relay.bed.work(chance.randrange(1, 3))
            case 3:
                hear()
            case _:
                relay.send(*(one.publish(chance) for _ in range(chance.randrange(1, 9))))
    relay.move()
    relay.bed.work(1 << 30)
    hear()
    relay.keep()
    for one in publishers.values():
        assert one.answered == set(range(1, one.count + 1)), "each is confirmed"
        for name in QUEUES:
            wanted = [body for body, queues in one.queues if name in queues]
            mine = [body for body in relay.log[name] if body.startswith(b"%d-" % one.number)]
            if name == QUORUM:
                # It keeps what is not persistent as well, which may be there twice.
                mine = [body for body in mine if body in set(wanted)]
            assert Counter(mine) == Counter(wanted), "each is there once"
            assert mine == wanted, "in its order"
    return relay.kept.dropped


@pytest.mark.parametrize("seed", range(25))
def test_what_is_sent_again_is_there_once(seed: int) -> None:
    play(seed)


def test_most_of_what_was_unconfirmed_and_written_is_dropped() -> None:
    assert sum(play(seed) for seed in range(5)) > 50


def test_consumers_were_given_most_of_it() -> None:
    relay = LoggedRelay(random.Random(1), 1.0)
    publisher = Publisher(relay, 1)
    for _ in range(50):
        relay.send(publisher.publish(relay.chance))
        relay.bed.work(1)
    relay.keep()
    assert isinstance(relay.bed, LeadersBed)
    assert len(relay.bed.given) > 10


def test_a_delivery_before_the_commit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The laws above find it when a quorum queue is a classic one."""
    monkeypatch.setattr(store_registry, "Uncommitted", lambda: None)
    with pytest.raises(AssertionError, match="what was delivered is in the log"):
        for seed in range(25):
            play(seed)


def test_a_wrong_number_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The laws above find it when another publish than the one in the log is dropped."""
    right = Confirms.number
    monkeypatch.setattr(Confirms, "number", lambda self, sequence: right(self, sequence) + 1)
    with pytest.raises(AssertionError, match="each is there once"):
        for seed in range(25):
            play(seed)
