"""Properties 1-7 and 13 of flow-semantics 18: hops, gates and accounts under every strategy.

Random interleavings on random acyclic graphs, see flow_machine; after every step the books are
compared with a naive twin that only counts. Whole actors: test_flow_properties_actors.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.clock import ManualClock
from penstock.flow.account import Account
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import Hop
from penstock.flow.profile import PROFILES, Profile
from tests.property.flow_machine import Machine, Step, graphs, is_spent, small_profiles, steps

Pairs = set[tuple[int, int]]
PROFILE_NAMES = sorted(PROFILES)


@pytest.mark.parametrize("name", PROFILE_NAMES)
@given(data=st.data(), pairs=graphs, script=steps)
def test_property_01_conservation(
    name: str, data: st.DataObject, pairs: Pairs, script: list[Step]
) -> None:
    """window = balance + in flight + done + deferred, whatever happens in which order."""
    machine = Machine(data.draw(small_profiles(name)), pairs)
    for step in script:
        machine.do(step)
        for hop, twin in zip(machine.hops, machine.twins, strict=True):
            hop.check()
            assert hop.in_flight == len(twin.costs)
            assert hop.in_flight_bytes == sum(twin.costs)
            assert hop.window == 0 or hop.done < hop.more_after, "grants are not put off"


@given(small_profiles(), graphs, steps)
def test_property_02_an_obedient_sender_stays_within_its_window(
    profile: Profile, pairs: Pairs, script: list[Step]
) -> None:
    """In bytes one message may cross the line; a narrowed window is one from the next send on."""
    machine = Machine(profile, pairs)
    for step in script:
        machine.do(step)
        for hop, twin in zip(machine.hops, machine.twins, strict=True):
            if hop.sender == "n0" and hop.window > 0:
                assert hop.in_flight <= twin.widest


@given(small_profiles(), graphs, steps)
def test_property_03_no_lost_wake_up(profile: Profile, pairs: Pairs, script: list[Step]) -> None:
    """When everything is taken and nobody has a reason of his own, every gate is open."""
    machine = Machine(profile, pairs)
    for step in script:
        machine.do(step)
        for gate in machine.gates:
            assert not gate.is_open or not gate.deferred, "an open gate keeps nothing"
        for hop in machine.hops:
            keeps = hop.deferred > 0 or hop.deferred_bytes > 0
            assert not keeps or hop in hop.receiver_gate.deferred, "kept by nobody"
    machine.rest()
    assert [gate.snapshot() for gate in machine.gates if not gate.is_open] == []


@given(small_profiles(), graphs, steps, st.integers(1, 5))
def test_property_04_no_phantom_credit(
    profile: Profile, pairs: Pairs, script: list[Step], deaths: int
) -> None:
    """After any number of deaths a hop has its window and no more, and a late grant is ignored."""
    machine = Machine(profile, pairs)
    for step in script:
        machine.do(step)
    for _ in range(deaths):
        for at, hop in enumerate(machine.hops):
            life = int(hop.epoch)
            machine.forget(at)
            assert hop.balance == hop.window
            assert hop.balance_bytes == hop.window_bytes
            assert hop.deferred == hop.done == hop.in_flight == 0
            hop.grant(7, 700, life)
            assert hop.balance == hop.window
    machine.rest()
    for hop in machine.hops:
        assert hop.balance + hop.done == hop.window or hop.window == 0


@given(small_profiles(), graphs, steps)
def test_property_05_an_account_owes_what_is_under_way(
    profile: Profile, pairs: Pairs, script: list[Step]
) -> None:
    """Sum of live costs = debt, page by page and for the whole ledger; zero at rest."""
    machine = Machine(profile, pairs)
    for step in script:
        machine.do(step)
        owed = {account.name: [0, 0] for account in machine.accounts}
        for at, twin in enumerate(machine.twins):
            page = owed[machine.origin(at).name]
            page[0] += len(twin.costs)
            page[1] += sum(twin.costs)
        for account in machine.accounts:
            assert [account.debt_messages, account.debt_bytes] == owed[account.name]
        assert machine.node.total_messages() == sum(page[0] for page in owed.values())
        assert machine.node.total_bytes() == sum(page[1] for page in owed.values())
    machine.rest()
    assert machine.node.total_messages() == machine.node.total_bytes() == 0


@given(small_profiles(), st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_property_06_children_are_charged_before_their_parent_is_repaid(
    profile: Profile, widths: list[int]
) -> None:
    """A fan-out, node by node: the debt is never zero before the last leaf is done."""
    strategy = profile.strategy()
    clock = ManualClock()
    account = Account("conn:a", None, None, 0)
    gate = Gate("anybody", clock, GateObserver())
    seen: list[int] = []

    def hop_of(layer: int) -> Hop:
        hop = Hop(
            "anybody", layer, gate, "anybody else", layer + 1, Gate("x", clock, GateObserver())
        )
        strategy.wire(hop)
        return hop

    first = hop_of(0)
    strategy.charge(first, account, 1, 10)
    waiting = [first]
    for layer, width in enumerate([*widths, *[0] * sum(widths)]):
        if not waiting:
            break
        parent = waiting.pop(0)
        for _ in range(width):
            child = hop_of(layer + 1)
            strategy.charge(child, account, 1, 10)
            seen.append(int(account.debt_messages))
            waiting.append(child)
        strategy.repay(parent, account, 1, 10)
        seen.append(int(account.debt_messages))
    assert seen.pop() == 0
    assert 0 not in seen


@given(small_profiles(), graphs, steps)
def test_property_07_levels_and_not_edges(
    profile: Profile, pairs: Pairs, script: list[Step]
) -> None:
    """A hop is closed exactly while its balance is spent, a gate exactly while it has reasons."""
    machine = Machine(profile, pairs)
    for step in script:
        machine.do(step)
        for hop in machine.hops:
            assert hop.is_closed == is_spent(hop)
            assert hop.is_closed == ((hop.receiver, "credit") in hop.sender_gate.reasons)
        for gate in machine.gates:
            assert gate.is_open == (not gate.reasons)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=60))
def test_property_07_a_gate_is_open_exactly_while_nobody_gives_a_reason(
    script: list[tuple[int, int, bool]],
) -> None:
    gate = Gate("n0", ManualClock(), GateObserver())
    twin: set[tuple[str, str]] = set()
    for peer, reason, is_closing in script:
        key = (f"peer{peer}", f"reason{reason}")
        if is_closing:
            gate.close(*key)
            twin.add(key)
        else:
            gate.open(*key)
            twin.discard(key)
        assert gate.is_open == (not twin)
        assert {(one, why) for one, why, _ in gate.snapshot()} == twin
    for peer in range(3):
        gate.forget(f"peer{peer}")
    assert gate.is_open


@given(
    st.integers(1, 200),
    st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=80),
)
def test_property_13_an_account_holds_between_its_marks_only(
    high: int, script: list[tuple[int, bool]]
) -> None:
    """Held above `high`, free at half of it, unchanged in between."""
    gate = Gate("conn:a", ManualClock(), GateObserver())
    account = Account("conn:a", None, gate, high)
    owed: list[int] = []
    is_held = False
    for cost, is_charge in script:
        if is_charge:
            owed.append(cost)
            account.charge(1, cost)
        elif owed:
            account.repay(1, owed.pop())
        debt = sum(owed)
        is_held = debt > high or (is_held and debt > high // 2)
        assert (account.debt_messages, account.debt_bytes) == (len(owed), debt)
        assert account.is_held == is_held == (not gate.is_open)
