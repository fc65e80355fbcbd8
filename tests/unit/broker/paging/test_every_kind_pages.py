"""Queues with every kind of rule, and with several: what is above the target leaves memory and
comes back in order; reads that are awaited, purges under way, damage."""

from itertools import count

import pytest

from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.protocol.values import Value
from tests.unit.broker.paging.test_pager import TARGET_BYTES
from tests.unit.broker.paging.test_ruled_pager import RuledDepot

MANY = 60
BODY_BYTES = 700
HIGHEST = 3
KINDS: dict[str, dict[str, Value]] = {
    "ttl": {"message_ttl": 3_600_000},
    "quorum": {"queue_type": "quorum"},
    "bytes": {"max_length_bytes": 1 << 30},
    "limit": {"delivery_limit": 3},
    "priorities": {"max_priority": HIGHEST},
    "keys": {"message_deduplication": True},
    "values": {"last_value_key": "key"},
    "priorities-keys": {"max_priority": HIGHEST, "message_deduplication": True},
    "priorities-values": {"max_priority": HIGHEST, "last_value_key": "key"},
    "keys-values": {"message_deduplication": True, "last_value_key": "key"},
    "all": {
        "message_ttl": 3_600_000,
        "delivery_limit": 3,
        "max_priority": HIGHEST,
        "message_deduplication": True,
        "last_value_key": "key",
    },
}

every_kind = pytest.mark.parametrize("kind", KINDS)


class KindDepot(RuledDepot):
    """Queue r has the rules of `kind`; numbers: of messages."""

    def __init__(self, kind: str, is_durable: bool = True) -> None:
        super().__init__(is_durable, **KINDS[kind])
        self.levels = HIGHEST + 1 if "max_priority" in KINDS[kind] else 1
        self.numbers = count()

    def put(self, mode: int = 2) -> list[bytes]:
        """MANY messages, no two with the same key, of all levels by turns; their bodies in the
        order of delivery."""
        found: list[list[bytes]] = [[] for _ in range(self.levels)]
        session = self.hand.client.session
        for _ in range(MANY):
            number = next(self.numbers)
            level = number * 7 % self.levels
            headers: dict[str, Value] = {"key": number, "x-deduplication-header": f"key-{number}"}
            properties = Properties(delivery_mode=mode, headers=headers, priority=level or None)
            body = b"%06d" % number + b"." * (BODY_BYTES - 6)
            session.publish(self.hand.channel, "", "r", body, properties)
            found[level].append(body)
        self.hand.client.flush()
        self.rest()
        return [body for level in reversed(found) for body in level]


@pytest.mark.parametrize(
    ("kind", "is_durable", "mode"),
    [
        (kind, is_durable, mode)
        for kind in KINDS
        for is_durable, mode in ((True, 2), (True, 1), (False, 1))
        if is_durable or kind != "quorum"
    ],
)
def test_what_is_above_the_target_leaves_memory_and_comes_back_in_order(
    kind: str, is_durable: bool, mode: int
) -> None:
    depot = KindDepot(kind, is_durable)
    for _ in range(2):
        bodies = depot.put(mode)
        messages = depot.queue("r").messages
        assert messages.is_paging and depot.paged() > MANY // 2
        # Pieces, stubs and the first messages of levels may come on top.
        assert messages.bytes_ready <= 3 * TARGET_BYTES
        depot.check_books()
        reader = depot.drain("r", 7)
        assert reader.bodies() == bodies
        assert depot.is_empty() and not depot.queue("r").messages.is_paging
        assert depot.queue("r").page_above == TARGET_BYTES
        reader.client.vanish(True)
        depot.rest()


@every_kind
def test_a_get_waits_for_its_message(kind: str) -> None:
    depot = KindDepot(kind)
    bodies = depot.put()
    hand = depot.asking()
    for _ in range(MANY + 1):
        hand.say(m.BasicGet(queue="r", no_ack=True))
    depot.settle()
    assert 0 < len(hand.got()) < MANY, "the disk has not worked yet"
    depot.rest()
    assert hand.got() == bodies
    assert isinstance(hand.answers[-1].reply, m.BasicGetEmpty)
    assert depot.is_empty()


@every_kind
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_purge_or_deletion_while_it_is_read_leaves_nothing(kind: str, is_deleted: bool) -> None:
    depot = KindDepot(kind)
    depot.put()
    reader = depot.connect(acks=True)[0]
    reader.say(m.BasicQos(0, 5))
    reader.say(m.BasicConsume(queue="r"))
    depot.settle()
    assert depot.disk.jobs, "a read is under way"
    depot.hand.say(m.QueueDelete("r") if is_deleted else m.QueuePurge("r"))
    depot.rest()
    assert depot.is_empty()
    if not is_deleted:
        before = len(reader.bodies())
        bodies = depot.put()
        depot.rest()
        assert sorted(reader.bodies()[before:]) == sorted(bodies)
        assert depot.is_empty()


@every_kind
def test_damage_stops_the_queue_and_then_costs_one_message(kind: str) -> None:
    depot = KindDepot(kind)
    bodies = depot.put()
    name = next(one for one in depot.files.names() if one.endswith(".log"))
    at = bytes(depot.files.files[name].data).index(bodies[40])
    depot.files.flip(name, (at + 100) * 8)
    hand = depot.drain("r")
    assert depot.queue("r").is_paused
    assert hand.bodies() == bodies[: len(hand.bodies())]
    depot.check_books()
    depot.queue("r").pause(False)
    depot.rest()
    assert hand.bodies() == bodies[:40] + bodies[41:]
    assert depot.is_empty()
