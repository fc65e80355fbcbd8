"""queue.list: which queues there are, page by page, and none that others cannot use."""

from penstock.protocol import methods as m
from penstock.protocol.values import Table
from tests.unit.broker.peer import Bed, Peer
from tests.unit.broker.session.test_requests import STREAM, fault


def listed(peer: Peer, kind: str, after: str = "") -> Table:
    answer = peer.call(1, m.RequestAsk("queue.list", {"type": kind, "after": after}),
                       m.RequestAskOk)  # fmt: skip
    assert isinstance(answer, m.RequestAskOk)
    return answer.answer


def test_queues_and_streams_apart_and_nothing_exclusive() -> None:
    peer = Bed().connect("asker")
    for name in ("b", "a", "c"):
        peer.call(1, m.QueueDeclare(name), m.QueueDeclareOk)
    peer.call(1, m.QueueDeclare("s", durable=True, arguments=dict(STREAM)), m.QueueDeclareOk)
    peer.call(1, m.QueueDeclare("mine", exclusive=True), m.QueueDeclareOk)
    peer.call(1, m.BasicConsume("amq.rabbitmq.reply-to", no_ack=True), m.BasicConsumeOk)
    assert listed(peer, "queue") == {"names": ["a", "b", "c"], "is_last": True}
    assert listed(peer, "queue", "a")["names"] == ["b", "c"]
    assert listed(peer, "stream") == {"names": ["s"], "is_last": True}
    assert fault(peer, "queue.list", {"type": "topic"})[0] == 406


def test_many_come_in_pages() -> None:
    peer = Bed().connect("asker")
    names = [f"q{number:04}" for number in range(900)]
    for name in names:
        peer.call(1, m.QueueDeclare(name), m.QueueDeclareOk)
    found: list[object] = []
    pages = 0
    while True:
        answer = listed(peer, "queue", str(found[-1]) if found else "")
        page = answer["names"]
        assert isinstance(page, list)
        found += page
        pages += 1
        if answer["is_last"]:
            break
    assert found == names and pages > 2
