"""The books of a queue: nothing acknowledged too early, nothing planned is forgotten."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.spark.connector.queue.ledger import OffsetLedger, fit
from tests.unit.spark.connector.wire import laid_out


class Books(RuleBasedStateMachine):
    """A ledger beside a list of what every position is, across lost connections."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = OffsetLedger()
        self.ledger.begin(5)
        self.bodies: dict[int, bytes] = {}
        self.serial = 0
        self.tag_first = 6

    @rule(count=st.integers(0, 6), size=st.integers(0, 9))
    def deliver(self, count: int, size: int) -> None:
        bodies = [b"%d." % (self.serial + n) + bytes(size) for n in range(count)]
        self.serial += count
        for n, body in enumerate(bodies):
            self.bodies[self.ledger.received + 1 + n] = body
        self.ledger.add(*laid_out(bodies))

    @rule(data=st.data())
    def plan(self, data: st.DataObject) -> None:
        self.ledger.plan(data.draw(st.integers(0, self.ledger.waiting())))

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        before = self.ledger.acknowledged
        position = data.draw(st.integers(before, self.ledger.planned))
        tag = self.ledger.settle(position)
        # A tag of this connection, for exactly the last message that is committed.
        expected = position - self.tag_first + 1 if position > before else 0
        assert tag == max(0, expected)

    @rule()
    def lose(self) -> None:
        self.ledger.lose_connection()
        self.tag_first = self.ledger.planned + 1

    @rule(data=st.data(), parts=st.integers(1, 4))
    @precondition(lambda self: self.ledger.planned > self.ledger.acknowledged)
    def read_again(self, data: st.DataObject, parts: int) -> None:
        ledger = self.ledger
        after = data.draw(st.integers(ledger.acknowledged, ledger.planned - 1))
        until = data.draw(st.integers(after + 1, ledger.planned))
        pieces = ledger.pieces(after, until, parts)
        assert 1 <= len(pieces) <= parts
        assert pieces[0][0] == after + 1
        behind = [first for first, _ in pieces[1:]] + [until + 1]
        for (first, raw), stop in zip(pieces, behind, strict=True):
            assert stop > first
            at = 0
            for number in range(first, stop):
                found = raw.find(self.bodies[number], at)
                assert found >= 0, f"position {number} is not there, or not in order"
                at = found

    @rule(bytes_max=st.integers(1, 500))
    def fit(self, bytes_max: int) -> None:
        rows = self.ledger.rows_in(bytes_max)
        assert rows <= self.ledger.waiting()
        assert (rows >= 1) == (self.ledger.waiting() >= 1)

    @invariant()
    def books_balance(self) -> None:
        ledger = self.ledger
        assert 5 <= ledger.acknowledged <= ledger.planned <= ledger.received
        assert ledger.bytes_held >= 0
        assert ledger.waiting() == ledger.received - ledger.planned


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=60, stateful_step_count=30)


def test_a_batch_of_an_earlier_process_is_empty() -> None:
    assert OffsetLedger().pieces(0, 100, 2) == []
    ledger = OffsetLedger()
    ledger.begin(100)
    assert ledger.pieces(0, 100, 2) == []


def test_everything_is_free_when_everything_is_settled() -> None:
    ledger = OffsetLedger()
    ledger.begin(0)
    ledger.add(*laid_out([b"a", b"b"]))
    ledger.add(*laid_out([b"c"]))
    ledger.plan(3)
    assert ledger.settle(3) == 3
    assert ledger.bytes_held == 0


def test_a_batch_is_bounded_in_rows_and_bytes() -> None:
    ledger = OffsetLedger()
    ledger.begin(0)
    ledger.add(*laid_out([bytes(100)] * 10))
    one = len(laid_out([bytes(100)])[0])
    assert fit(ledger, 4, 0) == 4
    assert fit(ledger, 100, 0) == 10
    assert fit(ledger, 100, 3 * one) == 3
    assert fit(ledger, 100, 1) == 1
    assert fit(ledger, -1, 1) == 0
    ledger.plan(10)
    assert fit(ledger, 100, 5000) == 0
