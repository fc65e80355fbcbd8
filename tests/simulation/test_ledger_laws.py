"""simulation/laws/ledger_checks: each law of the ledger is broken once, on purpose, and found."""

from collections.abc import Callable

import pytest

from penstock.flow.profile import PENSTOCK
from penstock.protocol import methods as m
from penstock.simulation.laws.ledger_checks import LedgerLaws
from penstock.simulation.machine.faults import LawBroken
from tests.spec.stage import Hand, Stage


class Scene:
    """P has ten messages in q1, and five wait for the socket of C, who does not read."""

    def __init__(self) -> None:
        self.stage = Stage(PENSTOCK)
        self.stage.world.setting.pipe_bytes = 300
        c: Hand = self.stage.connect()[0]
        self.stage.world.setting.pipe_bytes = 1 << 20
        c.say(m.BasicConsume("q2", "t", no_ack=True))
        self.stage.settle()
        c.client.is_reading = False
        p: Hand = self.stage.connect()[0]
        p.publish("q2", 20)
        p.publish("q1", 10)
        self.stage.settle()
        self.page = self.stage.connection(p.client).account
        self.owed = self.stage.connection(c.client).output
        self.lane = self.stage.queue_lane(p, "q1")


def unpaid_socket(scene: Scene) -> None:
    scene.owed.runs.pop()


def uncharged_delivery(scene: Scene) -> None:
    scene.owed.run_messages += 1


def charge_of_nothing(scene: Scene) -> None:
    scene.page.charge(1, 10)


def forgotten_store(scene: Scene) -> None:
    scene.page.unstore(1, 50)


def wrong_sum_above(scene: Scene) -> None:
    scene.stage.broker.node_account.set_limits(1 << 30, 1, 0, 0)
    scene.stage.broker.node_account.below_messages += 1


def not_held(scene: Scene) -> None:
    scene.page.high_messages = 1
    scene.page.is_limited = True


def held_for_nothing(scene: Scene) -> None:
    scene.page.is_held = True


def gate_forgotten(scene: Scene) -> None:
    scene.stage.broker.node_account.set_limits(1, 0, 0, 0)
    assert scene.page.gate is not None
    scene.page.gate.open("node", "debt")


@pytest.mark.parametrize(
    ("harm", "text"),
    [
        (unpaid_socket, "bytes owed"),
        (uncharged_delivery, "deliveries not charged"),
        (charge_of_nothing, "but lanes and sockets hold"),
        (forgotten_store, "but .* are in queues"),
        (wrong_sum_above, "it believes"),
        (not_held, "held False at"),
        (held_for_nothing, "held True at"),
        (gate_forgotten, r"is held by \[\], not by \['node'\]"),
    ],
)
def test_a_broken_law_is_found(harm: Callable[[Scene], None], text: str) -> None:
    scene = Scene()
    laws = LedgerLaws(scene.stage.broker)
    laws.check_step()
    harm(scene)
    with pytest.raises(LawBroken, match=text):
        laws.check_step()


def test_a_message_on_the_page_of_another_is_found() -> None:
    scene = Scene()
    laws = LedgerLaws(scene.stage.broker)
    laws.check_origins()
    other = scene.stage.connection(scene.stage.connect()[0].client).account
    scene.page.unstore(1, 20)
    other.store(1, 20)
    laws.check_step()
    with pytest.raises(LawBroken, match="stored, but queues hold"):
        laws.check_origins()


def test_work_beyond_its_bound_is_found() -> None:
    """Law 5: a page that was never held, with its lanes full."""
    scene = Scene()
    scene.stage.park(scene.stage.queue("q1").identity)
    scene.page.high_messages = 2
    scene.page.low_messages = 1
    scene.page.is_held = True
    laws = LedgerLaws(scene.stage.broker)
    scene.lane.in_flight += 50
    scene.page.debt_messages += 50
    with pytest.raises(LawBroken, match="messages in lanes, bound"):
        laws.check_step()
