"""Requests beyond AMQP: the verb table, answers, faults, and waiting for what is not done yet."""

import pytest

from penstock.broker.session import requests
from penstock.broker.session.requests import STEP_NAMES
from penstock.broker.session.tickets import Ask, Ticket
from penstock.broker.vhost.rights import Permission
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
from penstock.protocol.values import Table
from tests.unit.broker.peer import Bed, Peer, TickingClock

STREAM: Table = {"x-queue-type": "stream"}


def test_stream_offsets_tells_what_can_be_read(bed: Bed) -> None:
    peer = bed.connect("asker")
    peer.call(1, m.QueueDeclare("s", durable=True, arguments=dict(STREAM)), m.QueueDeclareOk)
    peer.publish("s", b"a", b"b")
    answer = peer.call(1, m.RequestAsk("stream.offsets", {"queue": "s"}), m.RequestAskOk)
    assert isinstance(answer, m.RequestAskOk)
    assert (answer.answer["first"], answer.answer["next"]) == (0, 2)


def test_a_stream_made_anew_has_another_id(bed: Bed) -> None:
    peer = bed.connect("asker")
    declare = m.QueueDeclare("s", durable=True, arguments=dict(STREAM))
    found: list[object] = []
    for _ in range(2):
        peer.call(1, declare, m.QueueDeclareOk)
        for _ in range(2):
            answer = peer.call(1, m.RequestAsk("stream.offsets", {"queue": "s"}), m.RequestAskOk)
            assert isinstance(answer, m.RequestAskOk)
            found.append(answer.answer["id"])
        peer.call(1, m.QueueDelete("s"), m.QueueDeleteOk)
    assert found[0] == found[1] != found[2] == found[3]


def fault(peer: Peer, verb: str, arguments: Table) -> tuple[int, str]:
    """The code and text that close the channel."""
    peer.say(1, m.RequestAsk(verb, arguments))
    (close,) = [one.method for one in peer.heard() if isinstance(one.method, m.ChannelClose)]
    assert (close.class_id, close.method_id) == (240, 10)
    return close.reply_code, close.reply_text


@pytest.mark.parametrize(
    ("verb", "arguments", "code", "words"),
    [
        ("tea.make", {}, 540, ("tea.make", "stream.offsets")),
        ("lease.acquire", {"queue": "q", "max_mesages": 1}, 406, ("'max_mesages'", "max_messages")),
        ("lease.acquire", {"queue": "q", "group": "g"}, 406, ("'start' is missing",)),
        ("stream.offsets", {"queue": "nowhere"}, 404, ()),
        ("stream.offsets", {}, 406, ("'queue'",)),
        ("stream.offsets", {"queue": "q"}, 406, ("is no stream",)),
    ],
)
def test_what_is_wrong_closes_the_channel_and_is_named(
    peer: Peer, verb: str, arguments: Table, code: int, words: tuple[str, ...]
) -> None:
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    found, text = fault(peer, verb, arguments)
    assert found == code and all(word in text for word in words), text


class Later:
    """A verb that is answered when the test says so."""

    def __init__(self) -> None:
        self.tickets: list[Ticket] = []

    def __call__(self, ask: Ask) -> None:
        self.tickets.append(ask.ticket)


def waiting(monkeypatch: pytest.MonkeyPatch, bed: Bed) -> tuple[Peer, Later]:
    """A channel that waits for a request, with a declaration behind it."""
    later = Later()
    monkeypatch.setattr(requests, "HANDLERS", {"later": (later, "")})
    peer = bed.connect("asker")
    peer.say(1, m.RequestAsk("later"))
    peer.say(1, m.QueueDeclare("behind"))
    assert peer.heard() == []
    return peer, later


def test_what_waits_keeps_the_order_of_answers(monkeypatch: pytest.MonkeyPatch, bed: Bed) -> None:
    peer, later = waiting(monkeypatch, bed)
    later.tickets[0].settle({"n": 1})
    bed.run()
    kinds = [type(one.method) for one in peer.heard()]
    assert kinds == [m.RequestAskOk, m.QueueDeclareOk]
    assert len(later.tickets) == 1


def test_a_refusal_later_closes_the_channel(monkeypatch: pytest.MonkeyPatch, bed: Bed) -> None:
    peer, later = waiting(monkeypatch, bed)
    later.tickets[0].refuse("no room")
    bed.run()
    (close,) = [one.method for one in peer.heard() if isinstance(one.method, m.ChannelClose)]
    assert (close.reply_code, "no room" in close.reply_text) == (406, True)


def test_a_close_waits_for_the_answer(monkeypatch: pytest.MonkeyPatch, bed: Bed) -> None:
    peer, later = waiting(monkeypatch, bed)
    peer.say(1, m.ChannelClose(200, "", 0, 0))
    bed.run()
    assert peer.heard() == []
    later.tickets[0].settle({})
    bed.run()
    kinds = [type(one.method) for one in peer.heard()]
    assert kinds == [m.RequestAskOk, m.QueueDeclareOk, m.ChannelCloseOk]


def test_an_answer_for_a_connection_that_is_gone_is_dropped(
    monkeypatch: pytest.MonkeyPatch, bed: Bed
) -> None:
    peer, later = waiting(monkeypatch, bed)
    peer.shell.hang_up()
    bed.run()
    later.tickets[0].settle({})


# -- queue.list: which queues there are, page by page, and none that others cannot use -----------


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


def test_only_what_the_user_may_read_is_named() -> None:
    bed = Bed()
    peer = bed.connect("asker")
    for name in ("a", "b.1", "b.2"):
        peer.call(1, m.QueueDeclare(name), m.QueueDeclareOk)
    for number in range(2):
        stream = m.QueueDeclare(f"s-{number}", durable=True, arguments=dict(STREAM))
        peer.call(1, stream, m.QueueDeclareOk)
        order: Table = {"x-stream-partition-order": number}
        peer.call(1, m.QueueBind(f"s-{number}", "amq.direct", str(number), False, order),
                  m.QueueBindOk)  # fmt: skip
    bed.broker.permissions.set("guest", "/", Permission(".*", ".*", r"^(b\.|s-0)"))
    assert listed(peer, "queue") == {"names": ["b.1", "b.2"], "is_last": True}
    assert listed(peer, "stream") == {"names": ["s-0"], "is_last": True}
    code, text = fault(peer, "stream.partitions", {"super_stream": "amq.direct"})
    assert code == 403 and "s-1" not in text and "'amq.direct'" in text and "'guest'" in text
    bed.settle()


def test_a_user_who_may_read_nothing_is_told_so_in_steps() -> None:
    bed = Bed()
    peer = bed.connect("asker")
    for number in range(3 * STEP_NAMES):
        peer.say(1, m.QueueDeclare(f"q{number}", no_wait=True))
    bed.run()
    bed.broker.permissions.set("guest", "/", Permission(".*", ".*", "^$"))
    bed.run()
    peer.connection.receive(method_frame(1, m.RequestAsk("queue.list", {"type": "queue"})))
    scheduler = bed.broker.scheduler
    scheduler.clock = TickingClock()
    turns = 0
    while scheduler.run(1):
        turns += 1
    assert turns >= 4
    bed.run()
    assert peer.one(m.RequestAskOk).answer == {"names": [], "is_last": True}


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
