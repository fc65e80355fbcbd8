"""The middle of a line in a log that it shares with others: positions, pieces, who pays."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.flow.account import Account
from penstock.queues.delta import PIECE_BYTES, PLACES_BYTES, PLACES_BYTES_MAX, Delta
from penstock.queues.places import Places
from penstock.storage.layout.index import QueueIndex

GAPS = st.sampled_from((1, 1, 1, 2, 3, 100, 127, 128, 129, 20_000, 1 << 40))
STEPS = st.lists(st.tuples(st.sampled_from(("append", "append", "prepend", "take")), GAPS))
START = 1 << 50


@given(STEPS)
def test_as_a_list(steps: list[tuple[str, int]]) -> None:
    places = Places(START)
    twin = [START]
    for step, gap in steps:
        if step == "append":
            twin.append(twin[-1] + gap)
            places.append(twin[-1])
        elif step == "prepend":
            twin.insert(0, twin[0] - gap)
            places.prepend(twin[0])
        elif len(twin) > 1:
            twin.pop(0)
            places.take()
        assert (places.first, places.last) == (twin[0], twin[-1])
        assert places.next_ones(len(twin)) == twin
        assert places.next_ones(3) == twin[:3]
        runs = places.runs(len(twin))
        assert [one for first, last in runs for one in range(first, last + 1)] == twin
        assert all(last + 1 < after[0] for (_, last), after in pairwise(runs))


def test_what_is_in_a_row_takes_no_bytes_and_what_alternates_two() -> None:
    places = Places(1)
    for position in range(2, 1000):
        places.append(position)
    assert len(places.data) == 0
    for position in range(1001, 3001, 2):
        places.append(position)
    assert len(places.data) == 2 * 999


def test_only_its_own_positions_are_in_a_piece_and_they_are_paid_for() -> None:
    account = Account("conn:a", None, None, 0)
    delta = Delta(True)
    index = QueueIndex(1)
    for position in range(1, 1001, 2):
        delta.append(index, position, 10, account)
    assert len(delta.pieces) == 1 and delta.count == 500 and delta.bytes == 5000
    assert account.stored_bytes == delta.ram_bytes > PIECE_BYTES + PLACES_BYTES
    piece = delta.pieces[0]
    assert piece.chosen(3) == [1, 3, 5]
    assert delta.stretches() == [(index, one, one) for one in range(1, 1001, 2)]
    found = []
    while delta.count > 0:
        found.append(int(delta.first_position()))
        delta.take_first(found[-1], 10)
    assert found == list(range(1, 1001, 2))
    assert account.stored_bytes == delta.ram_bytes == 0


def test_what_leaves_memory_again_stands_before_the_others() -> None:
    account = Account("conn:a", None, None, 0)
    delta = Delta(True)
    index = QueueIndex(1)
    for position in (50, 60, 70):
        delta.append(index, position, 10, account)
    for position in (49, 30, 20):
        delta.prepend(index, position, 10, account)
    assert len(delta.pieces) == 1
    assert delta.pieces[0].chosen(9) == [20, 30, 49, 50, 60, 70]
    delta.append(index, 5, 10, account)
    assert [piece.chosen(9) for piece in delta.pieces][1] == [5], "which was saved out of order"
    delta.clear()
    assert account.stored_bytes == delta.ram_bytes == 0


def test_a_piece_has_a_bound() -> None:
    account = Account("conn:a", None, None, 0)
    delta = Delta(True)
    index = QueueIndex(1)
    for position in range(1, 4 * PLACES_BYTES_MAX, 2):
        delta.append(index, position, 10, account)
    assert len(delta.pieces) == 4
    assert account.stored_bytes == delta.ram_bytes
    assert delta.ram_bytes <= 4 * (PIECE_BYTES + PLACES_BYTES + PLACES_BYTES_MAX + 4)
