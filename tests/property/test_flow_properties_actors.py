"""Properties 8-12, 14 and 15 of flow-semantics 18, on the real connections, channels and queues.

The script of each example is drawn, the actors are stepped by hand, and all laws of the simulator
are looked at after every turn. Properties of hops and accounts alone: test_flow_properties_hops.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.events import Confirmed
from penstock.flow.profile import PROFILES, Profile
from penstock.protocol import methods as m
from penstock.simulation.scenario.scenarios import simulate
from tests.spec.stage import Hand, Stage, numbered

FEW = settings(max_examples=25)
NAMES = sorted(PROFILES)
PARKING = sorted(name for name, profile in PROFILES.items() if profile.is_parking)
QUEUES = ("q1", "q2")


def small(name: str) -> Profile:
    """The profile with windows of a few messages, so that everything is met soon."""
    profile = PROFILES[name]
    return profile.with_messages(6, 3) if profile.credit_initial else profile


class Confirming(Hand):
    """A hand that publishes with confirms and notes every answer, by number."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[int] = []

    def happened(self, event: object) -> None:
        if isinstance(event, Confirmed):
            self.answers += event.sequences


def confirming(stage: Stage) -> Confirming:
    hand = Confirming()
    stage.world.connect(hand)
    stage.settle()
    hand.say(m.ConfirmSelect())
    stage.settle()
    return hand


alarm_steps = st.lists(
    st.tuples(st.sampled_from(("set", "clear", "publish")), st.sampled_from(("memory", "disk"))),
    max_size=40,
)


@FEW
@given(st.sampled_from(NAMES), alarm_steps)
def test_property_08_blocked_and_unblocked_alternate(
    name: str, script: list[tuple[str, str]]
) -> None:
    """The client itself fails when it is told twice; in the end it is told that all is well."""
    stage = Stage(small(name))
    hand = stage.connect()[0]
    for kind, resource in script:
        if kind == "set":
            stage.broker.set_alarm(resource, "low")
        elif kind == "clear":
            stage.broker.clear_alarm(resource)
        else:
            hand.publish("q1", 1)
        stage.settle()
        assert not hand.client.is_told_blocked or stage.broker.alarms
    for resource in ("memory", "disk"):
        stage.broker.clear_alarm(resource)
    stage.settle()
    assert not hand.client.is_told_blocked
    assert hand.client.told_count % 2 == 0
    assert stage.ready("q1") == sum(kind == "publish" for kind, _ in script)


@FEW
@given(st.sampled_from(NAMES), alarm_steps)
def test_property_09_publishers_run_exactly_while_no_alarm_is_set(
    name: str, script: list[tuple[str, str]]
) -> None:
    """Setting and clearing are idempotent and commute; a set of resources decides."""
    stage = Stage(small(name))
    hand = stage.connect()[0]
    twin: set[str] = set()
    said = 0
    for kind, resource in script:
        if kind == "set":
            stage.broker.set_alarm(resource, "low")
            twin.add(resource)
        elif kind == "clear":
            stage.broker.clear_alarm(resource)
            twin.discard(resource)
        else:
            before = stage.ready("q1")
            hand.publish("q1", 1)
            said += 1
            stage.settle()
            assert stage.ready("q1") == (before if twin else said)
        stage.settle()
        assert set(stage.broker.alarms) == {f"alarm:{one}" for one in twin}


stops = st.lists(
    st.tuples(
        st.sampled_from(("publish", "publish", "park", "unpark", "step")),
        st.sampled_from(QUEUES),
        st.integers(1, 12),
    ),
    max_size=25,
)


@FEW
@given(st.sampled_from(NAMES), stops)
def test_property_10_order_is_kept_under_park_and_resume(
    name: str, script: list[tuple[str, str, int]]
) -> None:
    """What one channel publishes to a queue comes out in that order, whatever stood still."""
    stage = Stage(small(name))
    hand = stage.connect()[0]
    said: dict[str, list[bytes]] = {queue: [] for queue in QUEUES}
    count = 0
    for kind, queue, amount in script:
        if kind == "publish":
            bodies = numbered(amount, count)
            count += amount
            said[queue] += bodies
            hand.publish_bodies(queue, bodies)
        elif kind == "park":
            stage.park(f"queue:/{queue}")
        elif kind == "unpark":
            stage.unpark(f"queue:/{queue}")
        else:
            stage.step(stage.channel(hand).identity, amount)
        stage.settle()
    for queue in QUEUES:
        stage.unpark(f"queue:/{queue}")
    stage.settle()
    for queue in QUEUES:
        reader = stage.connect()[0]
        reader.say(m.BasicConsume(queue, no_ack=True))
        stage.settle()
        assert reader.bodies() == said[queue]


@FEW
@given(st.sampled_from(NAMES), st.integers(1, 40), st.booleans(), st.integers(1, 30))
def test_property_11_consumers_go_on_while_publishers_are_held(
    name: str, backlog: int, is_alarmed: bool, more: int
) -> None:
    """By an alarm or by a queue that stands still: what is in q2 is delivered and acknowledged."""
    stage = Stage(small(name))
    hand = stage.connect()[0]
    hand.publish("q2", backlog)
    stage.settle()
    if is_alarmed:
        stage.broker.set_alarm("memory", "low")
    else:
        stage.park("queue:/q1")
    hand.publish("q1", more)
    stage.settle()
    consumer = stage.connect(acks=True)[0]
    consumer.say(m.BasicQos(0, 3, False))
    consumer.say(m.BasicConsume("q2"))
    stage.settle()
    assert len(consumer.deliveries) == backlog
    assert stage.queue("q2").unacked_count == 0
    assert stage.ready("q1") == 0


@pytest.mark.parametrize("name", NAMES)
def test_property_12_a_flow_is_independent_of_another_ones_blocked_queue(name: str) -> None:
    """Another connection's publishes arrive in full; with parking those of the same connection on
    another channel do, and even those of the same channel up to the second for the stopped one."""
    stage = Stage(small(name))
    first, second = stage.connect(2)
    stranger = stage.connect()[0]
    stage.park("queue:/q1")
    first.publish("q1", 5 if name in PARKING else 500)
    stage.settle()
    stranger.publish("q2", 300)
    stage.settle()
    assert stage.ready("q2") == 300
    if name in PARKING:
        first.publish("q1", 2)
        second.publish("q3", 300)
        stage.settle()
        assert stage.ready("q3") == 300


@FEW
@given(st.sampled_from(NAMES), stops, st.sampled_from(("", "delete", "crash")))
def test_property_14_exactly_one_confirm_or_nack(
    name: str, script: list[tuple[str, str, int]], end: str
) -> None:
    """Whatever stands still in between, and also when a queue is deleted or fails in the end."""
    stage = Stage(small(name))
    hand = confirming(stage)
    said = 0
    for kind, queue, amount in script:
        if kind == "publish":
            said += amount
            hand.publish(queue, amount)
        elif kind == "park":
            stage.park(f"queue:/{queue}")
        elif kind == "unpark":
            stage.unpark(f"queue:/{queue}")
        stage.settle()
    if end:
        stage.broker.vhosts["/"].remove_queue(stage.queue("q1"), end == "crash")
        stage.settle()
    for queue in QUEUES:
        stage.unpark(f"queue:/{queue}")
    stage.settle()
    assert sorted(hand.answers) == list(range(1, said + 1))


@settings(max_examples=4)
@given(st.sampled_from(NAMES), st.integers(1, 1 << 32))
def test_property_15_survivors_go_on_after_random_kills(name: str, seed: int) -> None:
    """A storm of deaths; whoever lives says all he has, and nothing is left behind (laws 6, 8)."""
    assert simulate("kill_storm", seed, name, check_every=4).turns > 0
