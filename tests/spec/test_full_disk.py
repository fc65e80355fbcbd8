"""A disk without room, asked about: since when, with how much, and whose publishers wait for it."""

import pytest

from penstock.broker.admin.views import actor_snapshots
from penstock.explain.explain import explain
from penstock.explain.explanation import THROTTLED, Explanation
from penstock.explain.render import render
from penstock.flow.profile import PENSTOCK
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.telemetry.window import WindowHistory
from tests.spec.stage import Stage
from tests.spec.test_store_scenarios import Depot
from tests.spec.test_stream_scenarios import Bank

SECOND = 1_000_000_000
PERSISTENT = Properties(delivery_mode=2)


class Watch:
    """Rounds of snapshots of a stage, and answers out of them."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.history = WindowHistory(60)
        self.round()

    def round(self) -> None:
        now_ns = self.stage.world.clock.monotonic_ns()
        self.history.push(now_ns, actor_snapshots(self.stage.broker))

    def why(self, kind: str, name: str) -> Explanation:
        self.round()
        windows = self.history.over(10.0)
        return explain(kind, name, windows, self.stage.world.clock.monotonic_ns())


def later(stage: Stage, seconds: int) -> None:
    stage.world.clock.jump(stage.world.clock.now_ns + seconds * SECOND)
    while stage.world.timers.is_due():
        stage.world.timers.run_next()
    stage.settle()


@pytest.mark.parametrize("kind", ["queue", "stream"])
def test_why_names_the_room_that_is_missing(kind: str) -> None:
    bed: Depot | Bank = Depot(PENSTOCK) if kind == "queue" else Bank()
    name, store = ("d1", "/") if kind == "queue" else ("s", "/:streams")
    bed.lot_of_one()
    hand = bed.connect()[0]
    hand.say(m.ConfirmSelect()).settle()
    watch = Watch(bed)
    bed.files.room = 0
    for _ in range(16):
        for _ in range(300):
            hand.client.session.publish(hand.channel, "", name, b"x" * 1000, PERSISTENT)
        hand.client.flush()
        bed.settle()
    while bed.disk.jobs:
        bed.disk.work()
        bed.settle()
    assert bed.store.is_full
    later(bed, 10)
    asked = watch.why("store", store)
    assert f"store {store} waits for room on the disk for 10.0 s: " in render(asked)
    assert "MB) find no room; it goes on by itself" in render(asked)
    assert f"queue /{name} keeps its messages in store {store}, which waits for" in render(
        watch.why("queue", name)
    )
    publisher = watch.why("publish", "")
    assert publisher.state == THROTTLED
    assert "find no room" in render(publisher), render(publisher)

    bed.files.room = -1
    later(bed, 1)
    while bed.disk.jobs:
        bed.disk.work()
        bed.settle()
    assert "room" not in render(watch.why("store", store))
