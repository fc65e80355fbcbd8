"""Commits into queues of which most is on the disk: order, places in the log, purges."""

import pytest

from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.protocol.values import Table
from tests.spec.stage import Hand
from tests.spec.test_store_scenarios import PERSISTENT, TRANSIENT
from tests.unit.broker.paging.depot import PagingDepot


def asked(depot: PagingDepot, hand: Hand, verb: str, arguments: Table) -> Table:
    """A request of transactions, the disk doing what it needs, and its answer."""
    hand.replies.clear()
    hand.say(m.RequestAsk(f"transaction.{verb}", arguments))
    depot.settle()
    depot.write()
    (answer,) = [one for one in hand.replies if isinstance(one, m.RequestAskOk)]
    return answer.answer


def committed(
    depot: PagingDepot, batch: int, queues: list[str], count: int, properties: Properties
) -> list[bytes]:
    """Commit `count` messages to each of `queues`; their bodies."""
    hand = depot.connect()[0]
    begun: Table = {"app": "job", "batch": batch, "max_bytes": 1_000_000}
    identity = asked(depot, hand, "begin", begun)["id"]
    bodies = [b"%d:%06d" % (batch, number) + b"-" * 500 for number in range(count)]
    for body in bodies:
        for name in queues:
            hand.client.session.publish(hand.channel, "", name, body, properties)
    hand.client.flush()
    depot.settle()
    asked(depot, hand, "stage", {"id": identity})
    answer = asked(depot, hand, "commit", {"app": "job", "batch": batch, "ids": [identity]})
    assert answer["messages"] == count * len(queues)
    return bodies


@pytest.mark.parametrize("properties", [PERSISTENT, TRANSIENT], ids=["persistent", "transient"])
def test_what_is_committed_keeps_its_place_behind_what_is_paged(properties: Properties) -> None:
    depot = PagingDepot()
    expected: dict[str, list[bytes]] = {"d1": [], "q1": []}
    for batch in range(3):
        for name, bodies in expected.items():
            bodies += depot.fill(30, name=name)
        more = committed(depot, batch, ["d1", "q1"], 25, properties)
        for bodies in expected.values():
            bodies += more
    depot.rest()
    assert depot.queue("d1").messages.paged_count() > 100
    for name, bodies in expected.items():
        assert depot.ready(name) == len(bodies)
        assert depot.drain(name).bodies() == bodies
    assert depot.store.log.live_count(depot.store.lanes[0].index) == 0
    assert depot.broker.node_account.total_stored_bytes() == 0


def test_a_purge_while_a_commit_is_on_its_way_takes_what_was_there_before() -> None:
    depot = PagingDepot()
    depot.fill(60, name="d1")
    hand, driver = depot.connect()[0], depot.connect()[0]
    identity = asked(depot, hand, "begin", {"app": "job", "batch": 0})["id"]
    hand.client.session.publish(hand.channel, "", "d1", b"new", PERSISTENT)
    hand.client.flush()
    depot.settle()
    asked(depot, hand, "stage", {"id": identity})
    given: Table = {"app": "job", "batch": 0, "ids": [identity]}
    driver.say(m.RequestAsk("transaction.commit", given))
    depot.settle()
    depot.hand.say(m.QueuePurge("d1"))
    depot.settle()
    depot.rest()
    assert any(isinstance(one, m.RequestAskOk) for one in driver.replies)
    assert depot.ready("d1") == 1
    assert depot.drain("d1").bodies() == [b"new"]
    assert depot.store.log.live_count(depot.store.lanes[0].index) == 0
