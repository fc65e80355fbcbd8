"""Flow-semantics 19.E: the account scenarios of seed S4, under `syndicate` [R] and `penstock` [N].

The broker's forms: M is a publish, A the connection that reads it, D its channel, O1.. the queues
it fans out to; what is emitted further are deliveries, which wait for their consumers' sockets.
"""

from dataclasses import replace

import pytest

from penstock.base.clock import ManualClock
from penstock.base.config import Config, UserConfig
from penstock.broker.actors.cleanup import BATCH
from penstock.broker.admin.flow_ledger import ledger_rows
from penstock.broker.session.access import Access
from penstock.broker.settings.ledger import USER, DebtMark, Ledger, Marks
from penstock.flow.account import Account
from penstock.flow.credit import Strategy
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import Hop
from penstock.flow.profile import PENSTOCK, SYNDICATE, Profile, profile_named
from penstock.protocol import methods as m
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.simulation.machine.clock import Timers, VirtualClock
from tests.owed import owed_rows
from tests.spec.stage import BODY, Hand, Stage

BOTH = pytest.mark.parametrize("profile", [SYNDICATE, PENSTOCK], ids=["syndicate", "penstock"])
MIB = 1 << 20


def limited(profile: Profile, messages: int, bytes_: int = 0) -> Profile:
    return replace(profile, account_high_messages=messages, account_high_bytes=bytes_)


def wide(profile: Profile) -> Profile:
    """Without credit on hops in the way, so that the account alone decides."""
    if not profile.credit_initial:
        return profile
    return profile.with_messages(1 << 20, 1 << 19).with_bytes(1 << 30, 1 << 29)


def debt(stage: Stage, hand: Hand) -> int:
    return int(account(stage, hand).debt_messages)


def account(stage: Stage, hand: Hand) -> Account:
    return stage.connection(hand.client).account


def reads(stage: Stage, hand: Hand, key: str = "q3") -> bool:
    """Whether the connection takes one more message now."""
    connection = stage.connection(hand.client)
    before = int(connection.receive_count)
    hand.publish(key, 1).settle()
    return int(connection.receive_count) > before


def held_for(stage: Stage, hand: Hand) -> list[str]:
    snapshot = stage.connection(hand.client).gate.snapshot()
    return [peer for peer, reason, _ in snapshot if reason == "debt"]


def nine_queues(stage: Stage) -> list[str]:
    """q1 to q9, all bound to amq.fanout and parked."""
    admin = stage.connect()[0]
    for number in range(4, 10):
        admin.say(m.QueueDeclare(f"q{number}"))
        admin.say(m.QueueBind(f"q{number}", "amq.fanout", ""))
    stage.settle()
    names = [f"q{number}" for number in range(1, 10)]
    for name in names:
        stage.park(stage.queue(name).identity)
    return names


@BOTH
def test_scenario_92_seed_example(profile: Profile) -> None:
    stage = Stage(limited(wide(profile), 5))
    names = nine_queues(stage)
    a = stage.connect()[0]
    a.publish("", 1, "amq.fanout").settle()
    assert debt(stage, a) == 9
    assert not reads(stage, a)
    resumes_at = 5 if profile is SYNDICATE else 2
    for done, name in enumerate(names, start=1):
        stage.step(stage.queue(name).identity, 1)
        left = 9 - done
        if left > resumes_at:
            assert debt(stage, a) == left and held_for(stage, a) == [f"conn:{a.client.link.name}"]
            continue
        assert held_for(stage, a) == []
        break
    stage.settle()
    assert stage.connection(a.client).receive_count == 2, "only four of nine had to be done first"


@BOTH
def test_scenario_93_equality(profile: Profile) -> None:
    stage = Stage(limited(wide(profile), 3))
    a = stage.connect()[0]
    stage.park(stage.channel(a).identity)
    a.publish("q1", 3).settle()
    assert debt(stage, a) == 3
    assert reads(stage, a, "q1"), "at the limit is not above it"
    assert debt(stage, a) == 4
    assert not reads(stage, a, "q1")


class Path:
    """Actors 0, 1, 2, ..., each with a hop to the next, charged to one account."""

    def __init__(self, profile: Profile, length: int) -> None:
        self.strategy: Strategy = wide(profile).strategy()
        clock = ManualClock()
        self.gates = [Gate(f"actor {at}", clock, GateObserver()) for at in range(length + 1)]
        self.hops = [
            Hop(f"actor {at}", at, self.gates[at], f"actor {at + 1}", at + 1, self.gates[at + 1])
            for at in range(length)
        ]
        for hop in self.hops:
            self.strategy.wire(hop)
        self.origin = Account("conn:p", None, None, 0)
        self.seen: list[int] = []

    def charge(self, at: int, count: int = 1) -> None:
        self.strategy.charge(self.hops[at], self.origin, count, 100 * count)
        self.seen.append(int(self.origin.debt_messages))

    def repay(self, at: int, count: int = 1) -> None:
        self.strategy.repay(self.hops[at], self.origin, count, 100 * count)
        self.seen.append(int(self.origin.debt_messages))


@BOTH
def test_scenario_94_no_dip(profile: Profile) -> None:
    path = Path(profile, 3)
    path.charge(0)
    path.charge(1, 3)
    path.repay(0)
    for _ in range(3):
        path.charge(2, 3)
        path.repay(1)
    for _ in range(9):
        path.repay(2)
    assert 0 not in path.seen[:-1]
    assert path.seen[-1] == 0 and max(path.seen) == 10


@BOTH
def test_scenario_94_no_dip_from_the_reader_to_the_socket(profile: Profile) -> None:
    stage = Stage(wide(profile))
    stage.world.setting.pipe_bytes = 700
    c = stage.connect()[0]
    for name in ("q1", "q2", "q3"):
        c.say(m.BasicConsume(name, name, no_ack=True))
    stage.settle()
    c.client.is_reading = False
    p = stage.connect()[0]
    page = account(stage, p)
    queues = [stage.queue(f"q{number}").identity for number in (1, 2, 3)]
    for identity in [*queues, stage.channel(p).identity]:
        stage.park(identity)
    p.client.session.publish(p.channel, "amq.fanout", "", b"y" * 900)
    p.client.flush()
    stage.settle()
    assert page.debt_messages == 1
    for at, identity in enumerate([stage.channel(p).identity, *queues]):
        stage.step(identity, 1)
        assert page.debt_messages == 3, f"after step {at}: three lanes, or sockets, for one publish"
    # The first delivery is in the pipe, for the most part; all three are owed until it is read.
    assert {row.kind for row in owed_rows(stage.broker)} == {"socket"}
    c.client.is_reading = True
    stage.settle()
    assert page.debt_messages == 0 and page.debt_bytes == 0 and len(c.deliveries) == 3


@BOTH
def test_scenario_95_chain_of_ten_hops(profile: Profile) -> None:
    path = Path(profile, 10)
    path.charge(0)
    for at in range(1, 10):
        path.charge(at)
        path.repay(at - 1)
    assert set(path.seen) == {1, 2}
    path.repay(9)
    assert path.seen[-1] == 0


@BOTH
def test_scenario_96_batching(profile: Profile) -> None:
    stage = Stage(wide(profile))
    p = stage.connect()[0]
    channel = stage.channel(p).identity
    for identity in (channel, stage.queue("q1").identity, stage.queue("q2").identity):
        stage.park(identity)
    p.publish("q1", 3)
    p.publish("q2", 1).settle()
    stage.step(channel, 4)
    owed = {row.place.split(" -> ")[1]: row.messages for row in owed_rows(stage.broker)}
    assert owed == {"queue:/q1": 3, "queue:/q2": 1}
    stage.step(stage.queue("q1").identity, 10)
    assert debt(stage, p) == 1, "the three are repaid together"


@BOTH
def test_scenario_97_rollback(profile: Profile) -> None:
    stage = Stage(wide(profile))
    p = stage.connect()[0]
    p.say(m.TxSelect())
    p.publish("q1", 5).settle()
    assert debt(stage, p) == 0, "what triggered the turn is repaid, what it emits waits for commit"
    p.say(m.TxRollback()).settle()
    assert debt(stage, p) == 0 and stage.ready("q1") == 0


@BOTH
def test_scenario_97_a_turn_that_fails_emits_nothing(profile: Profile) -> None:
    stage = Stage(wide(profile))
    p = stage.connect()[0]
    page = account(stage, p)
    p.say(m.TxSelect())
    p.publish("q1", 5)
    p.publish("", 1, "there is no such exchange").settle()
    assert page.debt_messages == 0 and stage.ready("q1") == 0
    assert not stage.connection(p.client).channels, "the channel is gone, and its work with it"


@BOTH
def test_scenario_98_actor_crash(profile: Profile) -> None:
    stage = Stage(limited(wide(profile), 5))
    queue = stage.queue("q1")
    stage.park(queue.identity)
    p = stage.connect()[0]
    stage.park(stage.channel(p).identity)
    # All in one read, and past the mark by what is in the channel's mailbox already.
    stage.broker.ledger.set_marks("connection", "", Marks())
    p.publish("q1", 7).settle()
    stage.unpark(stage.channel(p).identity)
    stage.settle()
    stage.broker.ledger.set_marks(
        "connection", "", Marks(DebtMark(5, stage.broker.strategy.low_of(5)))
    )
    assert debt(stage, p) == 7 and not reads(stage, p)
    stage.broker.scheduler.failed(queue, RuntimeError("a bug of ours"))
    stage.world.log.errors.clear()
    assert debt(stage, p) == 0 and held_for(stage, p) == []
    stage.settle()
    assert stage.connection(p.client).receive_count == 8, "and the waiter is awake"


@BOTH
def test_scenario_99_dead_target(profile: Profile) -> None:
    stage = Stage(wide(profile))
    stage.park(stage.queue("q1").identity)
    p = stage.connect()[0]
    admin = stage.connect()[0]
    p.publish("q1", 3).settle()
    assert debt(stage, p) == 3
    admin.say(m.QueueDelete("q1")).settle()
    assert debt(stage, p) == 0
    p.publish("q1", 3).settle()
    assert debt(stage, p) == 0 and stage.connection(p.client).receive_count == 6


@BOTH
def test_scenario_100_fan_out_1000(profile: Profile) -> None:
    stage = Stage(limited(wide(profile), 100))
    stage.world.setting.check_every = 500
    vhost = stage.broker.vhosts["/"]
    admin, p, other = stage.connect()[0], stage.connect()[0], stage.connect()[0]
    admin.say(m.ExchangeDeclare("all", "fanout"))
    for number in range(1000):
        admin.say(m.QueueDeclare(f"w{number}"))
        admin.say(m.QueueBind(f"w{number}", "all", ""))
        if number % 50 == 49:
            stage.settle()
    queues = [vhost.queues[f"w{number}"] for number in range(1000)]
    for queue in queues:
        stage.park(queue.identity)
    p.publish("", 1, "all").settle()
    assert debt(stage, p) == 1000
    assert not reads(stage, p) and reads(stage, other), "this connection stops, others do not"
    low = 100 if profile is SYNDICATE else 50
    done = 0
    while held_for(stage, p):
        queues[done].turn(1)
        done += 1
    assert 1000 - done == low


@BOTH
def test_scenario_101_slow_consumer_charged_to_producer(profile: Profile) -> None:
    stage = Stage(limited(wide(profile), 100))
    stage.world.setting.pipe_bytes = 2000
    c = stage.connect()[0]
    stage.world.setting.pipe_bytes = 1 << 20
    d, p, q = stage.connect()[0], stage.connect()[0], stage.connect()[0]
    c.say(m.BasicConsume("q1", "slow", no_ack=True))
    d.say(m.BasicConsume("q2", "good", no_ack=True)).settle()
    c.client.is_reading = False
    for _ in range(40):
        p.publish("q1", 5)
        q.publish("q2", 5).settle()
    owed = [row for row in owed_rows(stage.broker) if row.kind == "socket"]
    assert [(row.place, row.origin) for row in owed] == [
        (f"socket:{c.client.link.name}", f"conn:{p.client.link.name}")
    ]
    assert debt(stage, p) == owed[0].messages >= 100
    assert stage.connection(p.client).receive_count < 200 and not reads(stage, p)
    assert stage.connection(q.client).receive_count == 200 == len(d.deliveries)
    assert debt(stage, q) == 0 and reads(stage, q)
    c.client.vanish(True)
    stage.settle()
    assert debt(stage, p) == 0
    assert stage.connection(p.client).receive_count == 201


@BOTH
def test_scenario_102_ultimate_cause(profile: Profile) -> None:
    stage = Stage(wide(profile))
    stage.world.setting.pipe_bytes = 1500
    c = stage.connect()[0]
    stage.world.setting.pipe_bytes = 1 << 20
    c.say(m.BasicConsume("q2", "t", no_ack=True)).settle()
    c.client.is_reading = False
    p, q = stage.connect()[0], stage.connect()[0]
    for hand, count in ((p, 30), (q, 20)):
        hand.publish("q2", count)
        hand.publish("q1", 2 * count)
    stage.settle()
    stage.park(stage.queue("q3").identity)
    p.publish("q3", 4).settle()
    rows = owed_rows(stage.broker)
    pages = {row.name: row for row in ledger_rows(stage.broker)}
    for hand, count in ((p, 30), (q, 20)):
        name = f"conn:{hand.client.link.name}"
        work = [row for row in rows if row.origin == name and row.kind in ("lane", "socket")]
        rest = [row for row in rows if row.origin == name and row.kind == "stored"]
        assert sum(row.messages for row in work) == pages[name].debt_messages > 0
        assert sum(row.bytes_ for row in work) == pages[name].debt_bytes
        assert [(row.place, row.messages) for row in rest] == [("queue:/q1", 2 * count)]
        assert rest[0].bytes_ == pages[name].stored_bytes
    assert pages["node"].debt_messages == sum(debt(stage, hand) for hand in (p, q))
    assert pages["node"].stored_messages == 100


@BOTH
def test_scenario_103_timer(profile: Profile) -> None:
    clock = VirtualClock(1)
    timers = Timers(clock)
    path = Path(profile, 2)
    node = Account("node", None, None, 0)
    p = path.origin = Account("conn:p", node, Gate("conn:p", clock, GateObserver()), 0)
    path.charge(0)
    timers.after(5_000_000_000, lambda: path.charge(1))
    path.repay(0)
    assert p.debt_messages == 0, "nothing is owed while it sleeps"
    p.close()
    assert not node.children
    timers.run_next()
    assert clock.now_ns >= 5_000_000_000
    assert p.debt_messages == 1 and node.total_messages() == 1 and p.gate is None
    path.repay(1)
    assert not node.children


@BOTH
def test_scenario_104_cleanup(profile: Profile) -> None:
    stage = Stage(profile)
    stage.world.setting.check_every = 1 << 30
    c, p = stage.connect()[0], stage.connect()[0]
    for number in range(10_000):
        c.say(m.BasicConsume(f"q{number % 3 + 1}", f"t{number}", no_wait=True))
    stage.settle()
    queues, link = [stage.queue(f"q{number}") for number in (1, 2, 3)], c.client.link
    reader = stage.connection(p.client)
    assert sum(len(queue.consumers) for queue in queues) == 10_000
    c.client.vanish(True)
    while not link.shell.is_closed:
        link.shell.readable(stage.world.dice)
    rounds = 0
    while left := sum(len(queue.consumers) for queue in queues):
        received = int(reader.receive_count)
        p.publish("q2", 1)
        reader.receive(p.client.link.up.take(1 << 16))
        while reader.receive_count == received:
            # One turn: whoever is first in the line.
            stage.step(stage.broker.scheduler.ready[0].identity, 1000)
        now_left = sum(len(queue.consumers) for queue in queues)
        assert left - now_left <= BATCH, "nobody waits for more than a batch"
        assert stage.broker.node_account.total_messages() <= 2, "nobody is charged for it"
        stage.step("cleanup:node", 1)
        rounds += 1
    assert rounds >= 10_000 // BATCH // 2
    stage.settle()
    assert c.client.link.name not in stage.broker.connections and stage.ready("q2") == rounds


def overshoot(profile: Profile) -> int:
    """Messages admitted of 2000 that come in one read."""
    stage = Stage(limited(wide(profile), 100))
    p = stage.connect()[0]
    stage.park(stage.channel(p).identity)
    p.publish("q1", 2000)
    connection = stage.connection(p.client)
    connection.receive(p.client.link.up.take(1 << 20))
    stage.step(connection.identity, 5000)
    assert not connection.can_receive()
    return int(connection.receive_count)


def test_scenario_105_read_overshoot_r() -> None:
    assert overshoot(SYNDICATE) == 2000


def test_scenario_105_read_overshoot_n() -> None:
    assert overshoot(PENSTOCK) == 101


@BOTH
def test_scenario_106_bytes(profile: Profile) -> None:
    stage = Stage(limited(wide(profile), 0, 4 * MIB))
    p = stage.connect()[0]
    stage.park(stage.channel(p).identity)
    for _ in range(10):
        p.publish_bodies("q1", [b"z" * MIB]).settle()
    assert 4 <= stage.connection(p.client).receive_count <= 5
    assert held_for(stage, p) == [f"conn:{p.client.link.name}"]


@BOTH
def test_scenario_107_many_waiters(profile: Profile) -> None:
    stage = Stage(limited(wide(profile), 0))
    a, b = stage.connect()[0], stage.connect()[0]
    stage.park(stage.queue("q1").identity)
    a.publish("q1", 100)
    b.publish("q1", 50).settle()
    stage.broker.ledger.set_marks(USER, "", Marks(DebtMark(100, 50)))
    assert held_for(stage, a) == held_for(stage, b) == ["user:guest@/"]
    assert not reads(stage, a) and not reads(stage, b)
    stage.step(stage.queue("q1").identity, 100)
    assert held_for(stage, a) == held_for(stage, b) == [], "one repay, and both continue"
    stage.settle()
    assert stage.connection(a.client).receive_count == 101
    assert stage.connection(b.client).receive_count == 51


def test_scenario_108_hierarchy_n() -> None:
    stage = Stage(limited(wide(PENSTOCK), 8))
    stage.broker.ledger.set_marks(USER, "guest@/", Marks(DebtMark(10, 5)))
    a, b = stage.connect()[0], stage.connect()[0]
    stage.park(stage.queue("q1").identity)
    for hand in (a, b, a, b):
        hand.publish("q1", 20).settle()
        assert debt(stage, a) + debt(stage, b) <= 12
    assert debt(stage, a) == 9 and debt(stage, b) >= 1
    assert held_for(stage, a) == [f"conn:{a.client.link.name}", "user:guest@/"]
    assert held_for(stage, b) == ["user:guest@/"]
    row = next(row for row in ledger_rows(stage.broker) if row.level == USER)
    assert row.is_held and row.held_by == ["user:guest@/"] and row.held_for_ns > 0


@BOTH
def test_scenario_109_stored_messages(profile: Profile) -> None:
    stage = Stage(wide(profile))
    stage.world.setting.check_every = 1000
    p = stage.connect()[0]
    for _ in range(20):
        p.publish("q1", 500).settle()
    page = account(stage, p)
    assert page.debt_messages == 0 and stage.ready("q1") == 10_000
    size = len(stage.queue("q1").messages.ready_messages()[0].raw)
    assert size > len(BODY)
    assert page.stored_messages == 10_000
    assert page.stored_bytes == 10_000 * (size + MESSAGE_OVERHEAD_BYTES)
    assert stage.broker.node_account.memory_bytes() == page.stored_bytes
    admin = stage.connect()[0]
    admin.say(m.QueuePurge("q1")).settle()
    assert page.stored_messages == 0 and page.stored_bytes == 0


@pytest.mark.parametrize("way", ["ack", "auto-ack", "reject", "get", "purge", "delete", "requeue"])
def test_scenario_109_every_way_out_repays(way: str) -> None:
    stage = Stage(PENSTOCK)
    p, c = stage.connect()[0], stage.connect()[0]
    p.publish("q1", 10).settle()
    page = account(stage, p)
    assert page.stored_messages == 10
    p.client.end()
    stage.settle()
    assert page.is_closed and page.is_listed, "its messages outlive it, and are still its own"
    if way in ("ack", "auto-ack", "reject", "requeue"):
        c.say(m.BasicConsume("q1", "t", no_ack=way == "auto-ack")).settle()
        assert len(c.deliveries) == 10
        assert page.stored_messages == (0 if way == "auto-ack" else 10)
    if way == "ack":
        c.say(m.BasicAck(0, True))
    elif way == "reject":
        for tag in range(1, 11):
            c.say(m.BasicReject(tag, False))
    elif way == "requeue":
        c.say(m.BasicCancel("t"))
        c.say(m.BasicNack(0, True, True)).settle()
        assert page.stored_messages == 10 and stage.ready("q1") == 10
        c.say(m.QueueDelete("q1"))
    elif way == "get":
        for _ in range(10):
            c.say(m.BasicGet("q1", no_ack=True))
    elif way == "purge":
        c.say(m.QueuePurge("q1"))
    elif way == "delete":
        c.say(m.QueueDelete("q1"))
    stage.settle()
    assert page.stored_messages == 0 and not page.is_listed


@BOTH
def test_scenario_110_account_lifetime(profile: Profile) -> None:
    """Ten thousand pages, a few of them as connections that really come and go."""
    ledger = Ledger(Config(), Access((UserConfig("guest", "guest"),)), ["/"])
    ledger.adopt(profile, profile.strategy())
    clock = ManualClock()
    for number in range(10_000):
        name = f"conn:{number % 100}"
        page = Account(name, ledger.node, Gate(name, clock, GateObserver()), 0)
        ledger.admit(page)
        ledger.enter(page, "guest", "/")
        page.charge(3, 300)
        page.store(1, 100)
        page.close()
        ledger.left(page)
        page.repay(3, 300)
        page.unstore(1, 100)
    assert [page.name for page in ledger.pages()] == ["node", "vhost:/", "user:guest@/"]
    stage = Stage(profile)
    for _ in range(40):
        p = stage.connect()[0]
        p.publish("q1", 1).settle()
        p.client.end()
        stage.settle()
    closed = [row for row in ledger_rows(stage.broker) if row.is_closed]
    assert len(closed) == 40 == sum(row.stored_messages for row in closed)
    stage.connect()[0].say(m.QueuePurge("q1"))
    stage.settle()
    assert not [row for row in ledger_rows(stage.broker) if row.is_closed]


@BOTH
def test_scenario_111_two_cause_turn(profile: Profile) -> None:
    """Whoever triggers the turn pays for what it emits, whatever else went into it."""
    path = Path(profile, 2)
    p, q = Account("conn:p", None, None, 0), Account("conn:q", None, None, 0)
    path.strategy.charge(path.hops[0], p, 1, 10)
    path.strategy.repay(path.hops[0], p, 1, 10)
    path.strategy.charge(path.hops[0], q, 1, 10)
    path.strategy.charge(path.hops[1], q, 1, 25)
    path.strategy.repay(path.hops[0], q, 1, 10)
    assert (p.debt_messages, q.debt_messages, q.debt_bytes) == (0, 1, 25)


@BOTH
def test_scenario_111_a_turn_of_a_queue_charges_each_cause_for_its_own(profile: Profile) -> None:
    stage = Stage(wide(profile))
    stage.world.setting.pipe_bytes = 200
    c = stage.connect()[0]
    stage.world.setting.pipe_bytes = 1 << 20
    c.say(m.BasicConsume("q1", "t", no_ack=True)).settle()
    c.client.is_reading = False
    p, q = stage.connect()[0], stage.connect()[0]
    stage.park(stage.queue("q1").identity)
    p.publish("q1", 6)
    q.publish("q1", 4).settle()
    stage.unpark(stage.queue("q1").identity)
    stage.settle()
    owed: dict[str, int] = {}
    for run in stage.connection(c.client).output.runs:
        owed[run.origin.name] = owed.get(run.origin.name, 0) + int(run.messages)
    assert owed.get(f"conn:{p.client.link.name}", 0) == debt(stage, p)
    assert owed[f"conn:{q.client.link.name}"] == debt(stage, q) == 4


def test_the_profile_of_the_seed_is_there() -> None:
    profile = profile_named("syndicate")
    assert (profile.account_high_messages, profile.account_high_bytes) == (100, 0)
    assert profile.strategy().name == "debt" and profile.strategy().low_of(100) == 100
