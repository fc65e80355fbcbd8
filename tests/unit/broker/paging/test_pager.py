"""Paging in the whole broker, on a disk that waits: what each kind of queue does alike.

Out of memory and back in order; reads that are awaited; what comes back, is rejected, is purged
under way; damage; and what becomes of the others, of publishers and of memory meanwhile.
"""

import pytest

from penstock.base.limits import PARKED_METHODS, PARKED_METHODS_BYTES
from penstock.broker.paging.pager import PASSES_PER_TURN, Pager
from penstock.protocol import methods as m
from penstock.protocol.values import Table, Value
from penstock.queues.backlog import PAGED_AT_ONCE
from penstock.queues.rules import REASON_REJECTED
from tests.spec.test_store_scenarios import PERSISTENT, TRANSIENT
from tests.unit.broker.paging.depot import (
    BODY_BYTES,
    KEY,
    LETTERS,
    NO_PAGING,
    TARGET_BYTES,
    PagingDepot,
)

MANY = 60
OUT = 30
HIGHEST = 3
STEPS_MAX = 200
HOUR: Value = 3_600_000
KINDS: dict[str, dict[str, Value]] = {
    "plain": {},
    "ttl": {"message_ttl": HOUR},
    "quorum": {"queue_type": "quorum"},
    "bytes": {"max_length_bytes": 1 << 30},
    "limit": {"delivery_limit": 3},
    "keys": {"message_deduplication": True},
    "priorities": {"max_priority": HIGHEST},
    "values": {"last_value_key": KEY},
    "priorities-keys": {"max_priority": HIGHEST, "message_deduplication": True},
    "priorities-values": {"max_priority": HIGHEST, "last_value_key": KEY},
    "keys-values": {"message_deduplication": True, "last_value_key": KEY},
    "all": {
        "message_ttl": HOUR,
        "delivery_limit": 3,
        "max_priority": HIGHEST,
        "message_deduplication": True,
        "last_value_key": KEY,
    },
}

every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.parametrize(
    ("kind", "is_durable", "mode"),
    [
        (kind, is_durable, mode)
        for kind in KINDS
        for is_durable, mode in ((True, 2), (True, 1), (False, 1), (False, 2))
        if is_durable or kind != "quorum"
    ],
)
def test_what_is_above_the_target_leaves_memory_and_comes_back_in_order(
    kind: str, is_durable: bool, mode: int
) -> None:
    depot = PagingDepot(is_durable, **KINDS[kind])
    # Pieces, stubs and the first messages of levels may come on top.
    most = TARGET_BYTES if depot.levels == 1 and "values" not in kind else 3 * TARGET_BYTES
    for _ in range(2):
        bodies = depot.mixed(MANY, mode)
        messages = depot.queue().messages
        assert messages.is_paging and depot.paged() > MANY // 2
        assert messages.bytes_ready <= most
        depot.check_books()
        reader = depot.drain("r", 7)
        assert reader.bodies() == bodies
        assert depot.is_empty() and not depot.queue().messages.is_paging
        assert depot.queue().page_above == TARGET_BYTES
        depot.leave(reader)
    assert ("/" in depot.broker.stores.scratch) == (not is_durable)


@every_kind
def test_a_get_waits_for_its_message_and_what_is_behind_it_too(kind: str) -> None:
    depot = PagingDepot(**KINDS[kind])
    bodies = depot.mixed(MANY)
    hand = depot.asking()
    for _ in range(MANY + 1):
        hand.say(m.BasicGet(queue="r", no_ack=True))
    hand.say(m.QueueDeclare("r", passive=True))
    depot.settle()
    assert 0 < len(hand.got()) < MANY, "the disk has not worked yet"
    depot.rest()
    assert hand.got() == bodies
    assert isinstance(hand.answers[-2].reply, m.BasicGetEmpty)
    assert isinstance(hand.answers[-1].reply, m.QueueDeclareOk)
    assert depot.is_empty()


@every_kind
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_purge_or_deletion_while_it_is_read_leaves_nothing(kind: str, is_deleted: bool) -> None:
    depot = PagingDepot(**KINDS[kind])
    depot.mixed(MANY)
    reader = depot.begin_reading(prefetch=5)
    assert depot.disk.jobs, "a read is under way"
    depot.hand.say(m.QueueDelete("r") if is_deleted else m.QueuePurge("r"))
    depot.rest()
    assert depot.is_empty()
    if is_deleted:
        assert "queue:/r" not in [lane.sender for lane in depot.store.lanes]
        return
    before = len(reader.bodies())
    bodies = depot.mixed(MANY)
    depot.rest()
    assert sorted(reader.bodies()[before:]) == sorted(bodies)
    assert depot.is_empty()


@every_kind
def test_a_purge_leaves_what_is_out_and_nothing_else(kind: str) -> None:
    depot = PagingDepot(**KINDS[kind])
    bodies = depot.mixed(MANY)
    reader = depot.holding(3)
    depot.hand.say(m.QueuePurge("r"))
    depot.rest()
    assert depot.ready("r") == 0 and depot.queue().unacked_count == 3
    depot.check_books()
    depot.leave(reader)
    assert depot.drain().bodies() == bodies[:3]
    assert depot.is_empty()


@every_kind
def test_what_comes_back_is_at_its_place_again_before_what_is_on_the_disk(kind: str) -> None:
    depot = PagingDepot(**KINDS[kind])
    bodies = depot.mixed(MANY)
    reader = depot.holding(20)
    assert reader.bodies() == bodies[:20]
    depot.leave(reader)
    hand = depot.drain("r", 5)
    assert hand.bodies() == bodies
    assert [one.redelivered for one in hand.deliveries] == [True] * 20 + [False] * 40
    assert depot.is_empty()


@every_kind
def test_bodies_of_unanswered_deliveries_leave_memory_and_are_read_when_they_come_back(
    kind: str,
) -> None:
    depot = PagingDepot(**KINDS[kind])
    bodies = depot.mixed(MANY)
    first = depot.holding(OUT)
    assert depot.queue().unacked_bytes > OUT * BODY_BYTES
    depot.tick(2 * TARGET_BYTES)
    assert depot.queue().unacked_bytes <= TARGET_BYTES // 2
    depot.check_books()
    for at in (24, 0):
        first.client.session.ack(first.channel, first.deliveries[at].delivery_tag)
    first.client.flush()
    depot.rest()
    depot.leave(first)
    hand = depot.drain()
    assert hand.bodies() == bodies[1:24] + bodies[25:]
    assert [one.redelivered for one in hand.deliveries] == [True] * OUT + [False] * (OUT - 2)
    assert depot.is_empty()
    depot.queue().wake()
    depot.settle()
    assert not depot.queue().messages.is_paging


@every_kind
def test_a_rejected_message_is_read_for_its_letter(kind: str) -> None:
    depot = PagingDepot(**KINDS[kind], **LETTERS)
    bodies = depot.mixed(MANY)
    hand = depot.holding(OUT)
    depot.tick(2 * TARGET_BYTES)
    assert depot.queue().unacked_bytes <= TARGET_BYTES // 2
    for delivery in hand.deliveries[:OUT]:
        hand.say(m.BasicReject(delivery.delivery_tag, False))
    depot.settle()
    depot.check_books()
    depot.rest()
    assert depot.drops(REASON_REJECTED) == depot.ready("g") == OUT
    assert hand.bodies() == bodies
    depot.check_books()
    depot.leave(hand)
    assert sorted(depot.drain("g").bodies()) == sorted(bodies[:OUT])
    assert depot.drain().bodies() == bodies[OUT:]
    assert depot.is_empty()


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("kind", ["plain", "ttl", "priorities", "values"])
@pytest.mark.parametrize(
    "sizes", [(20, 9000), (20, 20, 9000), (20, 9000, 20), (9000, 20), (500,) * 20 + (9000, 20)]
)
def test_a_message_larger_than_the_target_is_not_read_again_and_again(
    kind: str, mode: int, sizes: tuple[int, ...]
) -> None:
    depot = PagingDepot(**KINDS[kind])
    bodies = []
    for key, size in enumerate(sizes):
        bodies += depot.put(range(key, key + 1), mode, 1, size)
    for _ in range(STEPS_MAX):
        if not depot.disk.jobs:
            break
        depot.write()
        depot.settle()
    assert not depot.disk.jobs, "the disk never rests"
    assert depot.drain().bodies() == bodies


@every_kind
def test_f14_damage_stops_the_queue_and_then_costs_one_message(kind: str) -> None:
    """F14: the queue is paused and says so; resumed it gives what is left, in order."""
    depot = PagingDepot(**KINDS[kind])
    bodies = depot.mixed(MANY)
    depot.flip(bodies[40])
    hand = depot.drain()
    assert depot.queue().is_paused
    assert hand.bodies() == bodies[: len(hand.bodies())]
    assert len(hand.bodies()) <= 40
    depot.check_books()
    depot.queue().pause(False)
    depot.rest()
    assert hand.bodies() == bodies[:40] + bodies[41:]
    assert depot.is_empty()


# -- queues without rules --------------------------------------------------------------------------


def test_a_queue_below_its_target_does_not_page() -> None:
    depot = PagingDepot()
    depot.fill(3)
    assert not depot.queue().messages.is_paging


def test_persistent_and_transient_messages_of_one_queue_keep_their_order() -> None:
    depot = PagingDepot()
    bodies = []
    for _ in range(40):
        bodies += depot.fill(2, PERSISTENT) + depot.fill(3, TRANSIENT)
    assert depot.paged() > 150
    assert depot.drain("r", 7).bodies() == bodies


def test_a_connection_is_not_read_while_too_much_waits_behind_a_get() -> None:
    depot = PagingDepot()
    bodies = depot.fill(100)
    hand = depot.asking()
    reader = depot.connection(hand.client)
    for _ in range(30):
        hand.say(m.BasicGet(queue="r", no_ack=True))
    for _ in range(3 * PARKED_METHODS.default):
        hand.say(m.QueueDeclare("r", passive=True, no_wait=True))
    depot.settle()
    inbox = reader.channels[hand.channel].inbox
    assert len(inbox.methods) - inbox.head == PARKED_METHODS.default
    assert list(reader.gate.reasons) == [(reader.channels[hand.channel].identity, "read")]
    depot.rest()
    assert reader.gate.is_open
    assert hand.got() == bodies[:30]


def test_so_it_is_while_little_that_is_long_waits_there() -> None:
    depot = PagingDepot()
    depot.fill(100)
    hand = depot.asking()
    reader = depot.connection(hand.client)
    for _ in range(30):
        hand.say(m.BasicGet(queue="r", no_ack=True))
    padding: Table = {"padding": "x" * 100_000}
    for _ in range(50):
        hand.say(m.QueueDeclare("r", passive=True, no_wait=True, arguments=padding))
    depot.settle()
    inbox = reader.channels[hand.channel].inbox
    waiting = sum(len(one.payload) for one in inbox.methods[inbox.head :])
    assert waiting < PARKED_METHODS_BYTES.default + 200_000
    assert list(reader.gate.reasons) == [(reader.channels[hand.channel].identity, "read")]
    depot.rest()
    assert reader.gate.is_open and inbox.bytes == 0
    assert len(hand.got()) == 30


def test_a_get_that_waits_finds_an_empty_queue_after_a_purge() -> None:
    depot = PagingDepot()
    depot.fill(100)
    hand = depot.asking()
    for _ in range(30):
        hand.say(m.BasicGet(queue="r", no_ack=True))
    depot.settle()
    assert len(hand.got()) < 30
    depot.hand.say(m.QueuePurge("r"))
    depot.rest()
    assert isinstance(hand.answers[-1].reply, m.BasicGetEmpty)
    assert len(hand.answers) == 31


def test_f14_damage_that_does_not_come_next_any_more_is_found_again() -> None:
    """F14: the queue pages on while it is read; the message is given up once, when it is next."""
    depot = PagingDepot()
    queue = depot.queue()
    bodies = depot.fill(300, body_bytes=60)
    next_at = int(queue.messages.at_hand())
    depot.flip(bodies[next_at])
    got = 0
    while not depot.disk.jobs:
        depot.hand.say(m.BasicGet(queue="r", no_ack=True))
        depot.settle()
        got += 1
    before = depot.paged()
    depot.pager.aim(300)
    queue.wake()
    depot.settle()
    assert depot.paged() > before, "a part of the front has left"
    depot.rest()
    assert queue.queue_limits is None and not depot.pager.durability.unread
    hand = depot.drain()
    assert queue.is_paused
    queue.pause(False)
    depot.rest()
    assert hand.bodies() == bodies[got:next_at] + bodies[next_at + 1 :]
    assert depot.ready("r") == 0


def test_f17_what_a_full_disk_has_not_taken_is_not_damaged() -> None:
    """F17: consumers get what is on the disk, and the rest when there is room."""
    depot = PagingDepot()
    bodies = depot.fill(50)
    depot.files.room = 3000
    bodies += depot.fill(20)
    hand = depot.drain()
    assert depot.queue().queue_limits is None
    assert hand.bodies() == bodies[: len(hand.bodies())]
    assert len(hand.bodies()) >= 50
    depot.files.room = 1 << 30
    depot.pass_ms(5000)
    assert hand.bodies() == bodies
    assert depot.queue().queue_limits is None


def test_a_limit_drops_what_is_on_the_disk_from_its_head() -> None:
    depot = PagingDepot()
    bodies = depot.fill(100)
    depot.apply(max_length=10, overflow="drop-head")
    assert depot.ready("r") == 10
    bodies += depot.fill(5)
    assert depot.drain().bodies() == bodies[-10:]
    assert depot.live() == 0


def test_the_budget_is_shared_by_water_level() -> None:
    """Two large queues and a small one: the small one keeps what it has."""
    depot = PagingDepot()
    for actor in depot.broker.vhosts["/"].queues.values():
        actor.page_above = 1 << 40
    for name, count in (("d1", 200), ("d2", 200), ("r", 3)):
        depot.fill(count, name=name)
    depot.tick(160_000)
    held = {name: int(depot.queue(name).messages.bytes_ready) for name in ("d1", "d2", "r")}
    assert sum(held.values()) <= 80_000
    assert held["d1"] > 20_000 and held["d2"] > 20_000
    assert not depot.queue().messages.is_paging
    pagers = [depot.queue(name).paging for name in ("d1", "d2")]
    targets = [int(pager.target_bytes) for pager in pagers if isinstance(pager, Pager)]
    assert len(targets) == 2 and targets[0] == targets[1] < 40_000


@pytest.mark.parametrize("kind", ["plain", "ttl", "keys", "priorities"])
def test_what_leaves_because_the_target_falls_leaves_in_several_turns(kind: str) -> None:
    """All of it has its place on the disk already, and would cost nothing but time."""
    depot = PagingDepot(**KINDS[kind])
    depot.world.setting.check_every = 100_000
    actor = depot.queue()
    actor.page_above = NO_PAGING
    bodies = depot.fill(20 * PAGED_AT_ONCE, body_bytes=20)
    messages = actor.messages
    assert messages.paged_count() == 0
    actor.page_above = TARGET_BYTES
    moved, turns = 0, 0
    while messages.bytes_ready > 2 * TARGET_BYTES:
        actor.turn(1024)
        left, moved = int(messages.paged_count()) - moved, int(messages.paged_count())
        assert 0 < left <= 2 * PAGED_AT_ONCE * PASSES_PER_TURN
        turns += 1
    assert turns >= 2
    depot.rest()
    assert depot.drain().bodies() == bodies
