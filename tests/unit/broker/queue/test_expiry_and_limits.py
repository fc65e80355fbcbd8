"""Rules of a queue through the whole broker; the laws of order are in property/test_queue_twin."""

import pytest

from penstock.base.errors import OperatorError
from penstock.base.policy import Policy
from penstock.broker.queue.expiry_and_limits import DROPS_PER_TURN, note_limit
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.queues.applied import Applied
from penstock.queues.rules import REASON_EXPIRED, REASON_MAXLEN, REASON_REFUSED, rules_from
from penstock.server.control.questions_queues import row_of
from tests.unit.broker.peer import Bed, Peer

MS = 1_000_000


def wait(bed: Bed, ms: int) -> None:
    bed.clock.advance(ms * MS)
    bed.broker.dues.fire(bed.clock.monotonic_ns())
    bed.run()


def declared(bed: Bed, peer: Peer, **arguments: object) -> None:
    table: Table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}  # type: ignore[misc]  # plain values
    peer.call(1, m.QueueDeclare("q", arguments=table), m.QueueDeclareOk)


def ready(bed: Bed) -> list[bytes]:
    return [one.body() for one in bed.broker.vhosts["/"].queues["q"].messages.ready_messages()]


def test_messages_expire_without_anybody_looking() -> None:
    bed = Bed()
    peer = bed.connect()
    declared(bed, peer, message_ttl=100)
    peer.publish("q", b"1", b"2")
    wait(bed, 99)
    assert ready(bed) == [b"1", b"2"]
    wait(bed, 1)
    assert ready(bed) == []
    queue_limits = bed.broker.vhosts["/"].queues["q"].queue_limits
    assert queue_limits is not None and queue_limits.drops[REASON_EXPIRED] == 2
    bed.settle()


def test_a_great_many_expire_in_slices() -> None:
    bed = Bed()
    peer = bed.connect()
    declared(bed, peer, message_ttl=10)
    count = 2 * DROPS_PER_TURN + 1
    peer.publish("q", *([b"x"] * count))
    actor = bed.broker.vhosts["/"].queues["q"]
    bed.clock.advance(10 * MS)
    assert actor.queue_limits is not None
    # Twice a turn: before it gives, and after.
    assert actor.queue_limits.turn(10) and actor.messages.ready_count() == 1
    assert not actor.queue_limits.turn(10) and actor.messages.ready_count() == 0
    bed.settle()


def test_the_head_is_dropped_at_the_limit() -> None:
    bed = Bed()
    peer = bed.connect()
    declared(bed, peer, max_length=2)
    peer.publish("q", b"1", b"2", b"3")
    assert ready(bed) == [b"2", b"3"]
    row = row_of(bed.broker.vhosts["/"].queues["q"], None)
    assert row.drops == {"maxlen": 1}
    assert row.rules == {"max-length": "2", "overflow": "drop-head"}
    bed.settle()


@pytest.mark.parametrize(("overflow", "left"), [("drop-head", 100), ("reject-publish", 400)])
def test_what_comes_back_goes_past_the_limit_as_in_rabbitmq(overflow: str, left: int) -> None:
    """docs/queues.md: a limit counts what is ready, so 300 that are out leave room for 100 more."""
    bed = Bed()
    peer = bed.connect()
    declared(bed, peer, max_length=100, overflow=overflow)
    consumer = bed.connect("consumer")
    consumer.say(1, m.BasicConsume("q", "t"))
    for _ in range(6):
        peer.publish("q", *([b"x"] * 50))
        consumer.heard()
    actor = bed.broker.vhosts["/"].queues["q"]
    assert (actor.unacked_count, actor.messages.ready_count()) == (300, 0)
    consumer.call(1, m.BasicCancel("t"), m.BasicCancelOk)
    peer.publish("q", *([b"y"] * 100))
    consumer.hang_up()
    bed.run()
    assert (actor.unacked_count, actor.messages.ready_count()) == (0, left)
    bed.settle()


@pytest.mark.parametrize("limit", [{"max_length": 100}, {"max_length_bytes": 100}])
@pytest.mark.parametrize("answer", ["hang up", "nack", "ack one by one", "ack all", "get"])
def test_nothing_passes_a_limit_of_backpressure_whatever_comes_back(
    limit: dict[str, object], answer: str
) -> None:
    bed = Bed()
    peer = bed.connect()
    declared(bed, peer, overflow="backpressure", **limit)
    consumer = bed.connect("consumer")
    actor = bed.broker.vhosts["/"].queues["q"]

    def held() -> int:
        return int(actor.messages.ready_count() + actor.unacked_count)

    if answer != "get":
        consumer.say(1, m.BasicConsume("q", "t"))
    for _ in range(6):
        peer.publish("q", *([b"x"] * 50))
        consumer.heard()
        assert held() <= 100
    if answer == "get":
        for _ in range(60):
            consumer.call(1, m.BasicGet("q"), m.BasicGetOk)
            assert held() <= 100
    assert actor.unacked_count == (60 if answer == "get" else 100)
    assert actor.stop_reason() == "full"
    if answer == "ack one by one":
        for tag in range(1, 101):
            consumer.say(1, m.BasicAck(tag))
            assert held() <= 100
        consumer.heard()
        assert actor.unacked_count == 100, "as many new ones as were answered"
    elif answer == "ack all":
        consumer.say(1, m.BasicAck(0, True))
        consumer.heard()
        assert actor.messages.ack_count == 100 and actor.unacked_count == 100
    elif answer == "nack":
        consumer.call(1, m.BasicCancel("t"), m.BasicCancelOk)
        consumer.say(1, m.BasicNack(0, True, True))
        assert (actor.unacked_count, actor.messages.ready_count()) == (0, 100)
    else:
        consumer.hang_up()
        bed.run()
        assert (actor.unacked_count, actor.messages.ready_count()) == (0, 100)
    peer.hang_up()
    bed.settle()


def test_publishes_beyond_the_limit_are_refused() -> None:
    bed = Bed()
    peer = bed.connect()
    declared(bed, peer, max_length=2, overflow="reject-publish")
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    peer.publish("q", b"1", b"2", b"3")
    assert peer.confirmed() == {1: "ack", 2: "ack", 3: "nack"}
    assert ready(bed) == [b"1", b"2"]
    queue_limits = bed.broker.vhosts["/"].queues["q"].queue_limits
    assert queue_limits is not None
    assert (queue_limits.drops[REASON_REFUSED], queue_limits.drops[REASON_MAXLEN]) == (1, 0)
    bed.settle()


def test_a_full_queue_holds_its_publishers_and_loses_nothing() -> None:
    bed = Bed()
    peer, other = bed.connect(), bed.connect("other")
    declared(bed, peer, max_length=4, overflow="backpressure")
    actor = bed.broker.vhosts["/"].queues["q"]
    bodies = [b"%d" % number for number in range(9)]
    peer.publish("q", *bodies)
    assert ready(bed) == bodies[:4]
    assert list(actor.gate.reasons) == [("consumers:/q", "full")]
    assert actor.stop_reason() == "full" and row_of(actor, None).state == "full"
    got = []
    while (message := actor.get()) is not None:
        actor.get_done(message)
        got.append(message.body())
        bed.run()
        assert actor.messages.ready_count() <= 4
    assert got == bodies and actor.gate.is_open
    other.hang_up()
    bed.settle()


def test_what_a_channel_leaves_behind_is_taken_past_the_limit() -> None:
    bed = Bed()
    peer = bed.connect()
    declared(bed, peer, max_length=1, overflow="backpressure")
    peer.publish("q", b"1", b"2", b"3")
    peer.call(1, m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)
    assert ready(bed) == [b"1", b"2", b"3"]
    bed.settle()


def test_an_unused_queue_goes() -> None:
    bed = Bed()
    peer = bed.connect()
    declared(bed, peer, expires=100)
    wait(bed, 60)
    peer.call(1, m.QueueDeclare("q", passive=True), m.QueueDeclareOk)
    wait(bed, 60)
    assert "q" in bed.broker.vhosts["/"].queues, "it was declared again meanwhile"
    peer.call(1, m.BasicConsume("q", "t"), m.BasicConsumeOk)
    wait(bed, 500)
    assert "q" in bed.broker.vhosts["/"].queues, "it has a consumer"
    peer.call(1, m.BasicCancel("t"), m.BasicCancelOk)
    wait(bed, 99)
    assert "q" in bed.broker.vhosts["/"].queues
    wait(bed, 1)
    assert "q" not in bed.broker.vhosts["/"].queues and len(bed.broker.dues) == 0
    bed.settle()


def test_rules_come_and_go_while_messages_are_there() -> None:
    bed = Bed()
    peer = bed.connect()
    declared(bed, peer)
    peer.publish("q", *(b"%d" % number for number in range(5)))
    actor = bed.broker.vhosts["/"].queues["q"]
    assert actor.queue_limits is None and not actor.messages.has_entries
    bed.broker.rule_manager.apply(actor, rules_from({"max-length": 3, "max-length-bytes": 100}))
    bed.run()
    assert ready(bed) == [b"2", b"3", b"4"] and actor.messages.has_entries
    bed.broker.rule_manager.apply(actor, rules_from({}))
    peer.publish("q", b"5", b"6")
    assert ready(bed) == [b"2", b"3", b"4", b"5", b"6"] and not actor.messages.has_entries
    bed.settle()


def test_a_paused_queue_takes_and_gives_nothing() -> None:
    bed = Bed()
    peer = bed.connect()
    declared(bed, peer)
    actor = bed.broker.vhosts["/"].queues["q"]
    actor.pause(True)
    peer.call(1, m.BasicConsume("q", "t", no_ack=True), m.BasicConsumeOk)
    peer.publish("q", b"1")
    assert peer.bodies() == [] and ready(bed) == [b"1"] and actor.get() is None
    assert row_of(actor, None).state == "paused"
    actor.pause(False)
    bed.run()
    assert peer.bodies() == [b"1"]
    bed.settle()


@pytest.mark.parametrize(("said", "kept"), [({}, 3), ({"max_length": 5}, 5)])
def test_the_nodes_own_depth_is_for_queues_without_one(said: dict[str, int], kept: int) -> None:
    bed = Bed(queue_max_length=3, queue_overflow="drop-head")
    peer = bed.connect()
    declared(bed, peer, **said)
    peer.publish("q", *([b"x"] * 9))
    assert len(ready(bed)) == kept
    bed.settle()


@pytest.mark.parametrize(
    ("key", "value"),
    [("queue_overflow", "spill"), ("queue_max_length", -1), ("queue_max_bytes", -5)],
)
def test_a_bad_default_refuses_to_start(key: str, value: object) -> None:
    with pytest.raises(OperatorError, match=key):
        Bed(**{key: value})  # type: ignore[arg-type]  # its other settings are objects


def limit(said: dict[str, object], applied: Applied | None) -> str:
    labels: dict[str, str] = {}
    note_limit(rules_from(said), applied, labels)
    return labels.get("limit", "")


def test_who_says_what_bounds_a_queue() -> None:
    policy = Policy("/", "mine", "", {"max-length": 5, "expires": 9})
    cap = Policy("/", "cap", "", {"max-length-bytes": 70})
    both: dict[str, object] = {"max-length": 5, "max-length-bytes": 70}
    assert limit({}, None) == ""
    assert limit({"expires": 9}, Applied(policy, None)) == ""
    assert limit(both, None) == "max-length 5, max-length-bytes 70"
    assert limit(both, Applied(policy, cap)) == (
        "max-length 5 (policy 'mine'), max-length-bytes 70 (operator policy 'cap')"
    )


def test_a_smaller_argument_is_not_the_policys() -> None:
    policy = Policy("/", "mine", "", {"max-length": 5})
    assert limit({"max-length": 3}, Applied(policy, None)) == "max-length 3"
