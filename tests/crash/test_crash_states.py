"""No crash loses what was confirmed, alters a byte, or brings back what was never published.

A sample of the states is looked at in every run of the suite. All of them, a million and more:
PENSTOCK_CRASH_STATES=1000000, or `make crash`.
"""

import os

import pytest

from tests.crash.histories import HISTORIES
from tests.crash.life import Walk
from tests.crash.rig import check_flips

STATES = int(os.environ.get("PENSTOCK_CRASH_STATES", "0"))
"""How many states all histories together are to have at least, 0 for a sample."""
FLIPS = ("fan_out", "large", "compacted", "reused_by_others")


@pytest.mark.parametrize("name", HISTORIES)
def test_a_sample_of_the_states(name: str) -> None:
    walk = Walk(seed=7, random_count=1, second_every=67)
    walk.along(HISTORIES[name](), limit=10)
    assert walk.count > 100, "a history has at least so many states"
    assert walk.lives > 0, "and some of them begin a second life"


@pytest.mark.slow
@pytest.mark.skipif(not STATES, reason="takes minutes: PENSTOCK_CRASH_STATES=1000000, `make crash`")
@pytest.mark.parametrize("name", HISTORIES)
def test_all_states(name: str) -> None:
    wanted = -(-STATES // len(HISTORIES))
    count = 0
    lives = 0
    seed = 0
    while count < wanted:
        seed += 1
        walk = Walk(seed=seed, random_count=40, second_every=23)
        walk.along(HISTORIES[name]())
        count += walk.count
        lives += walk.lives
    print(f"{name}: {count:,} states, {lives:,} second lives")


@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped", "crashed"])
@pytest.mark.parametrize("name", FLIPS)
def test_f11_f12_any_bit_may_flip(name: str, is_stopped: bool) -> None:
    """Reliability F11, F12, F13: damage is found, told, and costs one message."""
    every = 1 if STATES else 61
    assert check_flips(HISTORIES[name](), every, is_stopped) > 200
