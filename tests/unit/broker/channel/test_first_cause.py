"""What a relay publishes because of a delivery is on the page of the first cause, through any
number of relays and dead letters (seed S4: children of children)."""

from collections.abc import Iterator

import pytest

from penstock.base.steps import whole
from penstock.broker.admin.flow_ledger import ledger_rows
from penstock.broker.admin.paging import Pager
from penstock.broker.admin.queue_causes import queue_causes
from penstock.explain.naming import Names
from penstock.protocol import methods as m
from penstock.protocol.values import Table, Value
from tests.unit.broker.letter_bed import LetterBed
from tests.unit.broker.peer import Peer, headers_property, publish

BODY = bytes(3000)


@pytest.fixture
def chain() -> Iterator[LetterBed]:
    """Queues one, two and three, and the books balanced at the end."""
    bed = LetterBed()
    for name in ("one", "two", "three"):
        bed.declare(name)
    yield bed
    bed.check_books()


def relay(bed: LetterBed, name: str, source: str, cause: bool = True, count: int = 5) -> Peer:
    """Takes `count` from `source` and publishes each to the next queue, in words of the header if
    `cause`; then it acknowledges."""
    peer = bed.connect(name)
    target = {"one": "two", "two": "three"}[source]
    peer.say(1, m.BasicConsume(queue=source))
    bed.run()
    tags = [
        one.method.delivery_tag for one in peer.heard() if isinstance(one.method, m.BasicDeliver)
    ]
    assert len(tags) == count
    for tag in tags:
        headers: Table = {"x-cause": tag} if cause else {"other": tag}
        peer.send(publish(1, "", target, BODY, headers_property(headers)))
    peer.say(1, m.BasicAck(tags[-1], True))
    bed.run()
    return peer


def stored(bed: LetterBed) -> dict[str, int]:
    """Messages on the page of each connection that has any, by the one command."""
    return {
        row.name: row.stored_messages
        for row in ledger_rows(bed.broker)
        if row.level == "connection" and row.stored_messages
    }


def causes_of(bed: LetterBed, queue: str) -> dict[str, int]:
    rows = whole(queue_causes(bed.broker, queue, "size", Names({}), Pager(9))).rows
    return {row.account: row.messages for row in rows}


def test_three_hops_are_on_the_page_of_the_first(chain: LetterBed) -> None:
    web = chain.connect("web")
    web.publish("one", *(BODY for _ in range(5)))
    chain.run()
    relay(chain, "first", "one")
    assert stored(chain) == {"conn:web": 5} and causes_of(chain, "two") == {"conn:web": 5}
    relay(chain, "second", "two")
    assert stored(chain) == {"conn:web": 5}
    assert causes_of(chain, "three") == {"conn:web": 5}
    assert web.connection.account.stored_bytes > 5 * len(BODY)
    # What waits for the socket of the last consumer is the first cause's too.
    slow = chain.connect("slow")
    slow.output.room_bytes = 0
    slow.say(1, m.BasicConsume(queue="three"))
    chain.run()
    assert web.connection.account.debt_bytes > 5 * len(BODY)
    slow.take()
    chain.run()
    assert web.connection.account.debt_bytes == 0


def test_dead_letters_of_a_relayed_fan_out_are_the_first_causes(chain: LetterBed) -> None:
    for name in ("x", "y"):
        chain.declare(name, target="dead")
        chain.peer.call(1, m.QueueBind(name, "amq.fanout", ""), m.QueueBindOk)
    chain.declare("dead")
    web = chain.connect("web")
    web.publish("one", BODY)
    chain.run()
    peer = chain.connect("relay")
    peer.say(1, m.BasicConsume(queue="one"))
    chain.run()
    peer.heard()
    peer.send(publish(1, "amq.fanout", "", BODY, headers_property({"x-cause": 1})))
    peer.say(1, m.BasicAck(1, False))
    chain.run()
    assert stored(chain) == {"conn:web": 2}
    chain.reject("x", 1)
    chain.reject("y", 1)
    assert causes_of(chain, "dead") == {"conn:web": 2} and stored(chain) == {"conn:web": 2}


def test_without_the_header_it_is_the_relays(chain: LetterBed) -> None:
    chain.connect("web").publish("one", *(BODY for _ in range(5)))
    chain.run()
    relay(chain, "first", "one", cause=False)
    assert stored(chain) == {"conn:first": 5}


@pytest.mark.parametrize("tag", [2, 0, -1, True, "1", 1.0, 1 << 63, None, [1]])
def test_a_tag_that_is_not_outstanding_changes_nothing(chain: LetterBed, tag: Value) -> None:
    chain.connect("web").publish("one", BODY)
    chain.run()
    peer = chain.connect("relay")
    peer.say(1, m.BasicConsume(queue="one"))
    chain.run()
    peer.heard()
    if tag == 1 << 63:
        tag = (1 << 63) - 1
    peer.send(publish(1, "", "two", BODY, headers_property({"x-cause": tag})))
    chain.run()
    assert causes_of(chain, "two") == {"conn:relay": 1}
    peer.say(1, m.BasicAck(1, False))
    peer.send(publish(1, "", "two", BODY, headers_property({"x-cause": 1})))
    chain.run()
    assert causes_of(chain, "two") == {"conn:relay": 2}, "it was answered before"


def test_with_rules_and_a_refusal_the_books_balance(chain: LetterBed) -> None:
    chain.declare("few", max_length=1, overflow="reject-publish")
    chain.connect("web").publish("one", BODY)
    chain.run()
    peer = chain.connect("relay")
    peer.say(1, m.BasicConsume(queue="one"))
    chain.run()
    peer.heard()
    for _ in range(3):
        peer.send(publish(1, "", "few", BODY, headers_property({"x-cause": 1})))
    peer.send(publish(1, "", "few", BODY))
    chain.run()
    assert causes_of(chain, "few") == {"conn:web": 1}
    peer.call(1, m.QueuePurge("few"), m.QueuePurgeOk)


def test_a_first_cause_that_has_gone_is_still_it(chain: LetterBed) -> None:
    web = chain.connect("web")
    web.publish("one", BODY)
    chain.run()
    peer = chain.connect("relay")
    peer.say(1, m.BasicConsume(queue="one"))
    chain.run()
    peer.heard()
    web.hang_up()
    chain.run()
    peer.send(publish(1, "", "two", BODY, headers_property({"x-cause": 1})))
    peer.say(1, m.BasicAck(1, False))
    chain.run()
    assert stored(chain) == {"conn:web": 1}
    chain.peer.call(1, m.QueuePurge("two"), m.QueuePurgeOk)
    assert stored(chain) == {}
