"""What the audit log is told of clients: what they do, under which name, and what they are refused,
so seldom that nobody fills it."""

from collections.abc import Mapping

from penstock.base.errors import ChannelFault
from penstock.base.limits import REFUSAL_LINES, REFUSALS_REMEMBERED
from penstock.broker.session.audit import MINUTE_NS, Audit, Refusals
from penstock.broker.vhost.rights import Permission
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from tests.unit.broker.peer import Bed, Peer, start_ok


class Told(Audit):
    """rows: everything, in its order."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, str, dict[str, object]]] = []

    def note(
        self, user: str, address: str, did: str, vhost: str, what: Mapping[str, object]
    ) -> None:
        self.rows.append((user, address, did, vhost, dict(what)))


def watched() -> tuple[Bed, Told]:
    bed = Bed()
    told = Told()
    bed.broker.host.audit = told
    return bed, told


def test_the_names_of_queues_that_the_broker_has_named() -> None:
    bed, told = watched()
    peer = bed.connect("10.0.0.1:7")
    name = peer.call(1, m.QueueDeclare(""), m.QueueDeclareOk).queue
    assert name.startswith("amq.gen-")
    peer.call(1, m.QueueBind("", "amq.direct", "k"), m.QueueBindOk)
    peer.call(1, m.QueuePurge(""), m.QueuePurgeOk)
    peer.call(1, m.QueueDelete(""), m.QueueDeleteOk)
    assert [(row[2], row[4]["queue"]) for row in told.rows] == [
        ("queue.declare", name),
        ("queue.bind", name),
        ("queue.purge", name),
        ("queue.delete", name),
    ]


def refused(peer: Peer, *said: m.Method) -> None:
    """On a channel that is opened for it."""
    peer.call(2, m.ChannelOpen(), m.ChannelOpenOk)
    peer.say(2, *said)
    assert peer.one(m.ChannelClose).reply_code == 403
    peer.say(2, m.ChannelCloseOk())


def test_what_is_refused_is_told() -> None:
    bed, told = watched()
    peer = bed.connect("10.0.0.1:7")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    bed.broker.permissions.set("guest", "/", Permission("^a$", "^a$", "^a$"))
    told.rows.clear()
    refused(peer, m.QueueDeclare("b"))
    refused(peer, m.QueueBind("q", "amq.direct", "k"))
    refused(peer, m.BasicConsume("q"))
    peer.publish("q", b"one")
    assert peer.one(m.ChannelClose).reply_code == 403
    assert all(row[:4] == ("guest", "10.0.0.1:7", "access refused", "/") for row in told.rows)
    assert [(row[4]["method"], row[4]["text"]) for row in told.rows] == [
        ("50.10", "access to queue 'b' in vhost '/' refused for user 'guest'"),
        ("50.20", "access to queue 'q' in vhost '/' refused for user 'guest'"),
        ("60.20", "access to queue 'q' in vhost '/' refused for user 'guest'"),
        ("60.40", "access to exchange 'amq.default' in vhost '/' refused for user 'guest'"),
    ]
    assert all(row[4]["code"] == 403 and row[4]["count"] == 1 for row in told.rows)


def test_a_virtual_host_that_may_not_be_opened_is_told() -> None:
    bed, told = watched()
    bed.broker.permissions.clear("guest", "/")
    peer = Peer(bed, "10.0.0.1:7")
    peer.send(PROTOCOL_HEADER)
    peer.one(m.ConnectionStart)
    peer.say(0, start_ok())
    peer.one(m.ConnectionTune)
    peer.say(0, m.ConnectionTuneOk(10, 131_072, 0), m.ConnectionOpen("/"))
    assert peer.one(m.ConnectionClose).reply_code == 530
    ((user, address, did, vhost, what),) = told.rows
    assert (user, address, did, vhost) == ("guest", "10.0.0.1:7", "access refused", "/")
    assert what["code"] == 530 and "access to vhost '/' refused" in str(what["text"])


def refuse(refusals: Refusals, told: Told, user: str, thing: str, now_ns: int = 0) -> None:
    fault = ChannelFault(403, f"access to {thing} refused", 60, 40)
    refusals.note(told, user, "10.0.0.1:7", "/", fault, now_ns)


def test_one_thing_is_told_when_its_number_has_doubled() -> None:
    refusals, told = Refusals(), Told()
    for _ in range(1000):
        refuse(refusals, told, "app", "queue 'q'")
    assert [row[4]["count"] for row in told.rows] == [1 << power for power in range(10)]


def test_names_that_are_made_up_fill_no_log() -> None:
    refusals, told = Refusals(), Told()
    for number in range(10_000):
        refuse(refusals, told, "app", f"queue '{number}'")
    assert len(told.rows) == REFUSAL_LINES.default
    refuse(refusals, told, "other", "queue 'q'")
    assert len(told.rows) == REFUSAL_LINES.default + 1, "which is another user's affair"
    refuse(refusals, told, "app", "queue 'q'", MINUTE_NS)
    assert told.rows[-1][4]["left_out"] == 10_000 - REFUSAL_LINES.default
    refuse(refusals, told, "app", "queue 'r'", MINUTE_NS + 1)
    assert "left_out" not in told.rows[-1][4]


def test_no_more_is_remembered_than_may_be() -> None:
    refusals, told = Refusals(), Told()
    most = REFUSALS_REMEMBERED.default
    for number in range(most + 1):
        refuse(refusals, told, f"user {number}", "queue 'q'")
    assert len(told.rows) == most + 1
    refuse(refusals, told, f"user {most}", "queue 'q'")
    refuse(refusals, told, "user 0", "queue 'q'")
    counts = [row[4]["count"] for row in told.rows[-2:]]
    assert counts == [2, 1], "the first was forgotten"
