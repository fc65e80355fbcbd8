"""The last entries of a log: who can be brought from where."""

from penstock.replication.positions import Entry, Position
from penstock.replication.ring import Ring

BASE = Position(1, 4)


def ring(base: Position | None = BASE) -> Ring:
    """Entries 5 and 6 of epoch 1, 7 and 8 of epoch 3, ten bytes each."""
    made = Ring(base)
    for epoch, seq in ((1, 5), (1, 6), (3, 7), (3, 8)):
        made.append(Entry(epoch, seq, bytes(10)))
    return made


def test_it_reaches_its_own_positions_only() -> None:
    made = ring()
    for position in (Position(1, 4), Position(1, 6), Position(3, 8)):
        assert made.reaches(position)
    for position in (Position(1, 3), Position(1, 7), Position(2, 7), Position(3, 9)):
        assert not made.reaches(position)
    assert not ring(None).reaches(Position(1, 4))


def test_entries_behind_a_position_come_in_pieces() -> None:
    made = ring()
    assert [entry.seq for entry in made.behind(4, 25)] == [5, 6]
    assert [entry.seq for entry in made.behind(6, 1)] == [7], "one goes whatever its size"
    assert made.behind(8, 100) == ()
    assert made.behind(3, 100) == (), "a gap"


def test_the_oldest_are_given_up_unless_they_are_needed() -> None:
    made = ring()
    made.trim(20, upto_seq=5)
    assert made.base == Position(1, 5)
    made.trim(20, upto_seq=8)
    assert made.base == Position(1, 6)
    assert made.bytes == 20
    assert made.bytes_between(7, 8) == 10
    assert made.bytes_between(0, 8) == 20, "as far as they are here"
    assert not made.reaches(Position(1, 5))
