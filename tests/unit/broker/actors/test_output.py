"""The output buffer: marks, what is unsent, and what a full buffer stops."""

from penstock.base.wire import BytesWriter
from penstock.broker.actors.output import FULL_FACTOR, OutputLine
from penstock.protocol.content import NO_CAUSE
from penstock.queues.consumers import Unsent
from tests.unit.broker.peer import PeerOutput


class Ears:
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def changed(self, is_open: bool) -> None:
        self.heard.append("open" if is_open else "closed")

    def has_room(self) -> None:
        self.heard.append("room")


def output(high_bytes: int = 100) -> tuple[PeerOutput, Ears]:
    made = PeerOutput(OutputLine(), high_bytes)
    ears = Ears()
    made.changed = ears.changed
    made.has_room = ears.has_room
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
    assert not one.note_answered(NO_CAUSE, 100 * FULL_FACTOR - 1)
    assert one.note_answered(NO_CAUSE, 1)
    one.flush()
    assert one.is_full
    one.room_bytes = 1
    one.flush()
    assert not one.is_full and ears.heard == ["closed", "room"]


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
