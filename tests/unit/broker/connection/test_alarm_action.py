"""An alarm does to a publish what the policy of its queue says, before anything else."""

from typing import cast

import pytest

from penstock.base.policy import Policy
from penstock.broker.admin.views import actor_snapshots
from penstock.explain.asking import Question, ask_why
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.snapshots import NS_PER_S
from tests.unit.broker.peer import Bed, Peer, headers_property, publish


def bed_with(action: str = "block", **actions: str) -> Bed:
    """A broker whose alarms do `action`, and to publishes for a queue what `actions` says of it."""
    policies = tuple(
        Policy("/", name, f"^{name}$", {"alarm-action": said}) for name, said in actions.items()
    )
    return Bed(alarm_action=action, policies=policies)


def confirming(bed: Bed, *queues: str) -> Peer:
    peer = bed.connect()
    for name in queues:
        peer.call(1, m.QueueDeclare(name), m.QueueDeclareOk)
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    return peer


def count(bed: Bed, name: str) -> int:
    return int(bed.broker.vhosts["/"].queues[name].messages.ready_count())


def test_one_queue_refuses_while_another_one_holds() -> None:
    bed = bed_with(fast="nack")
    peer = confirming(bed, "fast", "slow")
    bed.broker.set_alarm("memory", "low")
    peer.publish("fast", b"1", b"2")
    assert peer.confirmed() == {1: "nack", 2: "nack"}
    peer.publish("slow", b"3")
    assert isinstance(peer.one(m.ConnectionBlocked), m.ConnectionBlocked)
    other = confirming_again(bed)
    other.publish("fast", b"4")
    assert other.confirmed() == {1: "nack"}
    # Behind a publish that is held everything waits: a channel keeps its order.
    peer.publish("fast", b"5")
    assert peer.heard() == []
    bed.broker.clear_alarm("memory")
    peer.read_on()
    answers = [one.method for one in peer.heard()]
    assert isinstance(answers[0], m.ConnectionUnblocked)
    assert {type(one) for one in answers[1:]} == {m.BasicAck, m.BasicNack}
    assert (count(bed, "fast"), count(bed, "slow")) == (0, 1)
    bed.settle()


def test_a_queue_may_hold_where_others_are_refused() -> None:
    bed = bed_with("nack", precious="block")
    peer = confirming(bed, "precious", "plain")
    bed.broker.set_alarm("memory", "low")
    peer.publish("plain", b"1")
    assert peer.confirmed() == {1: "nack"}
    peer.publish("precious", b"2")
    assert isinstance(peer.one(m.ConnectionBlocked), m.ConnectionBlocked)
    bed.broker.clear_alarm("memory")
    peer.read_on()
    assert count(bed, "precious") == 1
    bed.settle()


def test_close_ends_the_connection() -> None:
    bed = bed_with(fast="close")
    peer = confirming(bed, "fast")
    bed.broker.set_alarm("memory", "low")
    peer.publish("fast", b"1")
    assert peer.one(m.ConnectionClose).reply_code == 320


def test_without_confirms_nothing_can_be_refused() -> None:
    bed = bed_with(fast="nack")
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("fast"), m.QueueDeclareOk)
    bed.broker.set_alarm("memory", "low")
    peer.publish("fast", b"1")
    assert isinstance(peer.one(m.ConnectionBlocked), m.ConnectionBlocked)


@pytest.mark.parametrize(
    ("actions", "refused"),
    [({"a": "nack"}, True), ({"a": "block", "b": "nack"}, True), ({"a": "block"}, False)],
)
def test_of_several_queues_the_most_drastic_counts(actions: dict[str, str], refused: bool) -> None:
    bed = bed_with(**actions)
    peer = confirming(bed, "a", "b")
    for name in ("a", "b"):
        peer.call(1, m.QueueBind(name, "amq.fanout", ""), m.QueueBindOk)
    bed.broker.set_alarm("memory", "low")
    peer.publish("", b"1", exchange="amq.fanout")
    if refused:
        assert peer.confirmed() == {1: "nack"}
    else:
        assert isinstance(peer.one(m.ConnectionBlocked), m.ConnectionBlocked)


def test_headers_are_looked_into() -> None:
    bed = bed_with(fast="nack")
    peer = confirming(bed, "fast")
    arguments: Table = {"x-match": "all", "kind": "x"}
    peer.call(1, m.QueueBind("fast", "amq.headers", "", arguments=arguments), m.QueueBindOk)
    bed.broker.set_alarm("memory", "low")
    peer.send(publish(1, "amq.headers", "", b"1", headers_property({"kind": "x"})))
    assert peer.confirmed() == {1: "nack"}
    # Without the header it goes nowhere, and is held like any other publish of the connection.
    peer.publish("", b"2", exchange="amq.headers")
    peer.one(m.ConnectionBlocked)


def confirming_again(bed: Bed) -> Peer:
    peer = bed.connect("second")
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    return peer


def test_a_publish_that_breaks_a_rule_hears_of_it_when_the_alarm_is_over() -> None:
    bed = bed_with(fast="nack")
    peer = confirming(bed, "fast")
    bed.broker.set_alarm("memory", "low")
    peer.publish("k", b"1", exchange="nowhere")
    peer.one(m.ConnectionBlocked)
    bed.broker.clear_alarm("memory")
    peer.read_on()
    assert [type(one.method) for one in peer.heard()] == [m.ConnectionUnblocked, m.ChannelClose]


def test_a_policy_that_comes_during_an_alarm_counts_for_the_next_publish() -> None:
    bed = bed_with()
    peer = confirming(bed, "q", "other")
    bed.broker.set_alarm("memory", "low")
    bed.broker.policy_manager.set(Policy("/", "p", "^q$", {"alarm-action": "nack"}), True)
    peer.publish("q", b"1")
    assert peer.confirmed() == {1: "nack"}
    bed.broker.policy_manager.clear("/", "p", True)
    peer.publish("q", b"2")
    peer.one(m.ConnectionBlocked)


def noted(bed: Bed, peer: Peer) -> str:
    """What `why` notes of two publishes within a second."""
    history = FlightHistory()
    history.push(bed.clock.monotonic_ns(), actor_snapshots(bed.broker))
    peer.publish("q", b"1", b"2")
    bed.later(NS_PER_S)
    history.push(bed.clock.monotonic_ns(), actor_snapshots(bed.broker))
    explained = ask_why(history, Question("publish", "", 1.0)).explanation
    return " ".join(map(str, cast(list[object], explained["notes"])))


def test_why_says_who_refuses() -> None:
    bed = bed_with("nack")
    peer = confirming(bed, "q")
    assert noted(bed, peer) == ""
    bed.broker.set_alarm("memory", "low")
    assert "refused with basic.nack: the memory alarm is set" in noted(bed, peer)
    bed.broker.clear_alarm("memory")
    assert noted(bed, peer) == ""


def test_why_does_not_say_so_of_what_is_held() -> None:
    bed = bed_with("nack", q="block")
    peer = confirming(bed, "q")
    bed.broker.set_alarm("memory", "low")
    assert noted(bed, peer) == ""
