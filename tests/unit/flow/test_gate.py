"""flow/gate: reasons, observers, deferred grants, the reported state."""

from penstock.base.clock import ManualClock
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Window
from penstock.flow.gate import STATE_WINDOW_NS, Gate, GateObserver
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


def pressing(gate: Gate, name: str, count: int, size: int) -> Hop:
    """A sender whose whole window, of `count` messages of `size`, is kept behind `gate`."""
    hop = Hop(name, 1, Gate(name, gate.clock, GateObserver()), gate.name, 3, gate)
    strategy = Credit("credit", Window(100, 1, "messages"), Window(10_000, 1, "bytes"))
    strategy.is_fair = True
    strategy.wire(hop)
    origin = Account(name, None, None, 0)
    strategy.charge(hop, origin, count, count * size)
    strategy.repay(hop, origin, count, count * size)
    return hop


def test_a_ration_is_shared_out_in_bytes_and_the_gate_closes_on_the_rest() -> None:
    gate, witness, _ = new()
    gate.close("consumers:/q", "depth")
    small, large = pressing(gate, "chan:a/1", 100, 10), pressing(gate, "chan:b/1", 3, 4000)
    assert (small.balance, large.balance_bytes) == (0, -2000)
    assert not gate.ration("consumers:/q", "depth", 400, 100)
    assert not gate.is_open
    assert (small.balance, large.balance_bytes) == (20, -1800)
    assert small.sender_gate.is_open
    assert not large.sender_gate.is_open, "it has had its share for a while"
    small.check()
    large.check()
    assert set(gate.deferred) == {small, large}
    assert [one[0] for one in witness.heard[-2:]] == ["opened", "closed"]


def test_a_ration_that_serves_all_opens_the_gate() -> None:
    gate, _, _ = new()
    gate.close("consumers:/q", "depth")
    small = pressing(gate, "chan:a/1", 100, 10)
    assert gate.ration("consumers:/q", "depth", 5000, 300)
    assert gate.is_open
    assert gate.deferred == []
    assert (small.balance, small.deferred, small.done) == (100, 0, 0)


def test_a_ration_goes_on_where_the_last_one_ended() -> None:
    gate, _, _ = new()
    gate.close("consumers:/q", "depth")
    hops = [pressing(gate, f"chan:{n}/1", 100, 10) for n in range(4)]
    for _ in range(2):
        assert not gate.ration("consumers:/q", "depth", 200, 100)
    assert [int(hop.balance) for hop in hops] == [10, 10, 10, 10]


def test_no_ration_while_somebody_else_holds_the_gate() -> None:
    gate, _, _ = new()
    gate.close("consumers:/q", "depth")
    gate.close("store:/", "credit")
    small = pressing(gate, "chan:a/1", 100, 10)
    assert gate.ration("consumers:/q", "depth", 200, 100), "depth is not what holds it any more"
    assert not gate.is_open
    assert small.balance == 0
    gate.open("store:/", "credit")
    assert small.balance == 100
