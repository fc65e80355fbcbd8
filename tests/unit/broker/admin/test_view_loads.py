"""What snapshots say of clients that wait for answers, with the disk and the clock at hand."""

from penstock.broker.admin.views import actor_snapshots
from penstock.explain.answers import own_share, waits_of
from penstock.explain.explanation import Wait
from penstock.flow.profile import PENSTOCK
from penstock.protocol import methods as m
from penstock.telemetry.actor_window import ActorWindow, difference
from penstock.telemetry.answer_times import STAGE_NAMES
from penstock.telemetry.snapshots import ActorSnapshot
from tests.spec.stage import Hand
from tests.spec.test_store_scenarios import PERSISTENT, TRANSIENT, Depot

MS = 1_000_000
SYNC_NS = 4 * MS
OWN_NS = MS


class Watched(Depot):
    """One client, whose requests are made one by one, and a disk that needs SYNC_NS for a sync."""

    def __init__(self, *first: m.Method) -> None:
        super().__init__(PENSTOCK)
        self.hand: Hand = self.connect()[0]
        name = self.hand.client.link.name
        self.watched = self.broker.connections[name]
        for method in first:
            self.say(method)
        self.before = self.snapshot()

    def say(self, method: m.Method) -> None:
        self.hand.say(method)
        self.settle()

    def sync(self) -> None:
        self.world.clock.jump(self.world.clock.now_ns + SYNC_NS)
        self.write()

    def think(self) -> None:
        self.world.clock.jump(self.world.clock.now_ns + OWN_NS)

    def snapshot(self, kind: str = "conn") -> ActorSnapshot:
        mine = self.watched.identity
        found = actor_snapshots(self.broker)
        if kind == "conn":
            return found[mine]
        return next(one for one in found.values() if one.kind == kind and mine[5:] in one.actor)

    def window(self) -> ActorWindow:
        after = self.snapshot()
        return difference(self.before, after, [after])


def only(window: ActorWindow) -> Wait:
    (wait,) = waits_of(window)
    assert sum(ns for _, ns in wait.stages) == wait.mean_ns
    assert [name for name, _ in wait.stages] == [
        name for name in STAGE_NAMES if name in dict(wait.stages)
    ]
    assert wait.share + own_share(window, (wait,)) == 1.0
    return wait


def test_confirms_one_by_one_are_waits_for_the_sync() -> None:
    depot = Watched(m.ConfirmSelect())
    for _ in range(20):
        depot.send(depot.hand, "d1", 100)
        depot.sync()
        depot.think()
    window = depot.window()
    wait = only(window)
    assert (wait.answer, wait.count, wait.in_flight, wait.most) == ("confirms", 20, 1.0, 1)
    assert wait.stage_ns("sync") >= SYNC_NS > wait.mean_ns - wait.stage_ns("sync")
    assert 0.7 < wait.share < 0.9
    channel = depot.snapshot("chan")
    assert channel.numbers["wait:confirms:count"] == 20


def test_a_commit_is_a_wait_with_all_that_is_published_in_it() -> None:
    depot = Watched(m.TxSelect())
    for _ in range(20):
        depot.send(depot.hand, "d1", 100, count=5)
        depot.say(m.TxCommit())
        depot.sync()
        depot.think()
    wait = only(depot.window())
    assert (wait.answer, wait.in_flight, wait.most) == ("tx.commit-ok", 5.0, 5)
    assert wait.stage_ns("sync") >= SYNC_NS
    assert wait.share > 0.7


def test_who_publishes_on_while_the_disk_syncs_waits_for_nothing() -> None:
    depot = Watched(m.ConfirmSelect())
    for _ in range(20):
        for _ in range(10):
            depot.send(depot.hand, "d1", 100)
            depot.world.clock.jump(depot.world.clock.now_ns + SYNC_NS // 10)
        depot.send(depot.hand, "d1", 100)
        depot.write()
    assert sum(wait.share for wait in waits_of(depot.window())) < 0.3


def test_each_declare_is_a_wait_for_its_answer() -> None:
    depot = Watched()
    for _ in range(10):
        depot.say(m.QueueDeclare("d1", passive=True))
        depot.think()
    wait = only(depot.window())
    assert (wait.answer, wait.in_flight) == ("queue.declare-ok", 1.0)


def test_what_is_returned_is_a_wait_for_that() -> None:
    depot = Watched(m.ConfirmSelect())
    for _ in range(10):
        session = depot.hand.client.session
        session.publish(depot.hand.channel, "", "nobody", b"x", PERSISTENT, mandatory=True)
        depot.hand.client.flush()
        depot.settle()
        depot.think()
    assert only(depot.window()).answer == "basic.return"


def test_without_confirms_nothing_is_waited_for() -> None:
    depot = Watched()
    for _ in range(10):
        depot.send(depot.hand, "d1", 100, properties=TRANSIENT)
        depot.sync()
    window = depot.window()
    assert (waits_of(window), own_share(window, ())) == ((), 1.0)


def test_a_channel_that_ends_takes_its_unanswered_publishes_along() -> None:
    depot = Watched(m.ConfirmSelect())
    depot.send(depot.hand, "d1", 100)
    times = depot.watched.output.times
    assert times.unanswered == 1
    depot.say(m.ChannelClose(200, "", 0, 0))
    depot.sync()
    assert times.unanswered == 0
