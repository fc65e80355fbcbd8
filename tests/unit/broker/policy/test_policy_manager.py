"""Policies on a running broker: what is there goes by them at once, and no longer when cleared."""

import pytest

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.base.limits import POLICY_SWEEP_MATCHES
from penstock.base.policy import Policy
from penstock.broker.connection.consumer_timeout import timeout_of
from penstock.broker.policy.policy_manager import (
    CHANGES_PER_SLICE,
    MESSAGES_PER_SLICE,
    Outcome,
    Sweep,
)
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.vhost.vhost import VirtualHost
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.telemetry.events import SETTING_CHANGED
from tests.unit.broker.peer import Bed, Peer

MS = 1_000_000
FIVE = [b"1", b"2", b"3", b"4", b"5"]


def policy(pattern: str = "^q", apply_to: str = "all", **definition: object) -> Policy:
    said = {key.replace("_", "-"): value for key, value in definition.items()}
    return Policy("/", "p", pattern, said, 0, apply_to)


def set_(bed: Bed, wanted: Policy, is_operator: bool = False) -> Outcome:
    outcome = bed.broker.policy_manager.set(wanted, is_operator)
    bed.run()
    return outcome


def clear(bed: Bed, is_operator: bool = False) -> Outcome:
    outcome = bed.broker.policy_manager.clear("/", "p", is_operator)
    bed.run()
    return outcome


def declared(peer: Peer, name: str = "q", **arguments: object) -> QueueActor:
    table: Table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}  # type: ignore[misc]  # plain values
    peer.call(1, m.QueueDeclare(name, arguments=table), m.QueueDeclareOk)
    return peer.bed.broker.vhosts["/"].queues[name]


def begun() -> tuple[Bed, Peer, QueueActor]:
    """A broker, a peer and the queue q."""
    bed = Bed()
    peer = bed.connect()
    return bed, peer, declared(peer)


def ready(actor: QueueActor) -> list[bytes]:
    return [one.body() for one in actor.messages.ready_messages()]


def test_a_backlog_is_cut_at_once_and_grows_again_when_the_policy_is_cleared() -> None:
    bed, peer, actor = begun()
    peer.publish("q", *FIVE)
    assert set_(bed, policy(max_length=2)) == Outcome(None, 1, 0)
    assert ready(actor) == [b"4", b"5"]
    peer.publish("q", b"6")
    assert ready(actor) == [b"5", b"6"]
    assert clear(bed).changed == 1
    peer.publish("q", *FIVE)
    assert len(ready(actor)) == 7 and actor.applied is None
    bed.settle()


def test_a_new_queue_has_it_from_its_first_message_on() -> None:
    bed = Bed(policies=(policy(max_length=1),))
    peer = bed.connect()
    actor = declared(peer)
    peer.publish("q", *FIVE)
    assert ready(actor) == [b"5"]
    assert len(ready(declared(peer, "other"))) == 0
    bed.settle()


def test_backpressure_by_policy_holds_publishers_and_clearing_lets_them_go() -> None:
    bed, peer, actor = begun()
    set_(bed, policy(max_length=2, overflow="backpressure"))
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    peer.publish("q", *FIVE)
    assert ready(actor) == [b"1", b"2"] and actor.stop_reason() == "full"
    clear(bed)
    peer.read_on()
    assert ready(actor) == FIVE and actor.stop_reason() == ""
    assert peer.confirmed() == dict.fromkeys(range(1, 6), "ack")
    bed.settle()


@pytest.mark.parametrize(("policy_max", "kept"), [(2, 2), (4, 3)])
def test_the_smaller_of_argument_and_policy_counts(policy_max: int, kept: int) -> None:
    bed = Bed()
    peer = bed.connect()
    actor = declared(peer, max_length=3)
    set_(bed, policy(max_length=policy_max))
    peer.publish("q", *FIVE)
    assert len(ready(actor)) == kept
    bed.settle()


def test_an_operator_policy_caps_a_policy() -> None:
    bed, peer, actor = begun()
    set_(bed, policy(max_length=3))
    set_(bed, policy(max_length=1), True)
    peer.publish("q", *FIVE)
    assert len(ready(actor)) == 1
    clear(bed, True)
    peer.publish("q", *FIVE)
    assert len(ready(actor)) == 3
    bed.settle()


def test_declaring_again_does_not_see_policies() -> None:
    bed = Bed()
    peer = bed.connect()
    declared(peer, max_length=3)
    set_(bed, policy(max_length=2, expires=60_000))
    declared(peer, max_length=3)
    peer.call(1, m.QueueDeclare("q", passive=True), m.QueueDeclareOk)
    # What the policy says is no argument: to declare it is to ask for another queue.
    peer.say(1, m.QueueDeclare("q", arguments={"x-max-length": 2}))
    assert peer.one(m.ChannelClose).reply_code == 406


def test_lifetimes_and_dead_letters_by_policy() -> None:
    bed = Bed()
    peer = bed.connect()
    actor, dead = declared(peer), declared(peer, "dead")
    peer.publish("q", b"1")
    set_(
        bed, policy("^q$", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="dead")
    )
    bed.later(10 * MS)
    assert (ready(actor), ready(dead)) == ([], [b"1"])
    bed.settle()


def test_a_queue_that_nobody_uses_goes_by_policy() -> None:
    bed = Bed()
    peer = bed.connect()
    declared(peer)
    set_(bed, policy(expires=10))
    bed.later(10 * MS)
    assert "q" not in bed.broker.vhosts["/"].queues
    bed.settle()


def test_the_consumer_timeout_by_policy() -> None:
    bed = Bed(policies=(policy(consumer_timeout=5000),))
    peer = bed.connect()
    assert timeout_of(declared(peer), 1_800_000) == 5000
    assert timeout_of(declared(peer, "q2", consumer_timeout=100), 1_800_000) == 100
    assert timeout_of(declared(peer, "other"), 1_800_000) == 1_800_000


def test_the_alternate_exchange_by_policy() -> None:
    bed, peer, actor = begun()
    peer.call(1, m.QueueBind("q", "amq.fanout", ""), m.QueueBindOk)
    wanted = policy("^(amq.direct|own|said)$", "exchanges", alternate_exchange="amq.fanout")
    assert set_(bed, wanted).changed == 1
    peer.publish("nowhere", b"1", exchange="amq.direct")
    peer.call(1, m.ExchangeDeclare("own", "topic"), m.ExchangeDeclareOk)
    peer.publish("nowhere", b"2", exchange="own")
    peer.call(
        1,
        m.ExchangeDeclare("said", "topic", arguments={"alternate-exchange": "elsewhere"}),
        m.ExchangeDeclareOk,
    )
    peer.publish("nowhere", b"3", exchange="said")
    assert ready(actor) == [b"1", b"2"]
    assert clear(bed).changed == 2
    peer.publish("nowhere", b"4", exchange="amq.direct")
    assert ready(actor) == [b"1", b"2"]
    bed.settle()


def test_the_default_exchange_has_no_alternate() -> None:
    bed = Bed(policies=(policy("", alternate_exchange="amq.fanout"),))
    default = bed.broker.vhosts["/"].find_exchange("")
    direct = bed.broker.vhosts["/"].find_exchange("amq.direct")
    assert default is not None and default.alternate is None
    assert direct is not None and direct.alternate == "amq.fanout"


def test_a_policy_that_was_kept_counts_for_the_first_exchanges_too() -> None:
    bed = Bed()
    bed.broker.policy_manager.bring_back(policy("^amq.direct$", alternate_exchange="spare"), False)
    direct = bed.broker.vhosts["/"].find_exchange("amq.direct")
    assert direct is not None and direct.alternate == "spare"


def test_replies_and_delays_are_no_queues_to_policies() -> None:
    bed = Bed()
    peer = bed.connect()
    consume = m.BasicConsume("amq.rabbitmq.reply-to", no_ack=True)
    peer.call(1, consume, m.BasicConsumeOk)
    arguments: Table = {"x-delayed-type": "direct"}
    declare = m.ExchangeDeclare("late", "x-delayed-message", arguments=arguments)
    peer.call(1, declare, m.ExchangeDeclareOk)
    assert len(bed.broker.vhosts["/"].queues) == 2, "both keep theirs among the queues"
    assert set_(bed, policy("", "queues", max_length=1)).changed == 0


def test_every_change_is_recorded_and_logged() -> None:
    bed = Bed()
    set_(bed, policy(max_length=2))
    clear(bed)
    found = [
        (one.actor, one.reason)
        for one in bed.broker.recorder.since(0, 0)
        if one.kind == SETTING_CHANGED
    ]
    words = "all '^q' priority 0: max-length 2"
    assert found == [
        ("policy:/:p", f"none -> {words}"),
        ("policy:/:p", f"{words} -> none"),
    ]
    assert f"policy 'p' in vhost '/': none -> {words}" in bed.log.lines


def test_the_same_again_changes_nothing() -> None:
    bed = Bed()
    declared(bed.connect())
    set_(bed, policy(max_length=2))
    assert set_(bed, policy(max_length=2)) == Outcome(policy(max_length=2), 0, 0)


def test_a_broker_with_a_bad_policy_does_not_start() -> None:
    with pytest.raises(OperatorError, match="-1 is not a valid maximum length"):
        Bed(policies=(policy(max_length=-1),))
    assert Config().policies == ()


def longest(maximum: int, pattern: str = "^q") -> Policy:
    return Policy("/", "p", pattern, {"max-length": maximum}, 0, "queues")


def with_queues(count: int) -> tuple[Bed, VirtualHost]:
    bed = Bed()
    vhost = bed.broker.vhosts["/"]
    for number in range(count):
        vhost.add_queue(bed.broker.make_queue(vhost, f"q{number}", False, False, "", {}))
    bed.run()
    return bed, vhost


def limits(vhost: VirtualHost) -> list[int]:
    return [
        -1 if one.queue_limits is None else int(one.queue_limits.rules.max_length)
        for one in vhost.queues.values()
    ]


def test_changes_are_made_in_slices() -> None:
    count = 3 * CHANGES_PER_SLICE
    bed, vhost = with_queues(count)
    outcome = bed.broker.policy_manager.set(longest(5), False)
    assert (outcome.changed, outcome.left) == (CHANGES_PER_SLICE, count - CHANGES_PER_SLICE)
    bed.run()
    assert limits(vhost) == [5] * count


def test_looking_is_bounded_too() -> None:
    count = 2 * POLICY_SWEEP_MATCHES.default
    bed, vhost = with_queues(count)
    outcome = bed.broker.policy_manager.set(longest(5, "^nothing"), False)
    exchanges = len(vhost.router.exchanges())
    looked = count + exchanges - outcome.left
    assert outcome.changed == 0 and looked == POLICY_SWEEP_MATCHES.default
    bed.run()
    assert limits(vhost) == [-1] * count


def test_many_policies_make_slices_shorter() -> None:
    bed, vhost = with_queues(20)
    for number in range(POLICY_SWEEP_MATCHES.default):
        one = Policy("/", f"x{number}", "^nothing", {"expires": 1}, 0)
        bed.broker.policies.put(one, False)
    sweep = Sweep(vhost, bed.broker.policies, bed.broker.rule_manager)
    before = sweep.left
    assert sweep.step() and before - sweep.left == 1


def test_a_long_queue_ends_its_slice() -> None:
    bed, vhost = with_queues(3)
    peer = bed.connect()
    peer.publish("q0", *([b"x"] * MESSAGES_PER_SLICE))
    outcome = bed.broker.policy_manager.set(longest(MESSAGES_PER_SLICE), False)
    assert (outcome.changed, outcome.left) == (1, 2)
    bed.settle()
    assert limits(vhost) == [MESSAGES_PER_SLICE] * 3


def test_a_change_under_way_is_overtaken_by_the_next() -> None:
    count = 4 * CHANGES_PER_SLICE
    bed, vhost = with_queues(count)
    bed.broker.policy_manager.set(longest(5), False)
    second = bed.broker.policy_manager.set(longest(7), False)
    assert second.left > 0 and limits(vhost).count(5) == CHANGES_PER_SLICE
    bed.run()
    assert limits(vhost) == [7] * count


def test_queues_may_come_and_go_meanwhile() -> None:
    count = 2 * CHANGES_PER_SLICE
    bed, vhost = with_queues(count)
    bed.broker.policy_manager.set(longest(5), False)
    vhost.remove_queue(vhost.queues[f"q{count - 1}"])
    vhost.add_queue(bed.broker.make_queue(vhost, "q-new", False, False, "", {}))
    bed.settle()
    assert limits(vhost) == [5] * count
