"""The crash states are worth what they find: each planted bug is found by them."""

import pytest

from penstock.storage.log import log
from penstock.storage.log.roster import Roster
from tests.crash.histories import HISTORIES
from tests.crash.life import Walk
from tests.crash.planted import FLIPPED, PLANTED, SECOND_LIFE
from tests.crash.rig import check_flips
from tests.crash.test_roster import false_words
from tests.crash.test_stream_crash_states import HISTORIES as STREAMS

LEFT_OPEN = "ends at the first hole"
"""Shows only where segments are scanned."""

# A patch of a compiled module is not seen by its neighbours.
pytestmark = pytest.mark.skipif(
    not str(log.__file__).endswith(".py"), reason="bugs are planted in interpreted modules"
)


def test_the_list_is_long_enough() -> None:
    assert len(PLANTED | FLIPPED) >= 12


@pytest.mark.parametrize("name", PLANTED)
def test_it_is_found_by_crash_states(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, history = PLANTED[name]
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="after operation"):
        walk = Walk(seed=3, random_count=4, second_every=5 if name in SECOND_LIFE else 0)
        walk.along(HISTORIES[history](), limit=100 if history == "grouped" else 40)


@pytest.mark.parametrize("name", FLIPPED)
def test_it_is_found_by_flipped_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, history = FLIPPED[name]
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=r"bit [0-9]+ of"):
        check_flips(HISTORIES[history](), every=29, is_stopped=name != LEFT_OPEN)


def test_a_roster_that_forgets_what_goes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Roster, "drop", lambda self, one, two: None)
    assert false_words(HISTORIES["one_queue"]().disk)[1]
    assert false_words(STREAMS["one"]().disk)[1]
