"""Scenarios 1-7, 10-15 and 18-20 of flow-semantics 19.A: credit between two processes.

Every number scales with the profile's window: `initial` messages, grants of `more`. For
rabbitmq-3.5 they are the scenario's own, 200 and 50.
"""

import pytest

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.broker.broker import Log
from penstock.broker.queue.classic_actor import ClassicActor
from penstock.flow.credit import Credit, Window
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import Hop
from penstock.flow.profile import NONE, PENSTOCK, RABBITMQ_4, RABBITMQ_35, Profile
from penstock.simulation.machine.clock import VirtualClock
from penstock.simulation.machine.dice import Dice
from penstock.simulation.world.world import SimulatedBroker
from tests.spec.credit_flow import Process
from tests.spec.pair import Processes, Wire

S_NS = 1_000_000_000
ALL = pytest.mark.parametrize(
    "profile", [RABBITMQ_35, RABBITMQ_4, PENSTOCK], ids=lambda profile: profile.name
)
EMULATED = pytest.mark.parametrize(
    "profile", [RABBITMQ_35, RABBITMQ_4], ids=lambda profile: profile.name
)


def two(profile: Profile) -> tuple[Processes, Wire, int, int]:
    processes = Processes(profile)
    wire = processes.wire("A", "B")
    return processes, wire, profile.credit_initial, profile.credit_more_after


@ALL
def test_scenario_01_block_edge(profile: Profile) -> None:
    processes, wire, initial, _ = two(profile)
    wire.send(initial - 1)
    assert processes.gate("A").is_open
    assert wire.credit == 1
    wire.send(1)
    assert not processes.gate("A").is_open
    assert wire.credit == 0
    assert processes.blockers("A") == ["B"]


@ALL
def test_scenario_02_grant_threshold(profile: Profile) -> None:
    processes, wire, initial, more = two(profile)
    wire.send(initial)
    wire.take(more - 1)
    assert wire.credit == 0
    assert not processes.gate("A").is_open
    wire.take(1)
    assert wire.credit == more
    assert processes.gate("A").is_open


@ALL
def test_scenario_03_grant_without_blocking(profile: Profile) -> None:
    processes, wire, initial, more = two(profile)
    wire.send(more + 10)
    wire.take(more)
    assert wire.credit == initial - 10
    assert wire.hop.blocks == 0
    assert wire.hop.done == 0, "the countdown starts anew"
    assert processes.gate("A").is_open


@ALL
def test_scenario_04_batch_of_acks(profile: Profile) -> None:
    """Taken one by one, grants are quanta of `more`; a batch is coalesced to the same sum [N]."""
    _, wire, initial, more = two(profile)
    wire.send(initial)
    grants = []
    for _ in range(initial):
        before = wire.credit
        wire.take(1)
        if wire.credit != before:
            grants.append(wire.credit - before)
    assert grants == [more] * (initial // more)
    _, batch, _, _ = two(profile)
    batch.send(initial)
    batch.take_at_once(initial)
    assert batch.credit == wire.credit == initial


@EMULATED
def test_scenario_05_overshoot(profile: Profile) -> None:
    """The [N] form, refusing or parking the next one, needs an actor: see the chain scenarios."""
    processes, wire, initial, more = two(profile)
    wire.send(initial + 60)
    assert wire.credit == -60
    assert processes.blockers("A") == ["B"], "listed once"
    needed = 60 // more + 1
    for grant in range(1, needed + 1):
        assert not processes.gate("A").is_open
        wire.take(more)
        assert wire.credit == -60 + grant * more
    assert processes.gate("A").is_open
    assert wire.hop.blocks == 1


@ALL
def test_scenario_06_two_blockers(profile: Profile) -> None:
    processes, to_b, initial, more = two(profile)
    to_c = processes.wire("A", "C")
    into_a = processes.wire("Z", "A")
    to_b.send(initial)
    to_c.send(initial)
    into_a.send(more)
    into_a.take(more)
    to_b.take(more)
    assert processes.blockers("A") == ["C"]
    assert into_a.hop.deferred == more, "nothing is flushed yet"
    to_c.take(more)
    assert processes.gate("A").is_open
    assert into_a.credit == initial


@ALL
def test_scenario_07_deferred_grants(profile: Profile) -> None:
    processes, a_to_b, initial, more = two(profile)
    b_to_c = processes.wire("B", "C", layer=1)
    b_to_c.send(initial)
    a_to_b.send(2 * more)
    a_to_b.take(2 * more)
    assert a_to_b.credit == initial - 2 * more, "A receives nothing"
    assert a_to_b.hop.deferred == 2 * more
    b_to_c.take(more)
    assert a_to_b.credit == initial
    assert a_to_b.hop.deferred == 0


@ALL
def test_scenario_10_receiver_dies(profile: Profile) -> None:
    processes, a_to_b, initial, more = two(profile)
    into_a = processes.wire("Z", "A")
    a_to_b.send(initial)
    into_a.send(more)
    into_a.take(more)
    assert into_a.hop.deferred == more
    a_to_b.die()
    assert processes.gate("A").is_open
    assert processes.blockers("A") == []
    assert into_a.credit == initial, "what A deferred upstream is sent"
    assert processes.wire("A", "B'").credit == initial
    assert processes.origin.debt_messages == 0, "the dead one holds nothing any more"


@ALL
def test_scenario_11_sender_dies(profile: Profile) -> None:
    processes, a_to_b, initial, more = two(profile)
    b_to_c = processes.wire("B", "C", layer=1)
    b_to_c.send(initial)
    a_to_b.send(2 * more)
    a_to_b.take(2 * more - 1)
    a_to_b.die()
    assert a_to_b.hop.deferred == 0
    b_to_c.take(more)
    assert processes.gate("B").is_open, "flushing grants to the dead is no error"
    assert a_to_b.credit == initial
    assert a_to_b.hop.done == 0, "B's countdown for A is forgotten"


def of_rabbitmq(*names: str, spec: tuple[int, int]) -> list[Process]:
    """Processes under RabbitMQ's own credit_flow, which has the faults we do not copy."""
    world: dict[str, Process] = {}
    return [Process(name, spec, world) for name in names]


@EMULATED
def test_scenario_12_late_grant_makes_a_small_window(profile: Profile) -> None:
    """[R]: a grant that arrives after the death leaves a window of `more` for the dead one's id,
    and whoever comes back under it never has more."""
    initial, more = profile.credit_initial, profile.credit_more_after
    a, b = of_rabbitmq("A", "B", spec=(initial, more))
    b.hold_grants = True
    for _ in range(initial):
        a.send("B")
    for _ in range(more):
        b.ack("A")
    a.peer_down("B")
    assert a.window("B") == initial
    b.release_grants()
    assert a.window("B") == more
    b = Process("B", (initial, more), a.world)
    for _ in range(10 * initial):
        if not a.blockers:
            a.send("B")
            b.ack("A")
        assert a.window("B") <= more


@ALL
def test_scenario_12_late_grant(profile: Profile) -> None:
    """[N], in every profile: a leak of RabbitMQ's that nobody could want is not copied."""
    _, wire, initial, more = two(profile)
    wire.send(initial)
    life = wire.hop.epoch
    wire.die()
    wire.hop.grant(more, 100 * more, life)
    assert wire.credit == initial
    wire.hop.check()


@EMULATED
def test_scenario_13_one_sided_loss_leaks(profile: Profile) -> None:
    """[R]: each time the receiver alone forgets, up to `more` - 1 taken messages are never granted,
    until the sender is stopped for good by somebody who owes it nothing. Where the sender alone
    forgets it has a whole window again, on top of what is under way."""
    initial, more = profile.credit_initial, profile.credit_more_after
    a, b = of_rabbitmq("A", "B", spec=(initial, more))
    incidents = 0
    while not a.blockers:
        count = min(more - 1, a.window("B"))
        for _ in range(count):
            a.send("B")
            b.ack("A")
        b.peer_down("A")
        incidents += 1
        assert a.window("B") == max(0, initial - incidents * (more - 1))
    assert incidents == -(-initial // (more - 1)) < 10
    assert a.blockers == ["B"] and b.receive_count == {} and b.deferred == []
    a, b = of_rabbitmq("A", "B", spec=(initial, more))
    for _ in range(10):
        for _ in range(initial):
            a.send("B")
        assert a.blockers == ["B"]
        a.peer_down("B")
        assert a.window("B") == initial and not a.blockers, "and B has taken nothing yet"


@ALL
def test_scenario_13_one_sided_loss(profile: Profile) -> None:
    """[N], in every profile: the window after each reconnect is whole."""
    _, wire, initial, more = two(profile)
    for _ in range(10):
        wire.send(more + 3)
        wire.take(more - 1)
        wire.die()
        assert wire.credit == initial
        assert wire.hop.done == 0


def test_scenario_14_off_switch() -> None:
    for strategy in (
        NONE.strategy(),
        Credit("off", Window(0, 0, "messages"), Window(0, 0, "bytes")),
    ):
        processes = Processes(NONE)
        processes.strategy = strategy
        wire = processes.wire("A", "B")
        wire.send(10_000)
        assert processes.gate("A").is_open
        assert wire.hop.in_flight == 10_000
        wire.take(10_000)
        assert processes.origin.debt_messages == 0
        assert wire.hop.blocks == 0


def test_scenario_15_invalid_spec() -> None:
    with pytest.raises(OperatorError, match="raise initial to 50 or lower more_after"):
        Window(10, 50, "messages")
    with pytest.raises(OperatorError, match="both 0 to switch credit off"):
        Window(0, 50, "messages")


@ALL
def test_scenario_18_state_window(profile: Profile) -> None:
    """`flow` is measured from where the block began [R]; the books have the truth [N]."""
    clock = VirtualClock(tick_ns=0)
    config = Config(profile=profile.name)
    broker = SimulatedBroker(config, clock, Dice(1), Log(), profile)
    queue = ClassicActor("/", "q", False, False, "", {}, broker.scheduler, broker.strategy, 0)
    began_ns = clock.now_ns
    queue.gate.close("store:/", "credit")
    clock.jump(began_ns + 4 * S_NS // 10)
    queue.gate.open("store:/", "credit")
    assert queue.gate.state(began_ns + 5 * S_NS // 10) == "flow"
    assert queue.gate.state(began_ns + 101 * S_NS // 100) == "running"
    began_ns = clock.now_ns
    queue.gate.close("store:/", "credit")
    clock.jump(began_ns + 10 * S_NS)
    assert queue.gate.state(clock.now_ns) == "flow"
    queue.gate.open("store:/", "credit")
    assert queue.gate.state(clock.now_ns + S_NS // 100) == "running"
    books = queue.books().snapshot(clock.now_ns)
    assert books.blocked_ns == 10 * S_NS + 4 * S_NS // 10
    assert books.stops == 2
    assert books.longest_ns == 10 * S_NS


def test_scenario_19_cycle_freezes() -> None:
    """[R]: both have taken everything, each keeps its grants back because the other has not granted
    any, and there is nothing left that could happen."""
    a, b = of_rabbitmq("A", "B", spec=(5, 2))
    for _ in range(5):
        a.send("B")
        b.send("A")
    for _ in range(5):
        a.ack("B")
        b.ack("A")
    assert (a.blockers, b.blockers) == (["B"], ["A"])
    assert (a.deferred, b.deferred) == (["B", "B"], ["A", "A"])
    assert a.window("B") == b.window("A") == 0, "and no message is under way either"


def test_scenario_19_cycle() -> None:
    """[N]: the wiring is refused, in every profile; a cycle cannot come into being."""
    clock = VirtualClock(tick_ns=0)
    a, b = Gate("A", clock, GateObserver()), Gate("B", clock, GateObserver())
    Hop("A", 1, a, "B", 3, b)
    with pytest.raises(OperatorError, match="cannot form a cycle"):
        Hop("B", 3, b, "A", 1, a)
    with pytest.raises(OperatorError, match="cannot form a cycle"):
        Hop("A", 1, a, "A'", 1, a)


@pytest.mark.slow
@ALL
def test_scenario_20_conservation(profile: Profile) -> None:
    """10^5 random steps over five processes: `Wire` checks the sum of a hop at each of its steps,
    all the others follow every hundredth; at quiescence nobody is blocked."""
    dice = Dice(20)
    processes = Processes(profile)
    wires = [
        processes.wire(f"P{first}", f"P{second}", layer=first)
        for first in range(5)
        for second in range(first + 1, 5)
    ]
    for step in range(100_000):
        wire = dice.one_of(wires)
        if dice.happens(48):
            wire.take(min(1, int(wire.hop.in_flight)))
        else:
            wire.send(1)
        if step % 100 == 0:
            for each in wires:
                each.hop.check()
    for wire in reversed(wires):
        wire.take(int(wire.hop.in_flight))
    assert all(gate.is_open for gate in processes.gates.values())
    assert all(not gate.deferred for gate in processes.gates.values())
    assert processes.origin.debt_messages == processes.origin.debt_bytes == 0
