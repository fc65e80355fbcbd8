"""RabbitMQ's queue_index_embed_msgs_below and msg_store_io_batch_size: what they do to the credit
of the store, and that both may be changed while the broker runs (seed S1, scenarios 23, 24)."""

from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.base.steps import whole
from penstock.broker.admin.answers_flow import EdgeRow
from penstock.broker.admin.flow_edges import edges
from penstock.broker.admin.paging import Pager
from penstock.broker.paging.rabbit_pager import RabbitPager
from penstock.protocol import methods as m
from tests.unit.broker.peer import Peer, publish
from tests.unit.server.lease_bed import PERSISTENT, LeaseBed

EMBED = "queue_index_embed_msgs_below"
BATCH = "msg_store_io_batch_size"


def began(path: Path, profile: str = "rabbitmq-4", **settings: object) -> tuple[LeaseBed, Peer]:
    """The durable queue q."""
    bed = LeaseBed(path, profile=profile, **settings)
    peer = bed.connect("web")
    peer.call(1, m.QueueDeclare("q", durable=True), m.QueueDeclareOk)
    bed.work()
    return bed, peer


def change(bed: LeaseBed, wanted: dict[str, str]) -> None:
    """penstock flow set."""
    bed.broker.changes.change(list(wanted.items()), 0)


def hop(bed: LeaseBed) -> EdgeRow:
    """The queue's to its store."""
    found = whole(edges(bed.broker, {}, "/", False, "name", Pager(100))).edges
    (row,) = [one for one in found if one.sender == "queue:/q"]
    return row


def sent(bed: LeaseBed, peer: Peer, size: int, count: int) -> EdgeRow:
    """The hop while `count` messages of `size` bytes are on their way to the disk."""
    for _ in range(count):
        peer.send(publish(1, "", "q", bytes(size), PERSISTENT))
    bed.run()
    return hop(bed)


@pytest.mark.parametrize(
    ("embed", "size", "spent"),
    [("", 1000, 0), ("", 4095, 0), ("", 4096, 50), ("", 5000, 50), ("0", 1000, 50), ("0", 0, 50),
     ("500", 499, 0), ("500", 500, 50), ("100000", 50_000, 0)],
)  # fmt: skip
def test_small_messages_cost_no_credit(tmp_path: Path, embed: str, size: int, spent: int) -> None:
    """Body and properties count; there is one octet of properties here, the delivery mode."""
    bed, peer = began(tmp_path, **{EMBED: embed} if embed else {})
    row = sent(bed, peer, max(0, size - 1), 50)
    assert row.window_messages == 4000
    assert (row.in_flight_messages, row.balance_messages) == (spent, 4000 - spent)
    assert row.free_messages == 50 - spent
    bed.work()
    assert hop(bed).in_flight_messages == 0, "repaid as it was charged"
    bed.die()


def test_the_credit_of_large_messages_runs_out_and_that_of_small_ones_does_not(
    tmp_path: Path,
) -> None:
    bed, peer = began(tmp_path, credit_queue_store="100/50")
    row = sent(bed, peer, 1000, 300)
    assert (row.is_blocked, row.stops, row.free_messages) == (False, 0, 300)
    bed.work()
    row = sent(bed, peer, 5000, 300)
    assert row.is_blocked and row.stops >= 1 and row.balance_messages <= 0
    bed.work()
    bed.die()


def test_a_change_is_in_force_at_once_and_repays_what_was_charged_before(tmp_path: Path) -> None:
    bed, peer = began(tmp_path)
    assert sent(bed, peer, 1000, 20).in_flight_messages == 0
    change(bed, {EMBED: "0", BATCH: "64"})
    assert (bed.broker.profile.embed_below, bed.broker.profile.io_batch) == (0, 64)
    assert sent(bed, peer, 1000, 20).in_flight_messages == 20
    change(bed, {EMBED: "4096"})
    assert sent(bed, peer, 1000, 20).in_flight_messages == 20
    bed.work()
    assert (hop(bed).in_flight_messages, hop(bed).free_messages) == (0, 40)
    bed.die()


def test_a_queue_that_pages_goes_by_the_new_numbers(tmp_path: Path) -> None:
    bed, peer = began(tmp_path)
    actor = bed.actor("q")
    paging = bed.broker.stores.paging
    assert paging is not None
    pager = paging.pager_of(actor)
    assert isinstance(pager, RabbitPager)
    assert (pager.rules.batch, pager.rules.embed_below) == (4096, 4096)
    change(bed, {EMBED: "10", BATCH: "7"})
    assert (pager.rules.batch, pager.rules.embed_below, pager.acks.embed_below) == (7, 10, 10)
    assert pager.durability.embed_below == 10
    peer.call(1, m.QueueDeclare("later", durable=True), m.QueueDeclareOk)
    later = paging.rules_of(bed.actor("later"))
    assert (later.batch, later.embed_below) == (7, 10)
    bed.work()
    bed.die()


def test_other_profiles_have_no_such_setting(tmp_path: Path) -> None:
    bed, peer = began(tmp_path, "penstock")
    with pytest.raises(OperatorError, match=EMBED):
        change(bed, {EMBED: "0"})
    row = sent(bed, peer, 10, 30)
    assert (row.in_flight_messages, row.free_messages) == (30, 0), "each costs credit"
    bed.work()
    bed.die()


def test_a_window_to_the_store_reaches_the_hops_there_are(tmp_path: Path) -> None:
    bed, peer = began(tmp_path, "penstock")
    change(bed, {"credit.queue_store": "30/10"})
    assert hop(bed).window_messages == 30
    assert sent(bed, peer, 10, 60).is_blocked
    bed.work()
    bed.die()
