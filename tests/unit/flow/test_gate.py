"""flow/gate: reasons, observers, deferred grants, the reported state."""

from penstock.base.clock import ManualClock
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Window
from penstock.flow.gate import STATE_WINDOW_NS, Deferred, Gate, GateObserver
from penstock.flow.hop import Hop


class Witness(GateObserver):
    """Writes down what it hears, and whether the gate was open then."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, str, bool]] = []

    def gate_closed(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        self.heard.append(("closed", peer, reason, gate.is_open))

    def gate_opened(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        self.heard.append(("opened", peer, reason, gate.is_open))

    def grant_deferred(self, gate: Gate, sender: str, messages: int) -> None:
        self.heard.append(("deferred", sender, str(messages), gate.is_open))


def new() -> tuple[Gate, Witness, ManualClock]:
    witness = Witness()
    clock = ManualClock()
    return Gate("chan:a/1", clock, witness), witness, clock


def test_closing_twice_for_one_reason_is_closing_once() -> None:
    gate, witness, _ = new()
    gate.close("q1", "credit")
    gate.close("q1", "credit")
    assert witness.heard == [("closed", "q1", "credit", False)]
    gate.open("q1", "credit")
    assert gate.is_open


def test_opening_for_a_reason_nobody_gave_is_nothing() -> None:
    gate, witness, _ = new()
    gate.open("q1", "credit")
    gate.close("q1", "credit")
    gate.open("q1", "depth")
    gate.open("q2", "credit")
    assert not gate.is_open
    assert len(witness.heard) == 1


def test_two_hops_held_by_one_peer_are_both_waited_for() -> None:
    gate, witness, _ = new()
    gate.hold("store:/", "pending")
    gate.hold("store:/", "pending")
    gate.let_on("store:/", "pending")
    assert not gate.is_open
    gate.let_on("store:/", "pending")
    assert gate.is_open
    assert [what for what, *_ in witness.heard] == ["closed", "opened"]


def test_a_peer_that_is_gone_holds_none_of_them() -> None:
    gate, _, _ = new()
    gate.hold("store:/", "pending")
    gate.hold("store:/", "pending")
    gate.forget("store:/")
    assert gate.is_open
    gate.hold("store:/", "pending")
    gate.let_on("store:/", "pending")
    assert gate.is_open


def held_sender(gate: Gate, name: str, witness: Witness, clock: ManualClock) -> Gate:
    """A sender that waits for the one grant which `gate` keeps for it."""
    sender = Gate(name, clock, witness)
    hop = Hop(name, 0, sender, gate.name, 1, gate)
    hop.set_window(1, 1, 0, 0)
    strategy = Credit("credit", Window(1, 1, "messages"), Window(0, 0, "bytes"))
    strategy.charge(hop, Account(name, None, None, 0), 1, 0)
    hop.in_flight, hop.done = 0, 1
    hop.grant_due()
    return sender


def test_the_last_reason_opens_and_is_on_record_before_grants_go_out() -> None:
    """Grants open further gates upstream, whose records have to come after this one."""
    gate, witness, clock = new()
    gate.close("q1", "credit")
    gate.close("q2", "credit")
    first = held_sender(gate, "conn:a", witness, clock)
    second = held_sender(gate, "conn:b", witness, clock)
    assert ("deferred", "conn:a", "1", False) in witness.heard
    gate.open("q1", "credit")
    assert not first.is_open
    gate.open("q2", "credit")
    assert first.is_open
    assert second.is_open
    assert witness.heard[-3:] == [
        ("opened", "q2", "credit", True),
        ("opened", "chan:a/1", "credit", True),
        ("opened", "chan:a/1", "credit", True),
    ]
    assert gate.deferred == []


def test_a_peer_that_is_gone_takes_its_reasons_along() -> None:
    gate, _, _ = new()
    gate.close("q1", "credit")
    gate.close("q1", "depth")
    gate.close("q2", "credit")
    gate.forget("q1")
    assert [(peer, reason) for peer, reason, _ in gate.snapshot()] == [("q2", "credit")]


def test_a_snapshot_says_since_when() -> None:
    gate, _, clock = new()
    clock.advance(5)
    since_ns = clock.monotonic_ns()
    gate.close("q1", "credit")
    clock.advance(7)
    assert gate.snapshot() == (("q1", "credit", since_ns),)


def test_flow_is_reported_until_a_second_after_the_block_began() -> None:
    gate, _, clock = new()
    assert gate.state(clock.monotonic_ns()) == "running"
    gate.close("q1", "credit")
    began_ns = clock.monotonic_ns()
    gate.open("q1", "credit")
    assert gate.state(began_ns + STATE_WINDOW_NS - 1) == "flow"
    assert gate.state(began_ns + STATE_WINDOW_NS) == "running"


class Kept(Deferred):
    """What waits behind a gate."""

    def __init__(self) -> None:
        self.is_released = False

    def release(self) -> None:
        self.is_released = True


def test_a_reason_under_which_grants_go_on_keeps_nothing_by_itself() -> None:
    gate, _, _ = new()
    gate.grants_under = "depth"
    gate.close("consumers:/q", "depth")
    assert not gate.is_open and gate.is_granting
    gate.close("store:/", "credit")
    assert not gate.is_granting
    kept = Kept()
    gate.defer(kept, "chan:a/1", 1)
    gate.open("store:/", "credit")
    assert kept.is_released and gate.is_granting and not gate.is_open
    gate.open("consumers:/q", "depth")
    assert gate.is_open and gate.is_granting
