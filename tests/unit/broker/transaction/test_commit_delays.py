"""Commits through delayed message exchanges: into the store with the rest, whole, and once."""

import pytest

from penstock.broker.dead_letter.delay_store import DelayStore
from penstock.broker.node.store_registry import bring_back
from penstock.broker.transaction.transaction_manager import RETRY_NS
from penstock.protocol import methods as m
from penstock.protocol.values import Table, encode_table
from penstock.simulation.machine.crash import Image, Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, give_store
from penstock.storage.layout.format import MARKS_QUEUE_ID
from penstock.storage.recovery.recovery import recover
from tests.unit.broker.peer import Bed, Peer, SeededChance, publish
from tests.unit.broker.transaction.test_transaction_manager import ask, closed

MS = 1_000_000
STORE = "amq.delayed.x"
GIVEN: Table = {"app": "q", "batch": 0}


def delayed(delay_ms: int, **headers: object) -> tuple[int, bytes]:
    table: Table = {"x-delay": delay_ms, **headers}  # type: ignore[dict-item]  # values are AMQP's
    return 0x3000, encode_table(table) + b"\x02"


class Later(Bed):
    """The durable exchange x delays for the durable queue q (key k); p (key k2) has no delays."""

    def __init__(self, has_disk: bool = True) -> None:
        super().__init__()
        self.disk = HandDisk()
        self.files = SimDisk()
        if has_disk:
            self.store = give_store(self.broker, self.disk, self.files, 4096)
        self.admin = self.connect("admin")
        arguments: Table = {"x-delayed-type": "direct"}
        made = m.ExchangeDeclare("x", "x-delayed-message", durable=True, arguments=arguments)
        self.admin.call(1, made, m.ExchangeDeclareOk)
        for name, key in (("q", "k"), ("p", "k2")):
            self.admin.call(1, m.QueueDeclare(name, durable=True), m.QueueDeclareOk)
            self.admin.call(1, m.QueueBind(name, "x", key), m.QueueBindOk)

    def write(self) -> None:
        self.run()
        while self.disk.work():
            self.run()

    def later(self, ms: int) -> None:
        self.clock.advance(ms * MS)
        self.broker.dues.fire(self.clock.monotonic_ns())
        self.run()

    def bodies(self, name: str) -> list[bytes]:
        queue = self.broker.vhosts["/"].queues[name]
        return [message.body() for message in queue.messages.ready_messages()]

    def stage(self, *rows: tuple[str, bytes, tuple[int, bytes]], mandatory: bool = False) -> Peer:
        """A task that has published `rows` (key, body, properties) and is about to stage them."""
        peer = self.connect("task")
        identity = ask(peer, "begin", app="q", batch=0, max_bytes=100_000)["id"]
        peer.send(
            *(
                publish(1, "x", key, body, properties, mandatory=mandatory)
                for key, body, properties in rows
            )
        )
        peer.say(1, m.RequestAsk("transaction.stage", {"id": identity}))
        self.identity = identity
        return peer

    def commit(self) -> Peer:
        driver = self.connect("driver")
        table: Table = {**GIVEN, "ids": [self.identity]}
        driver.say(1, m.RequestAsk("transaction.commit", table))
        return driver

    def without_power(self, seed: int) -> Image:
        """What a loss of power may leave."""
        replay = Replay(self.files)
        while replay.step():
            pass
        images = list(replay.states(Dice(seed), 3))
        return images[seed % len(images)]

    def found(self, image: Image) -> dict[str, list[bytes]]:
        """What a start finds in `image`, by queue; the mark under ""."""
        ids = {1: STORE, 2: "q", 3: "p", MARKS_QUEUE_ID: ""}
        rows: dict[str, list[bytes]] = {}
        recovered = recover(SimDisk(image), SeededChance(2), 4096, set(ids))
        for queue_id, name in ids.items():
            job = recovered.log.plan_reads(recovered.queues[queue_id], 0, 100, 1 << 20)
            job.run()
            rows[name] = [one.message.body() for one in job.found]
        return rows


PLAIN = (0x1000, b"\x02")
ROWS = (("k", b"late", delayed(300)), ("k2", b"now", PLAIN), ("k", b"soon", delayed(100)))


def test_delayed_rows_are_in_the_store_with_the_commit_and_go_on_in_time() -> None:
    bed = Later()
    bed.stage(*ROWS).one(m.RequestAskOk)
    bed.write()
    assert bed.bodies(STORE) == [], "staged is nowhere"
    driver = bed.commit()
    assert driver.heard() == [] and bed.bodies(STORE) == [] == bed.bodies("p")
    bed.later(50)
    bed.write()
    assert driver.one(m.RequestAskOk).answer["messages"] == 3
    assert bed.bodies(STORE) == [b"soon", b"late"] and bed.bodies("p") == [b"now"]
    bed.later(100)
    bed.write()
    assert bed.bodies("q") == [b"soon"] and bed.bodies(STORE) == [b"late"]
    assert ask(driver, "commit", **GIVEN, ids=["txn-of-a-repeated-task"])["already"] is True
    bed.later(200)
    bed.write()
    assert bed.bodies("q") == [b"soon", b"late"] and bed.bodies(STORE) == []
    bed.later(1100)
    bed.write()
    assert {name: len(rows) for name, rows in bed.found(bed.files.contents()).items()} == {
        STORE: 0, "q": 2, "p": 1, "": 1
    }  # fmt: skip
    bed.settle()


@pytest.mark.parametrize("jobs", range(4))
def test_without_power_all_of_it_is_there_or_nothing(jobs: int) -> None:
    bed = Later()
    bed.stage(*ROWS)
    bed.write()
    bed.commit()
    bed.disk.work(jobs)
    for seed in range(6):
        rows = bed.found(bed.without_power(seed))
        whole = {STORE: [b"late", b"soon"], "q": [], "p": [b"now"], "": [b"0"]}
        assert rows in (whole, {name: [] for name in rows})
        if jobs > 0:
            assert rows == whole, "it was answered"


def test_what_a_start_finds_goes_on_once_and_in_time() -> None:
    bed = Later()
    bed.stage(*ROWS)
    bed.commit()
    bed.write()
    again = Later()
    store = again.broker.vhosts["/"].queues[STORE]
    recovered = recover(SimDisk(bed.files.contents()), SeededChance(2), 4096, {1})
    job = recovered.log.plan_reads(recovered.queues[1], 0, 100, 1 << 20)
    job.run()
    page = again.broker.ledger.page_of_vhost("/")
    for found in job.found:
        bring_back(store, page, found.message, True, 200 * MS)
    store.wake()
    again.later(0)
    assert again.bodies("q") == [b"soon"]
    again.later(100)
    assert again.bodies("q") == [b"soon", b"late"]


def test_mandatory_cannot_be_promised_for_what_is_delayed() -> None:
    bed = Later()
    code, text = closed(bed.stage(("k", b"x", delayed(100)), mandatory=True))
    assert code == 406 and "mandatory=false" in text
    assert bed.broker.transactions.stages == {}
    bed.stage(("k2", b"x", PLAIN), mandatory=True).one(m.RequestAskOk)
    bed.commit()
    bed.write()
    assert bed.bodies("p") == [b"x"]


def test_blind_copies_are_kept_for_the_time_they_go_on() -> None:
    bed = Later()
    bed.stage(("k", b"x", delayed(100, BCC=["k2"])))
    bed.commit()
    bed.write()
    bed.later(100)
    bed.write()
    assert bed.bodies("q") == [b"x"] and bed.bodies("p") == [b"x"]
    (copy,) = bed.broker.vhosts["/"].queues["q"].messages.ready_messages()
    assert b"BCC" not in copy.header()
    bed.settle()


def test_a_full_store_lets_the_commit_wait() -> None:
    bed = Later()
    store = bed.broker.vhosts["/"].queues[STORE]
    assert isinstance(store, DelayStore) and store.ruling is not None
    store.ruling.rules.max_length = 1
    bed.admin.send(publish(1, "x", "k", b"old", delayed(500)))
    bed.write()
    bed.stage(("k", b"new", delayed(100)))
    driver = bed.commit()
    for _ in range(5):
        bed.later(RETRY_NS // MS)
        bed.write()
    assert driver.heard() == [] and bed.bodies(STORE) == [b"old"]
    bed.later(400)
    bed.write()
    bed.later(RETRY_NS // MS)
    bed.write()
    assert driver.one(m.RequestAskOk).answer["committed"] is True
    assert bed.bodies("q") == [b"old"] and bed.bodies(STORE) == [b"new"]


def test_a_broker_that_keeps_nothing_delays_what_is_committed() -> None:
    bed = Later(has_disk=False)
    bed.stage(("k", b"x", delayed(100)))
    assert bed.commit().one(m.RequestAskOk).answer["messages"] == 1
    assert bed.bodies(STORE) == [b"x"]
    bed.later(100)
    assert bed.bodies("q") == [b"x"]
    bed.settle()
