"""Queues that take no duplicates, partly on the disk: what is known of what is there."""

from penstock.broker.paging.paged_view import paged_of
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.protocol.values import Value
from penstock.queues.deduplication import KEY_BYTES
from penstock.queues.priorities import PriorityQueue
from penstock.queues.rules import REASON_DUPLICATE, REASON_EXPIRED
from tests.unit.broker.paging.test_pager import BODY_BYTES, TARGET_BYTES
from tests.unit.broker.paging.test_ruled_pager import RuledDepot

MANY = 60


class WindowDepot(RuledDepot):
    """Queue r takes no duplicates."""

    def __init__(self, is_durable: bool = True, **arguments: Value) -> None:
        super().__init__(is_durable, message_deduplication=True, **arguments)

    def put(self, keys: range, mode: int = 2) -> list[bytes]:
        """A message for each key; their bodies."""
        bodies = []
        for key in keys:
            headers: dict[str, Value] = {"x-deduplication-header": f"key-{key}"}
            properties = Properties(delivery_mode=mode, headers=headers)
            bodies += self.fill("r", 1, properties, BODY_BYTES)
        self.rest()
        return bodies

    @property
    def window(self) -> PriorityQueue:
        found = self.queue("r").messages
        assert isinstance(found, PriorityQueue) and found.is_paging, "the queue does not page"
        return found


def test_what_is_on_the_disk_is_known_and_what_left_is_free() -> None:
    for is_durable in (True, False):
        for mode in (1, 2):
            depot = WindowDepot(is_durable)
            bodies = depot.put(range(MANY), mode)
            assert depot.window.bytes_ready <= TARGET_BYTES and depot.paged() > MANY // 2
            depot.put(range(MANY), mode)
            assert depot.ready("r") == MANY and depot.drops(REASON_DUPLICATE) == MANY
            depot.check_books()
            assert depot.drain("r", 7).bodies() == bodies
            assert depot.is_empty()
            assert not depot.queue("r").messages.is_paging
            assert depot.put(range(3), mode)
            assert depot.queue("r").messages.publish_count == 2 * MANY + 3
            assert depot.drops(REASON_DUPLICATE) == MANY


def test_what_is_out_is_known_until_it_is_answered() -> None:
    depot = WindowDepot()
    bodies = depot.put(range(MANY))
    hand = depot.connect()[0]
    hand.say(m.BasicQos(0, 5))
    hand.say(m.BasicConsume(queue="r"))
    depot.rest()
    assert hand.bodies() == bodies[:5]
    depot.put(range(5))
    assert depot.drops(REASON_DUPLICATE) == 5
    hand.client.session.ack(hand.channel, 2, True)
    hand.client.flush()
    depot.rest()
    more = depot.put(range(5))
    assert depot.drops(REASON_DUPLICATE) == 8 and len(more) == 5
    hand.client.vanish(True)
    depot.rest()
    assert depot.drain("r").bodies() == bodies[2:] + more[:2]
    assert depot.is_empty()


def test_what_died_on_the_disk_or_was_purged_is_free() -> None:
    depot = WindowDepot(message_ttl=1000)
    depot.put(range(MANY))
    depot.pass_ms(1001)
    assert depot.drops(REASON_EXPIRED) == MANY
    depot.put(range(MANY))
    assert depot.ready("r") == MANY and paged_of(depot.queue("r"))[0] > 0
    depot.hand.say(m.QueuePurge("r"))
    depot.rest()
    depot.put(range(MANY))
    assert depot.ready("r") == MANY and depot.drops(REASON_DUPLICATE) == 0


def test_keys_count_towards_the_depth_mark() -> None:
    depot = WindowDepot()
    queue = depot.queue("r")
    queue.depth_bytes = TARGET_BYTES + 20 * KEY_BYTES
    depot.put(range(MANY))
    assert depot.window.kept_bytes() > 20 * KEY_BYTES
    assert queue.stop_reason() == "depth"
    depot.drain("r")
    assert queue.stop_reason() == ""
