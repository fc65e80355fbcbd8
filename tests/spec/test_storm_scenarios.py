"""Scenarios 118, 119 and 120 of flow-semantics 19 as storms over the whole simulated broker.

118 and 120 in the small are in test_alarm_scenarios and test_strategy_scenarios. Here everything
happens at once and at any time, and the laws are looked at after every few turns. The windows in
force are compared with the number of transitions, so that a storm that does nothing fails.
"""

import pytest

from penstock.broker.settings.hop_watch import hops_of
from penstock.client.events import ClientEvent
from penstock.flow.profile import PENSTOCK, PROFILES, RABBITMQ_4, Profile
from penstock.simulation.machine.dice import Dice
from penstock.simulation.scenario.scenarios import SCENARIOS, small_setting
from penstock.simulation.world.actions import clear_alarm, set_alarm
from penstock.simulation.world.world import World
from tests.spec.stage import Hand, Stage

TRANSITIONS = 1000
NAMES = sorted(name for name, one in PROFILES.items() if not one.broadcasts_flow)
"""Those that send connection.blocked; rabbitmq-1.5 sends channel.flow alone."""


class Idle(Hand):
    """Keeps nothing of what it is sent, however much that is."""

    def happened(self, event: ClientEvent) -> None:
        pass


@pytest.mark.parametrize("name", NAMES)
def test_scenario_118_signals_are_paired(name: str) -> None:
    """1,000 settings and clearings of two alarms while three connections publish: each is told
    blocked and unblocked strictly in turn (its client fails otherwise), and ends unblocked."""
    stage = Stage(PROFILES[name])
    dice = Dice(118)
    hands = [stage.connect()[0] for _ in range(3)]
    published = 0
    for _ in range(TRANSITIONS):
        resource = dice.one_of(("memory", "disk"))
        (set_alarm if dice.happens(50) else clear_alarm)(stage.world, resource)
        if dice.happens(30):
            dice.one_of(hands).publish(dice.one_of(("q1", "q2", "q3")), 1)
            published += 1
        if dice.happens(40):
            stage.settle()
    for resource in ("memory", "disk"):
        clear_alarm(stage.world, resource)
    stage.settle()
    for hand in hands:
        assert not hand.client.is_told_blocked
        assert hand.client.told_count >= 20
        assert hand.client.told_count % 2 == 0
    assert sum(stage.ready(queue) for queue in ("q1", "q2", "q3")) == published


@pytest.mark.parametrize("name", NAMES)
def test_scenario_119_kill_storm(name: str) -> None:
    """Deaths of clients, channels and queues under load: afterwards nothing is owed, nobody is
    held, and every hop that is left has the whole of its window."""
    for seed in (119, 1190):
        world = World(seed, small_setting(name, seed, 4))
        SCENARIOS["kill_storm"](world)
        world.run(world.is_drained)
        broker = world.broker
        assert broker.node_account.total_messages() == 0
        assert broker.node_account.total_bytes() == 0
        for connection in broker.connections.values():
            assert connection.gate.is_open
        lanes = hops_of(broker.connections)
        assert lanes
        for lane in lanes:
            assert lane.in_flight == lane.deferred == 0
            assert lane.balance + lane.done == lane.window or lane.window == 0
            assert lane.sender_gate.is_open
        world.finish()


@pytest.mark.parametrize("profile", [PENSTOCK, RABBITMQ_4], ids=lambda profile: profile.name)
def test_scenario_120_windows_change_under_load(profile: Profile) -> None:
    """400 -> 200 -> 400 and others at random, 200 times while messages pass: no credit is lost or
    comes from nowhere, what is in flight is never negative, and all messages arrive."""
    stage = Stage(profile)
    dice = Dice(120)
    hand = stage.connect()[0]
    said = 0
    least = 0
    for _ in range(200):
        more = dice.one_of((1, 10, 100, 200))
        initial = more * dice.between(1, 4)
        kind = dice.one_of(("connection_channel", "channel_queue"))
        stage.broker.settings.write(f"credit.{kind}", f"{initial}/{more}")
        for actor in ("queue:/q1", stage.channel(hand).identity):
            (stage.park if dice.happens(40) else stage.unpark)(actor)
        if said < 3000:
            count = dice.skewed(100)
            hand.publish("q1", count)
            said += count
        if dice.happens(70):
            stage.settle()
        for lane in hops_of(stage.broker.connections):
            lane.check()
            assert lane.in_flight >= 0
            least = min(least, int(lane.balance))
    stage.unpark("queue:/q1")
    stage.unpark(stage.channel(hand).identity)
    stage.broker.settings.write("credit.channel_queue", "400/200")
    stage.broker.settings.write("credit.connection_channel", "400/200")
    stage.settle()
    assert stage.ready("q1") == said
    assert least < 0, "no window was ever narrower than what was under way"
    for lane in hops_of(stage.broker.connections):
        assert lane.balance + lane.done == 400
        assert not lane.is_closed
