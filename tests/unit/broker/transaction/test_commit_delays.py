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
from penstock.storage.recovery.recovery import recover
from tests.unit.broker.commit_bed import PERSISTENT, CommitBed, ask, closed
from tests.unit.broker.peer import Peer, SeededChance, publish

MS = 1_000_000
STORE = "amq.delayed.x"
GIVEN: Table = {"app": "q", "batch": 0}


def delayed(delay_ms: int, **headers: object) -> tuple[int, bytes]:
    table: Table = {"x-delay": delay_ms, **headers}  # type: ignore[dict-item]  # values are AMQP's
    return 0x3000, encode_table(table) + b"\x02"


class Later(CommitBed):
    """The durable exchange x delays for the durable queue q (key k); p (key k2) has no delays."""

    names = (STORE, "q", "p")

    def prepare(self) -> None:
        arguments: Table = {"x-delayed-type": "direct"}
        made = m.ExchangeDeclare("x", "x-delayed-message", durable=True, arguments=arguments)
        self.admin.call(1, made, m.ExchangeDeclareOk)
        for name, key in (("q", "k"), ("p", "k2")):
            self.declare(name)
            self.admin.call(1, m.QueueBind(name, "x", key), m.QueueBindOk)

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
        self.identity = str(identity)
        return peer

    def without_power(self, seed: int) -> Image:
        """What a loss of power may leave."""
        replay = Replay(self.files)
        while replay.step():
            pass
        images = list(replay.states(Dice(seed), 3))
        return images[seed % len(images)]


ROWS = (("k", b"late", delayed(300)), ("k2", b"now", PERSISTENT), ("k", b"soon", delayed(100)))


def test_delayed_rows_are_in_the_store_with_the_commit_and_go_on_in_time() -> None:
    bed = Later()
    bed.stage(*ROWS).one(m.RequestAskOk)
    bed.write()
    assert bed.ready(STORE) == [], "staged is nowhere"
    driver = bed.commit(bed.identity)
    assert driver.heard() == [] and bed.ready(STORE) == [] == bed.ready("p")
    bed.later(50 * MS)
    bed.write()
    assert driver.one(m.RequestAskOk).answer["messages"] == 3
    assert bed.ready(STORE) == [b"soon", b"late"] and bed.ready("p") == [b"now"]
    bed.later(100 * MS)
    bed.write()
    assert bed.ready("q") == [b"soon"] and bed.ready(STORE) == [b"late"]
    assert ask(driver, "commit", **GIVEN, ids=["txn-of-a-repeated-task"])["already"] is True
    bed.later(200 * MS)
    bed.write()
    assert bed.ready("q") == [b"soon", b"late"] and bed.ready(STORE) == []
    bed.later(1100 * MS)
    bed.write()
    assert {name: len(rows) for name, rows in bed.found().items()} == {
        STORE: 0, "q": 2, "p": 1, "": 1
    }  # fmt: skip
    bed.settle()


@pytest.mark.parametrize("jobs", range(4))
def test_without_power_all_of_it_is_there_or_nothing(jobs: int) -> None:
    bed = Later()
    bed.stage(*ROWS)
    bed.write()
    bed.commit(bed.identity)
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
    bed.commit(bed.identity)
    bed.write()
    again = Later()
    store = again.actor(STORE)
    recovered = recover(SimDisk(bed.files.contents()), SeededChance(2), 4096, {1})
    job = recovered.log.plan_reads(recovered.queues[1], 0, 100, 1 << 20)
    job.run()
    page = again.broker.ledger.page_of_vhost("/")
    for found in job.found:
        bring_back(store, page, found.message, True, 200 * MS)
    store.wake()
    again.later(0)
    assert again.ready("q") == [b"soon"]
    again.later(100 * MS)
    assert again.ready("q") == [b"soon", b"late"]


def test_mandatory_cannot_be_promised_for_what_is_delayed() -> None:
    bed = Later()
    code, text = closed(bed.stage(("k", b"x", delayed(100)), mandatory=True))
    assert code == 406 and "mandatory=false" in text
    assert bed.broker.transactions.stages == {}
    bed.stage(("k2", b"x", PERSISTENT), mandatory=True).one(m.RequestAskOk)
    bed.commit(bed.identity)
    bed.write()
    assert bed.ready("p") == [b"x"]


def test_blind_copies_are_kept_for_the_time_they_go_on() -> None:
    bed = Later()
    bed.stage(("k", b"x", delayed(100, BCC=["k2"])))
    bed.commit(bed.identity)
    bed.write()
    bed.later(100 * MS)
    bed.write()
    assert bed.ready("q") == [b"x"] and bed.ready("p") == [b"x"]
    (copy,) = bed.actor("q").messages.ready_messages()
    assert b"BCC" not in copy.header()
    bed.settle()


def test_a_full_store_lets_the_commit_wait() -> None:
    bed = Later()
    store = bed.actor(STORE)
    assert isinstance(store, DelayStore) and store.queue_limits is not None
    store.queue_limits.rules.max_length = 1
    bed.admin.send(publish(1, "x", "k", b"old", delayed(500)))
    bed.write()
    bed.stage(("k", b"new", delayed(100)))
    driver = bed.commit(bed.identity)
    for _ in range(5):
        bed.later(RETRY_NS)
        bed.write()
    assert driver.heard() == [] and bed.ready(STORE) == [b"old"]
    bed.later(400 * MS)
    bed.write()
    bed.later(RETRY_NS)
    bed.write()
    assert driver.one(m.RequestAskOk).answer["committed"] is True
    assert bed.ready("q") == [b"old"] and bed.ready(STORE) == [b"new"]


def test_a_broker_that_keeps_nothing_delays_what_is_committed() -> None:
    bed = Later(has_disk=False)
    bed.stage(("k", b"x", delayed(100)))
    assert bed.commit(bed.identity).one(m.RequestAskOk).answer["messages"] == 1
    assert bed.ready(STORE) == [b"x"]
    bed.later(100 * MS)
    assert bed.ready("q") == [b"x"]
    bed.settle()
