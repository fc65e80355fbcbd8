"""flow/pending: the soft limit of publishes that a replicated queue has not applied."""

from penstock.base.clock import ManualClock
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Window
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import HELD_RATE, Hop
from penstock.flow.pending import Commands, SoftLimit

ORIGIN = Account("conn:a", None, None, 0)
STORE = "store:/"


class Sender:
    """A channel's hop to a replicated queue, with credit for `window` messages."""

    def __init__(self, limit: int, window: int = 100) -> None:
        clock = ManualClock()
        gates = (Gate(name, clock, GateObserver()) for name in ("chan:a/1", "queue:/q"))
        sender, receiver = gates
        self.strategy = Credit("credit", Window(window, 1, "messages"), Window(0, 0, "bytes"))
        self.hop = Hop("chan:a/1", 1, sender, "queue:/q", 3, receiver)
        self.strategy.wire(self.hop)
        self.rule = SoftLimit(limit)
        self.commands = Commands(self.hop, STORE, self.rule)

    def hand(self, count: int) -> "Sender":
        for _ in range(count):
            self.strategy.charge(self.hop, ORIGIN, 1, 10)
            self.commands.handed()
        return self

    def take(self, count: int) -> None:
        """As a queue does in its turn."""
        self.commands.took(count)
        self.strategy.repay(self.hop, ORIGIN, count, 10 * count)
        self.commands.settled()

    def held(self) -> set[tuple[str, str]]:
        return set(self.hop.sender_gate.reasons)


PENDING = {(STORE, "pending")}


def test_the_one_above_the_limit_holds_and_one_below_it_lets_go() -> None:
    sender = Sender(3).hand(3)
    assert sender.held() == set()
    assert sender.hand(2).held() == PENDING and sender.hop.is_closed
    sender.take(5)
    assert sender.held() == PENDING, "what is taken is not safe yet"
    is_open = []
    for _ in range(5):
        sender.commands.applied(1)
        is_open.append(not sender.hop.is_closed)
    assert is_open == [False, False, True, True, True]
    assert sender.commands.pending() == 0


def test_what_does_not_have_to_be_safe_is_over_when_it_is_repaid() -> None:
    """Refused, or a message that died on its way."""
    sender = Sender(1).hand(2)
    assert sender.held() == PENDING
    sender.strategy.repay(sender.hop, ORIGIN, 2, 20)
    sender.commands.settled()
    assert sender.held() == set()


def test_credit_and_a_rate_hold_apart_from_it() -> None:
    sender = Sender(1, window=2).hand(2)
    assert sender.held() == PENDING | {("queue:/q", "credit")}
    sender.hop.hold(HELD_RATE, "rate:/q")
    sender.take(2)
    assert sender.held() == PENDING | {("rate:/q", "rate")}
    sender.commands.applied(2)
    assert sender.held() == {("rate:/q", "rate")} and sender.hop.is_closed
    sender.hop.let_on(HELD_RATE, "rate:/q")
    assert sender.held() == set() and not sender.hop.is_closed


def test_whoever_is_gone_is_not_held_and_is_not_held_again() -> None:
    sender = Sender(1).hand(3)
    sender.take(2)
    sender.commands.ended()
    assert sender.held() == set()
    sender.hand(1)
    assert sender.held() == set()
    sender.commands.applied(2)
    assert sender.commands.pending() == 2


def test_without_a_limit_nobody_is_held_and_a_larger_one_lets_go() -> None:
    sender = Sender(0).hand(50)
    assert sender.held() == set()
    sender.rule.limit = 10
    assert sender.hand(1).held() == PENDING
    sender.rule.limit = 0
    sender.take(1)
    assert sender.held() == set()
