"""The output buffer: marks, what is unsent, and what a full buffer stops."""

from penstock.base.limits import SOCKET_ANSWERS_BYTES
from penstock.base.wire import BytesWriter
from penstock.broker.actors.output import (
    FULL_FACTOR,
    OutputLine,
    OutputOwner,
)
from penstock.flow.account import Account
from penstock.protocol.content import NO_CAUSE
from penstock.queues.consumers import Unsent
from tests.unit.broker.peer import PeerOutput


class Ears(OutputOwner):
    """Writes down what it hears."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def output_changed(self, is_open: bool) -> None:
        self.heard.append("open" if is_open else "closed")

    def output_filled(self, is_full: bool) -> None:
        self.heard.append("full" if is_full else "room")


def output(high_bytes: int = 100) -> tuple[PeerOutput, Ears]:
    made = PeerOutput(OutputLine(), high_bytes)
    ears = Ears()
    made.owner = ears
    return made, ears


def test_an_output_is_flushed_once_a_turn() -> None:
    one, _ = output()
    one.writer.write(b"a")
    one.mark()
    one.mark()
    assert one.line.dirty == [one]
    one.line.flush_all()
    assert bytes(one.sent) == b"a" and not one.is_dirty and one.line.dirty == []


def test_deliveries_are_unsent_until_the_socket_has_taken_all() -> None:
    one, ears = output()
    unsent = Unsent(200)
    unsent.count = 3
    one.note_unsent(unsent)
    one.note_unsent(unsent)
    one.room_bytes = 1
    one.writer.write(b"ab")
    one.flush()
    assert unsent.count == 3 and ears.heard == []
    one.room_bytes = -1
    one.flush()
    assert unsent.count == 0 and ears.heard == [] and not unsent.is_listed


def test_more_may_be_unsent_while_the_socket_takes_all_at_once() -> None:
    one, _ = output()
    unsent = Unsent(200, 1000)
    for limit in (200, 400, 800, 1000, 1000):
        assert unsent.limit == limit
        unsent.count = limit
        one.note_unsent(unsent)
        one.writer.write(b"a")
        one.flush()
        assert unsent.count == 0
    unsent.count = 999
    one.note_unsent(unsent)
    one.flush()
    assert unsent.limit == 1000, "it was not reached"
    unsent.count = 300
    one.note_unsent(unsent)
    one.room_bytes = 1
    one.writer.write(b"ab")
    one.flush()
    assert unsent.limit == 200 and unsent.is_stuck and unsent.count == 300
    one.room_bytes = -1
    one.flush()
    assert unsent.limit == 400 and not unsent.is_stuck and unsent.count == 0


def test_a_limit_without_a_higher_one_stays() -> None:
    unsent = Unsent(200)
    unsent.count = 200
    assert unsent.taken() and unsent.limit == 200


def test_the_high_mark_closes_between_two_sends() -> None:
    one, ears = output(100)
    one.note_delivered(NO_CAUSE, 60)
    assert ears.heard == []
    one.note_delivered(NO_CAUSE, 60)
    one.note_delivered(NO_CAUSE, 60)
    assert ears.heard == ["closed"] and not one.is_open
    one.flush()
    assert ears.heard == ["closed", "open"]


def test_a_socket_that_takes_nothing_keeps_it_closed() -> None:
    one, ears = output(100)
    one.room_bytes = 0
    one.writer.write(b"x" * 150)
    one.flush()
    assert ears.heard == ["closed"]
    one.room_bytes = 51
    one.flush()
    assert ears.heard == ["closed", "open"]


def test_a_full_buffer_is_told_of_when_it_has_room_again() -> None:
    one, ears = output(100)
    one.room_bytes = 0
    one.writer.write(b"x" * 100 * FULL_FACTOR)
    one.note_answered(NO_CAUSE, 100 * FULL_FACTOR - 1)
    assert not one.is_full and ears.heard == []
    one.note_answered(NO_CAUSE, 1)
    assert one.is_full and ears.heard == ["full"]
    one.flush()
    assert one.is_full
    one.room_bytes = 1
    one.flush()
    assert not one.is_full and ears.heard == ["full", "closed", "room"]


def test_a_buffer_that_is_not_used_gives_its_memory_back() -> None:
    one, _ = output()
    first: BytesWriter = one.writer
    one.writer.write(b"x" * 100_000)
    one.flush()
    one.rest()
    assert one.writer is first, "it was used in this period"
    one.rest()
    assert one.writer is not first
    one.writer.write(b"y")
    one.rest()
    one.rest()
    one.flush()
    assert bytes(one.sent[-2:]) == b"xy"


def write(owed: PeerOutput, origin: Account, sizes: list[int]) -> None:
    """Deliveries, which the socket has yet to take."""
    for size in sizes:
        owed.writer.write(b"x" * size)
        owed.note_delivered(origin, size)


def page(name: str) -> Account:
    return Account(name, None, None, 0)


def test_deliveries_of_one_cause_in_a_row_are_charged_once_and_together() -> None:
    line = OutputLine()
    owed = PeerOutput(line, 1000)
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
    assert owed.debt_by_origin() == {p: (3, 31), q: (1, 5)}
    assert line.indebted == [] and not owed.is_indebted
    line.charge_all()
    assert p.debt_messages == 3


def test_a_run_is_repaid_when_what_came_after_it_is_all_that_can_wait() -> None:
    line = OutputLine()
    owed = PeerOutput(line, 1000)
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
    owed = PeerOutput(line, 1000)
    p = page("conn:p")
    write(owed, p, [10])
    line.charge_all()
    write(owed, p, [10])
    owed.close()
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
    one.note_answered(p, 70)
    assert not one.is_full
    assert (p.debt_messages, p.debt_bytes) == (1, 70)
    one.writer = BytesWriter()
    one.close()
    assert p.owes_nothing()


def test_answers_that_nobody_takes_have_a_bound() -> None:
    """Confirms, and whatever a client asks for and does not read; deliveries have one of theirs."""
    one, ears = output(100)
    one.room_bytes = 0
    one.writer.write(b"x" * (SOCKET_ANSWERS_BYTES.default - 1))
    one.flush()
    assert not one.is_full
    one.writer.write(b"d" * 50)
    one.note_delivered(page("conn:p"), 50)
    one.line.charge_all()
    one.flush()
    assert not one.is_full
    one.writer.write(b"x")
    one.flush()
    assert one.is_full and ears.heard == ["closed", "full"]
    one.room_bytes = SOCKET_ANSWERS_BYTES.default
    one.flush()
    assert not one.is_full and ears.heard == ["closed", "full", "open", "room"]
