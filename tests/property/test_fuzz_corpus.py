"""What guided fuzzing has found worth keeping is run again, and new random inputs beside it."""

from random import Random

import pytest

from fuzz.corpus import kept_in, path_of
from fuzz.targets import TARGETS, Choices, try_log
from penstock.storage.recovery.old_segment import OldSegment

FRESH = 150


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_found_once_and_what_nobody_has_tried(name: str) -> None:
    kept = kept_in(path_of(name))
    assert len(kept) >= 20, "fuzz/guided.py --keep writes them"
    dice = Random(len(kept))
    for data in kept + [dice.randbytes(dice.randrange(1, 200)) for _ in range(FRESH)]:
        TARGETS[name](data)


def test_a_start_that_fails_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery that does not look whether a file is long enough for what it was told."""

    def careless(one: OldSegment, *_: object) -> bool:
        return one.directory.open(one.names[0]).size() < 64 and bool(1 // 0)

    monkeypatch.setattr(OldSegment, "read", careless)
    with pytest.raises(ZeroDivisionError):
        for data in kept_in(path_of("log")):
            try_log(data)


def test_a_decision_means_the_same_ever_after() -> None:
    choices = Choices(bytes.fromhex("0300010100"))
    assert [choices.below(4), choices.below(300), choices.below(2)] == [3, 1, 1]
    assert not choices.is_over() and choices.take(9) == b"\x00" and choices.is_over()
    assert choices.below(7) == 0
