"""Stores of durable delayed exchanges on the disk: their ids, their ends, what comes back."""

from pathlib import Path

import pytest

from penstock.base.limits import CATALOGUE_CHANGES
from penstock.broker.dead_letter.delay_store import DelayStore
from penstock.broker.node.store_registry import bring_back
from penstock.broker.store.durability import StoreDurability
from penstock.broker.vhost.catalogue_rows import CatalogueChange, VhostRow
from penstock.flow.profile import PROFILES
from penstock.protocol import methods as m
from penstock.protocol.values import Table, encode_table
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, give_store
from penstock.storage.recovery.recovery import recover
from tests.definitions import export_definitions
from tests.unit.broker.letter_bed import LetterBed
from tests.unit.broker.peer import Bed, Peer, publish
from tests.unit.server.durable_bed import DurableBed
from tests.unit.server.lease_bed import LeaseBed

STORE = "amq.delayed.x"
INNER: Table = {"x-delayed-type": "direct"}


def declare(peer: Peer, durable: bool = True) -> None:
    declared = m.ExchangeDeclare("x", "x-delayed-message", durable=durable, arguments=INNER)
    peer.call(1, declared, m.ExchangeDeclareOk)


def store_of(bed: Bed) -> DelayStore:
    found = bed.broker.vhosts["/"].queues[STORE]
    assert isinstance(found, DelayStore)
    return found


def test_the_id_of_a_store_comes_back_and_goes_with_its_exchange(tmp_path: Path) -> None:
    bed = DurableBed(tmp_path / "metadata.sqlite")
    peer = bed.connect()
    declare(peer)
    assert store_of(bed).queue_id == 1
    bed.close()
    bed = DurableBed(bed.path)
    assert store_of(bed).queue_id == 1 and bed.restored.queues == 0
    peer = bed.connect()
    peer.call(1, m.ExchangeDelete("x"), m.ExchangeDeleteOk)
    declare(peer)
    assert store_of(bed).queue_id == 2
    bed.close()
    assert [row.queue_id for row in DurableBed(bed.path).database.read().queues] == [2]


def test_the_store_of_a_transient_exchange_is_not_kept(tmp_path: Path) -> None:
    bed = DurableBed(tmp_path / "metadata.sqlite")
    declare(bed.connect(), durable=False)
    assert store_of(bed).queue_id == 0 and not bed.catalogue.waiting
    bed.crash()


def test_an_exchange_whose_store_is_not_kept_yet_gets_an_id(tmp_path: Path) -> None:
    """The disk had the one and not the other when the power went."""
    bed = DurableBed(tmp_path / "metadata.sqlite")
    declare(bed.connect())
    bed.close()
    bed = DurableBed(bed.path)
    bed.database.db.execute("DELETE FROM queues")
    bed.close()
    bed = DurableBed(bed.path)
    assert store_of(bed).queue_id == 0
    bed.broker.delays.keep_all()
    assert store_of(bed).queue_id == 2, "ids are never given twice"
    bed.close()
    assert store_of(DurableBed(bed.path)).queue_id == 2


def test_a_store_without_its_exchange_is_no_queue(tmp_path: Path) -> None:
    bed = DurableBed(tmp_path / "metadata.sqlite")
    declare(bed.connect())
    bed.close()
    bed = DurableBed(bed.path)
    bed.database.db.execute("DELETE FROM exchanges")
    bed.close()
    bed = DurableBed(bed.path)
    assert STORE not in bed.broker.vhosts["/"].queues
    assert bed.restored.notes == [
        f"'{STORE}' is kept, but not its exchange; its messages are dropped"
    ]
    bed.close()


def test_without_room_for_both_neither_is_there(tmp_path: Path) -> None:
    bed = DurableBed(tmp_path / "metadata.sqlite")
    peer = bed.connect()
    fill = [CatalogueChange(True, VhostRow("x"))] * (CATALOGUE_CHANGES.default - 1)
    bed.catalogue.waiting.extend(fill)
    peer.say(1, m.ExchangeDeclare("x", "x-delayed-message", durable=True, arguments=INNER))
    closed = peer.one(m.ChannelClose)
    assert closed.reply_code == 406 and STORE in closed.reply_text
    assert (closed.class_id, closed.method_id) == (40, 10)
    vhost = bed.broker.vhosts["/"]
    assert vhost.find_exchange("x") is None and STORE not in vhost.queues
    kept = [change.is_kept for change in bed.catalogue.waiting[len(fill) :]]
    assert kept == [True, False], "the disk forgets the exchange, too"
    bed.crash()


def test_definitions_do_not_name_stores(tmp_path: Path) -> None:
    bed = DurableBed(tmp_path / "metadata.sqlite")
    declare(bed.connect())
    exported = str(export_definitions(bed.broker, "0")[0])
    assert "'name': 'x'" in exported and STORE not in exported
    bed.close()


class StoredBed(LetterBed):
    """`x`, durable, delays for the durable queue `q`."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = HandDisk()
        self.files = SimDisk()
        self.store = give_store(self.broker, self.disk, self.files, 1 << 20)
        declare(self.peer)
        self.peer.call(1, m.QueueDeclare("q", durable=True), m.QueueDeclareOk)
        self.peer.call(1, m.QueueBind("q", "x", "k"), m.QueueBindOk)

    def send(self, body: bytes, delay_ms: int) -> None:
        properties = 0x3000, encode_table({"x-delay": delay_ms}) + b"\x02"
        self.peer.send(publish(1, "x", "k", body, properties))

    def durability(self, name: str) -> StoreDurability:
        found = self.actor(name).durability
        assert isinstance(found, StoreDurability)
        return found

    def kept(self, name: str) -> int:
        return self.store.log.live_count(self.durability(name).index)

    def write(self) -> None:
        self.run()
        while self.disk.work():
            self.run()


def test_a_message_stays_on_the_disk_until_its_queue_has_it_there() -> None:
    bed = StoredBed()
    bed.send(b"m", 100)
    bed.write()
    assert bed.kept(STORE) == 1
    bed.wait(100)
    assert bed.bodies("q") == [b"m"] and len(bed.durability(STORE).held) == 1
    assert bed.kept(STORE) == 1, "the queue's copy is in memory only"
    bed.write()
    assert (bed.kept(STORE), bed.kept("q")) == (0, 1) and not bed.durability(STORE).held
    bed.check_books()


def test_a_message_that_goes_nowhere_leaves_the_disk() -> None:
    bed = StoredBed()
    bed.send(b"m", 100)
    bed.write()
    bed.peer.call(1, m.QueueUnbind("q", "x", "k"), m.QueueUnbindOk)
    bed.wait(100)
    assert bed.kept(STORE) == 0 and bed.lost(STORE) == {"no route": 1}
    bed.write()
    bed.check_books()


def test_what_a_failed_store_had_on_the_disk_is_there_for_the_next_start() -> None:
    bed = StoredBed()
    bed.send(b"old", 100)
    bed.write()
    bed.remove(STORE, is_crash=True)
    assert bed.actor(STORE).queue_id == 1 and bed.ready(STORE) == 0
    assert "come back with the next start" in bed.log.lines[-1]
    bed.send(b"new", 100)
    bed.write()
    assert bed.kept(STORE) == 2
    bed.peer.call(1, m.ExchangeDelete("x"), m.ExchangeDeleteOk)
    bed.write()
    assert bed.store.log.queues.keys() == {2}


def test_the_disk_answers_a_lane_that_was_given_up_and_nothing_is_left_behind() -> None:
    """Its target is full, so a grant would wait there, for nobody."""
    bed = StoredBed()
    full: Table = {"x-max-length": 1, "x-overflow": "backpressure"}
    bed.peer.call(1, m.QueueDeclare("full", durable=True, arguments=full), m.QueueDeclareOk)
    bed.peer.call(1, m.QueueBind("full", "x", "k"), m.QueueBindOk)
    bed.send(b"m", 100)
    bed.write()
    bed.wait(100)
    assert bed.ready("full") == 1 and not bed.actor("full").gate.is_open
    bed.peer.call(1, m.ExchangeDelete("x"), m.ExchangeDeleteOk)
    bed.write()
    assert bed.kept("full") == 1 and bed.actor("full").gate.deferred == []
    bed.check_books()


def test_what_is_overdue_comes_first_and_the_rest_at_its_time() -> None:
    bed = StoredBed()
    for body, delay_ms in ((b"c", 900), (b"b", 300), (b"a", 100), (b"far", 1 << 40)):
        bed.send(body, delay_ms)
    bed.write()
    again = StoredBed()
    actor = again.actor(STORE)
    recovered = recover(SimDisk(bed.files.contents()), again.broker.chance, 1 << 20, {1})
    job = recovered.log.plan_reads(recovered.queues[1], 0, 100, 1 << 20)
    job.run()
    origin = again.broker.ledger.page_of_vhost("/")
    for found in job.found:
        # 400 ms have passed, most of them before the machine was started.
        bring_back(actor, origin, found.message, True, 400_000_000)
    again.wait(0)
    actor.wake()
    again.run()
    assert again.bodies("q") == [b"a", b"b"] and again.ready(STORE) == 2
    again.wait(499)
    assert again.ready("q") == 2
    again.wait(1)
    assert again.bodies("q") == [b"a", b"b", b"c"] and again.ready(STORE) == 1


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "none"])
def test_what_was_delayed_goes_on_after_a_restart_in_every_profile(
    tmp_path: Path, profile: str
) -> None:
    """A store has no head that a queue's paging could read, so it pages in none."""
    bed = LeaseBed(tmp_path, profile=profile)
    peer = bed.connect()
    declare(peer)
    peer.call(1, m.QueueDeclare("q", durable=True), m.QueueDeclareOk)
    peer.call(1, m.QueueBind("q", "x", "k"), m.QueueBindOk)
    values = encode_table({"x-delay": 5000}) + b"\x02"
    peer.send(publish(1, "x", "k", b"late", (0x3000, values)))
    bed.work()
    assert store_of(bed).messages.ready_count() == 1
    bed.end()
    bed = LeaseBed(tmp_path, profile=profile)
    assert store_of(bed).messages.ready_count() == 1
    assert store_of(bed).paging is None
    bed.work()
    bed.pass_time(5001)
    bed.work()
    assert (store_of(bed).messages.ready_count(), bed.ready()) == (0, 1)
    bed.end()
