"""flow/watchdog: which closed hops are reported, which are mended, and what the line says."""

from penstock.base.clock import ManualClock
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Window
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import Hop
from penstock.flow.watchdog import (
    CHAIN_MAX,
    LOST,
    OPEN,
    STUCK,
    WAITING,
    Watchdog,
    chain_of,
    line_for,
)

T_NS = 60
STRATEGY = Credit("credit", Window(4, 2, "messages"), Window(0, 0, "bytes"))
ORIGIN = Account("conn:a", None, None, 0)


def closed_hop() -> Hop:
    clock = ManualClock()
    sender, receiver = (Gate(name, clock, GateObserver()) for name in ("chan:a/1", "queue:/q"))
    hop = Hop("chan:a/1", 1, sender, "queue:/q", 3, receiver)
    STRATEGY.wire(hop)
    STRATEGY.charge(hop, ORIGIN, 4, 40)
    assert hop.is_closed
    return hop


def looks(dog: Watchdog, hop: Hop, is_asleep: bool, *moments: int) -> list[int]:
    verdicts = []
    for now_ns in moments:
        verdicts.append(dog.look(hop, is_asleep, now_ns))
        dog.end_round()
    return verdicts


def test_a_hop_is_stuck_after_the_time_and_said_once() -> None:
    dog = Watchdog(T_NS)
    moments = (0, 30, 59, 60, 90, 500)
    assert looks(dog, closed_hop(), False, *moments) == [
        WAITING, WAITING, WAITING, STUCK, WAITING, WAITING,
    ]  # fmt: skip
    assert (dog.stuck_count, dog.lost_count) == (1, 0)


def test_progress_of_the_blocker_starts_the_clock_anew() -> None:
    dog, hop = Watchdog(T_NS), closed_hop()
    assert looks(dog, hop, False, 0, 59) == [WAITING, WAITING]
    STRATEGY.repay(hop, ORIGIN, 1, 10)
    assert hop.is_closed, "not a whole quantum yet"
    assert looks(dog, hop, False, 60, 119, 120) == [WAITING, WAITING, STUCK]


def test_after_progress_it_is_said_again() -> None:
    dog, hop = Watchdog(T_NS), closed_hop()
    assert looks(dog, hop, False, 0, 60) == [WAITING, STUCK]
    STRATEGY.repay(hop, ORIGIN, 1, 10)
    assert looks(dog, hop, False, 61, 121) == [WAITING, STUCK]


def test_a_new_life_of_the_receiver_is_progress() -> None:
    dog, hop = Watchdog(T_NS), closed_hop()
    assert looks(dog, hop, False, 0, 59) == [WAITING, WAITING]
    STRATEGY.forget(hop, ORIGIN)
    assert looks(dog, hop, False, 60) == [OPEN]
    STRATEGY.charge(hop, ORIGIN, 4, 40)
    assert looks(dog, hop, False, 61, 120) == [WAITING, WAITING]


def test_a_blocker_that_sleeps_on_nothing_has_lost_a_grant() -> None:
    dog = Watchdog(T_NS)
    assert looks(dog, closed_hop(), True, 0, 59, 60) == [WAITING, WAITING, LOST]
    assert dog.lost_count == 1


def test_a_hop_that_is_not_looked_at_for_a_round_is_forgotten() -> None:
    dog, hop = Watchdog(T_NS), closed_hop()
    dog.look(hop, False, 0)
    dog.end_round()
    dog.end_round()
    assert dog.look(hop, False, 100) == WAITING


def test_the_chain_ends_at_who_is_not_held() -> None:
    holds = {"queue:/q": (("consumers:/q", "depth"),)}
    chain = chain_of("queue:/q", lambda actor: holds.get(actor, ()))
    assert chain == [("queue:/q", "depth"), ("consumers:/q", "")]
    line = line_for(closed_hop(), chain, 60_000_000_000, False)
    assert line.startswith("chan:a/1 -> queue:/q: no credit for 60 s")
    assert "queue:/q (depth) -> consumers:/q; add consumers" in line


def test_a_cycle_is_named() -> None:
    holds = {"a": (("b", "credit"),), "b": (("a", "credit"),)}
    chain = chain_of("a", lambda actor: holds[actor])
    assert "a cycle: a -> b -> a" in line_for(closed_hop(), chain, 0, False)


def test_a_blocker_that_nobody_holds_is_named_itself() -> None:
    line = line_for(closed_hop(), chain_of("queue:/q", lambda actor: ()), 0, False)
    assert "look at queue:/q: it does not finish" in line


def test_a_chain_has_an_end() -> None:
    chain = chain_of("n0", lambda actor: ((f"n{int(actor[1:]) + 1}", "credit"),))
    assert len(chain) == CHAIN_MAX


def test_a_lost_grant_is_called_a_bug_of_ours() -> None:
    line = line_for(closed_hop(), [("queue:/q", "")], 0, True)
    assert "queue:/q has nothing to do and owes 4 messages: a grant was lost" in line
