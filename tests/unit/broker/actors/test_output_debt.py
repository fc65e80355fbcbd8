"""The debt of an output: who pays for what waits in it, and until when."""

from penstock.base.wire import BytesWriter
from penstock.broker.actors.output import OutputDebt, OutputLine
from penstock.flow.account import Account
from tests.unit.broker.peer import PeerOutput


def write(owed: OutputDebt, origin: Account, sizes: list[int]) -> None:
    """Deliveries as an output writes them."""
    for size in sizes:
        if origin is not owed.origin:
            owed.begin(origin)
        owed.messages += 1
        owed.bytes_ += size


def page(name: str) -> Account:
    return Account(name, None, None, 0)


def test_deliveries_of_one_cause_in_a_row_are_charged_once_and_together() -> None:
    line = OutputLine()
    owed = OutputDebt(line)
    p, q = page("conn:p"), page("conn:q")
    write(owed, p, [10, 20])
    assert p.debt_messages == 0, "within the turn nothing is charged yet"
    write(owed, q, [5])
    write(owed, p, [1])
    line.charge_all()
    assert [(run.origin.name, run.messages, run.bytes_) for run in owed.runs] == [
        ("conn:p", 2, 30),
        ("conn:q", 1, 5),
        ("conn:p", 1, 1),
    ]
    assert (p.debt_messages, p.debt_bytes, q.debt_bytes) == (3, 31, 5)
    assert owed.by_origin() == {p: (3, 31), q: (1, 5)}
    assert line.indebted == [] and not owed.is_listed
    line.charge_all()
    assert p.debt_messages == 3


def test_a_run_is_repaid_when_what_came_after_it_is_all_that_can_wait() -> None:
    line = OutputLine()
    owed = OutputDebt(line)
    p = page("conn:p")
    for _ in range(4):
        write(owed, p, [10])
        line.charge_all()
    owed.repay_down_to(45)
    assert p.debt_bytes == 40
    owed.repay_down_to(21)
    assert p.debt_bytes == 30 == owed.charged_bytes, "one is gone for certain, the next in part"
    owed.repay_down_to(20)
    assert (p.debt_messages, p.debt_bytes) == (2, 20)
    owed.repay_down_to(0)
    assert p.owes_nothing() and owed.runs == [] and owed.charged_bytes == 0


def test_the_end_of_a_socket_repays_everything() -> None:
    line = OutputLine()
    owed = OutputDebt(line)
    p = page("conn:p")
    write(owed, p, [10])
    line.charge_all()
    write(owed, p, [10])
    owed.repay_all()
    assert p.owes_nothing()
    line.charge_all()
    assert p.owes_nothing(), "what was not charged yet is not charged any more"


def test_an_output_repays_what_its_socket_takes_and_not_what_is_written_since() -> None:
    one = PeerOutput(OutputLine(), 1000)
    p = page("conn:p")
    one.room_bytes = 0
    one.writer.write(b"a" * 100)
    one.note_delivered(p, 100)
    one.line.charge_all()
    one.flush()
    assert p.debt_bytes == 100
    one.writer.write(b"b" * 50)
    one.note_delivered(p, 50)
    one.line.charge_all()
    one.held_bytes = 0
    one.settle()
    assert p.debt_bytes == 50, "the first has gone, the second is in the buffer"
    one.room_bytes = -1
    one.flush()
    assert p.owes_nothing()


def test_an_answer_with_content_is_charged_at_once() -> None:
    one = PeerOutput(OutputLine(), 1000)
    p = page("conn:p")
    assert not one.note_answered(p, 70)
    assert (p.debt_messages, p.debt_bytes) == (1, 70)
    one.writer = BytesWriter()
    one.close()
    assert p.owes_nothing()
