"""Delayed messages of a durable exchange on a disk that may lose power at any operation: what was
confirmed is in the store or in its queues; after a clean stop it is in one of these, once.
"""

from collections.abc import Iterator

import pytest

from penstock.broker.dead_letter.clean_stop import settle_dead_letters
from penstock.protocol import methods as m
from penstock.protocol.values import Table, encode_table
from penstock.simulation.machine.crash import Image, Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, check_store, give_store
from penstock.storage.recovery.recovery import recover
from tests.unit.broker.letter_bed import LetterBed
from tests.unit.broker.peer import publish

SEGMENT_BYTES = 4096
STORE = "amq.delayed.x"
HEADERS_AND_MODE = 0x3000
STATES_EACH = 10

Contents = dict[str, list[bytes]]


class DurableBed(LetterBed):
    """`x` delays for the queues `a` and, from the key `both`, `b`, which is full with three.
    confirmed, left: (operations of the disk, body) and (operations, queue, body) as it came."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.dice = Dice(seed)
        self.disk = HandDisk()
        self.files = SimDisk()
        self.store = give_store(self.broker, self.disk, self.files, SEGMENT_BYTES)
        self.sender = self.connect("sender")
        self.sender.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
        say = self.peer.call
        inner: Table = {"x-delayed-type": "topic"}
        exchange = m.ExchangeDeclare("x", "x-delayed-message", durable=True, arguments=inner)
        say(1, exchange, m.ExchangeDeclareOk)
        full: Table = {"x-max-length": 3, "x-overflow": "backpressure"}
        for name, key, table in (("a", "#", {}), ("b", "both", full)):
            say(1, m.QueueDeclare(name, durable=True, arguments=table), m.QueueDeclareOk)
            say(1, m.QueueBind(name, "x", key), m.QueueBindOk)
        self.said: list[bytes] = []
        self.confirmed: list[tuple[int, bytes]] = []
        self.left: list[tuple[int, str, bytes]] = []

    def send(self, delay_ms: int) -> None:
        both = self.dice.happens(40)
        kind = b"both" if both else b"one"
        body = b"%s-%d;" % (kind, len(self.said)) + bytes(self.dice.below(90))
        self.said.append(body)
        mode = self.dice.one_of((b"\x02", b"\x02", b"\x02", b"\x01"))
        properties = HEADERS_AND_MODE, encode_table({"x-delay": delay_ms}) + mode
        if mode == b"\x01":
            # Nobody promises anything about these.
            self.said[-1] = b""
        key = "both" if both else "one"
        self.sender.send(publish(1, "x", key, body, properties))

    def get(self, name: str) -> None:
        self.peer.say(1, m.BasicGet(name, False))
        heard = self.peer.heard()[0]
        if isinstance(heard.method, m.BasicGetOk):
            self.left.append((len(self.files.ops), name, heard.body))
            self.peer.say(1, m.BasicAck(heard.method.delivery_tag, False))

    def work(self) -> None:
        self.disk.work()
        self.run()
        for number in self.sender.confirmed():
            if self.said[number - 1]:
                self.confirmed.append((len(self.files.ops), self.said[number - 1]))

    def live(self, deeds: int) -> None:
        """Anything, in any order."""
        for _ in range(deeds):
            deed = self.dice.below(10)
            if deed < 4:
                self.send(self.dice.one_of((1, 5, 50, 400)))
            elif deed < 6:
                self.wait(self.dice.one_of((1, 10, 300, 1100)))
            elif deed < 9:
                self.work()
            else:
                self.get(self.dice.one_of(("a", "b")))
            check_store(self.store)

    def stop(self) -> None:
        """As the server does it."""
        while self.disk.jobs:
            self.disk.work()
        settle_dead_letters(self.store, list(self.broker.vhosts["/"].queues.values()))
        self.store.last_batch().run()

    def contents(self, image: Image) -> Contents:
        ids = {int(actor.queue_id): name for name, actor in self.broker.vhosts["/"].queues.items()}
        recovered = recover(SimDisk(image), Dice(1), SEGMENT_BYTES, set(ids))
        assert not recovered.report.lost
        found: Contents = {}
        for queue_id, name in ids.items():
            job = recovered.log.plan_reads(recovered.queues[queue_id], 0, 1 << 30, 1 << 30)
            job.run()
            assert not job.damaged
            found[name] = [one.message.body() for one in job.found]
        return found


def targets(body: bytes) -> list[str]:
    return ["a", "b"] if body.startswith(b"both") else ["a"]


@pytest.mark.parametrize("seed", range(4))
def test_no_confirmed_delayed_message_is_lost_by_any_crash(seed: int) -> None:
    bed = DurableBed(seed)
    bed.live(150)
    replay = Replay(bed.files)
    count = 0
    released = 0
    while True:
        done = replay.at
        required = [body for at, body in bed.confirmed if at <= done]
        gone = {(name, body) for at, name, body in bed.left if at <= done}
        for image in _some(replay.states(bed.dice, 2)):
            found = bed.contents(image)
            count += 1
            released += len(found["a"])
            for body in required:
                if body not in found[STORE]:
                    for name in targets(body):
                        is_there = body in found[name] or (name, body) in gone
                        assert is_there, f"after operation {done}: {body[:9]!r} not in {name}"
        if not replay.step():
            break
    assert count > 200 and released > 200 and bed.left, "something has happened"


def _some(states: Iterator[Image]) -> Iterator[Image]:
    for number, image in enumerate(states):
        if number == STATES_EACH:
            return
        yield image


@pytest.mark.parametrize("seed", range(12))
def test_after_a_clean_stop_nothing_is_there_twice(seed: int) -> None:
    bed = DurableBed(100 + seed)
    bed.live(120)
    bed.stop()
    found = bed.contents(bed.files.contents())
    gone = {(name, body) for _, name, body in bed.left}
    for _, body in bed.confirmed:
        is_held = body in found[STORE]
        assert found[STORE].count(body) == is_held
        for name in targets(body):
            assert found[name].count(body) == (not is_held and (name, body) not in gone)
    assert bed.confirmed
