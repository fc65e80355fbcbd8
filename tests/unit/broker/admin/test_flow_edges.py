"""Every hop there is has its row, and what stands still says who holds it."""

from pathlib import Path

from penstock.base.steps import whole
from penstock.broker.admin.answers_flow import EdgeRow, Edges
from penstock.broker.admin.flow_edges import (
    DEAD_LETTERS,
    QUEUE_LEASE,
    STORE_DISK,
    STREAM_GROUP,
    edges,
)
from penstock.broker.admin.paging import Pager
from penstock.broker.broker import Broker
from penstock.broker.store.group_commit import BATCH_BYTES
from penstock.flow.hop import KIND_CHANNEL_QUEUE, KIND_CONNECTION_CHANNEL, KIND_NAMES
from penstock.flow.hop import KIND_QUEUE_STORE as TO_STORE
from penstock.protocol import methods as m
from tests.unit.broker.letter_bed import LetterBed
from tests.unit.broker.peer import Bed, publish
from tests.unit.broker.stream.test_stream_groups import ask as ask_group
from tests.unit.broker.stream.test_streams import made
from tests.unit.server.lease_bed import PERSISTENT, LeaseBed, acquire, spark

NS_PER_MS = 1_000_000


def all_of(broker: Broker, vhost: str = "") -> Edges:
    return whole(edges(broker, {}, vhost, False, "name", Pager(1000)))


def of_kind(broker: Broker, kind: str) -> list[EdgeRow]:
    return [row for row in all_of(broker).edges if row.kind == kind]


def to_store(broker: Broker) -> EdgeRow:
    """Of queue q; transactions have a hop of their own."""
    (found,) = [row for row in of_kind(broker, KIND_NAMES[TO_STORE]) if row.sender == "queue:/q"]
    return found


def test_a_durable_queues_way_to_the_disk_is_listed_and_says_that_it_holds(tmp_path: Path) -> None:
    """The window of the hop is used up while the disk is not done with what it has."""
    bed = LeaseBed(tmp_path)
    peer = spark(bed)
    bed.work()
    assert [row.kind for row in all_of(bed.broker).edges if row.is_blocked] == []
    store = bed.broker.stores.stores["/"]
    (lane,) = (one for one in store.lanes if one.sender == "queue:/q")
    lane.set_window(100, 50, 0, 0)
    for _ in range(100):
        peer.send(publish(1, "", "q", bytes(100), PERSISTENT))
    bed.run()
    bed.clock.advance(30 * NS_PER_MS)
    hop = to_store(bed.broker)
    assert (hop.sender, hop.receiver, hop.vhost) == ("queue:/q", "store:/", "/")
    assert (hop.in_flight_messages, hop.balance_messages, hop.stops) == (100, 0, 1)
    assert (hop.is_blocked, hop.by, hop.reason) == (True, "store:/", "credit")
    assert hop.blocked_for_ns == hop.blocked_ns == 30 * NS_PER_MS
    (disk,) = of_kind(bed.broker, STORE_DISK)
    assert (disk.sender, disk.receiver, disk.is_blocked) == ("store:/", "disk", False)
    assert disk.in_flight_messages > 0 and disk.in_flight_bytes > 0
    found = all_of(bed.broker)
    assert (found.total, found.blocked, found.matching) == (len(found.edges), 1, found.total)
    bed.work()
    hop = to_store(bed.broker)
    assert (hop.is_blocked, hop.by, hop.blocked_ns) == (False, "", 30 * NS_PER_MS)
    assert hop.balance_messages == 100
    bed.die()


def test_a_store_whose_next_batch_is_full_waits_for_the_disk(tmp_path: Path) -> None:
    bed = LeaseBed(tmp_path)
    peer = spark(bed)
    bed.work()
    body = bytes(100_000)
    for _ in range(2 * BATCH_BYTES // len(body) + 10):
        peer.send(publish(1, "", "q", body, PERSISTENT))
    bed.run()
    bed.clock.advance(NS_PER_MS)
    (disk,) = of_kind(bed.broker, STORE_DISK)
    assert (disk.is_blocked, disk.by, disk.reason) == (True, "disk", "sync")
    assert disk.balance_bytes <= 0 and disk.blocked_for_ns >= NS_PER_MS
    bed.work()
    (disk,) = of_kind(bed.broker, STORE_DISK)
    assert (disk.is_blocked, disk.balance_bytes) == (False, BATCH_BYTES)
    bed.die()


def test_leases_are_hops_of_their_queue(tmp_path: Path) -> None:
    bed = LeaseBed(tmp_path)
    peer = spark(bed)
    bed.publish(peer, *(bytes(100) for _ in range(20)))
    acquire(bed, peer, 0, 15)
    (lease,) = of_kind(bed.broker, QUEUE_LEASE)
    assert (lease.sender, lease.receiver) == ("queue:/q", "lease:g@/q")
    assert lease.in_flight_messages == 15 and lease.in_flight_bytes > 1500
    assert not lease.is_blocked
    bed.die()


def test_dead_letters_of_a_full_window_name_the_target_that_takes_none() -> None:
    bed = LetterBed()
    bed.declare("dead", max_length=5, overflow="backpressure")
    letters = bed.rejected(60)
    bed.clock.advance(NS_PER_MS)
    (hop,) = of_kind(bed.broker, DEAD_LETTERS)
    assert (hop.sender, hop.receiver, hop.vhost) == ("dead:/q", "queue:/dead", "/")
    assert hop.window_messages == letters.window
    assert hop.balance_messages == 0 == letters.window - letters.count
    assert hop.in_flight_messages + hop.deferred_messages == letters.window
    assert (hop.is_blocked, hop.by, hop.reason) == (True, "queue:/dead", "window")
    assert hop.blocked_for_ns == NS_PER_MS
    for _ in range(60):
        bed.peer.call(1, m.BasicGet("dead", no_ack=True), m.BasicGetOk)
        bed.run()
    (hop,) = of_kind(bed.broker, DEAD_LETTERS)
    assert (hop.is_blocked, hop.by, hop.in_flight_messages) == (False, "", 0)
    assert hop.blocked_for_ns == 0 and hop.balance_messages == letters.window
    bed.settle()


def test_a_group_that_holds_a_stream_is_a_hop_that_is_blocked() -> None:
    bed = Bed()
    peer = made(bed)
    ask_group(peer, "stream.group.register", group="etl", offset=0, max_lag_messages=10)
    peer.publish("s", *(bytes(100) for _ in range(20)))
    bed.run()
    (hop,) = of_kind(bed.broker, STREAM_GROUP)
    assert (hop.sender, hop.receiver) == ("queue:/s", "group:etl@/s")
    assert (hop.window_messages, hop.in_flight_messages) == (10, 20)
    assert (hop.is_blocked, hop.by, hop.reason) == (True, "group:etl@/s", "lag")
    ask_group(peer, "stream.group.advance", group="etl", offset=20)
    (hop,) = of_kind(bed.broker, STREAM_GROUP)
    assert (hop.is_blocked, hop.in_flight_messages) == (False, 0)


def test_the_count_is_that_of_what_exists_in_the_virtual_host(tmp_path: Path) -> None:
    bed = LeaseBed(tmp_path)
    peer = spark(bed)
    bed.work()
    alone = all_of(bed.broker)
    assert {(row.sender, row.receiver, row.kind) for row in alone.edges} == {
        ("conn:spark", "chan:spark/1", KIND_NAMES[KIND_CONNECTION_CHANNEL]),
        ("conn:spark", "chan:spark/2", KIND_NAMES[KIND_CONNECTION_CHANNEL]),
        ("queue:/q", "store:/", KIND_NAMES[TO_STORE]),
        ("transactions:/", "store:/", KIND_NAMES[TO_STORE]),
        ("store:/", "disk", STORE_DISK),
    }
    assert alone.total == 5
    peer.send(publish(1, "", "q", b"x", PERSISTENT))
    bed.work()
    both = all_of(bed.broker)
    assert both.total == alone.total + 1
    assert KIND_NAMES[KIND_CHANNEL_QUEUE] in {row.kind for row in both.edges}
    assert all_of(bed.broker, "/").total == both.total
    assert all_of(bed.broker, "elsewhere").total == 0
    bed.die()
