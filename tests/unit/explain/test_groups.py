"""A reader group that holds publishers: named as the root, how far and how long it is behind."""

from penstock.explain.advice import advise
from penstock.explain.blame import Stay, Step
from penstock.explain.explanation import Cause
from penstock.explain.root_causes import name_cause
from penstock.telemetry.words import called
from tests.unit.explain.scene import actor

GROUP = "group:etl@/orders"
NUMBERS = {
    "lag_messages": 2400.0, "lag_messages_max": 2000.0, "lag_bytes": 281_600.0,
    "lag_bytes_max": 0.0, "position": 1200.0, "still_ns": 9_100_000_000.0,
}  # fmt: skip
STAY = Stay(GROUP, 10, (Step("queue:/orders", GROUP, "lag", 10),), False)


def test_the_root_is_the_group_and_says_how_far_behind_it_is() -> None:
    window = actor(GROUP, (0, 0, 0, 0), numbers=NUMBERS)
    assert name_cause(STAY, {GROUP: window}) == (
        "lag",
        "2 400 messages behind of 2 000, 281.6 kB; at offset 1 200 for 9.1 s",
    )
    assert name_cause(STAY, {}) == ("lag", "")
    assert called(GROUP) == "reader group etl of stream /orders"


def test_a_group_that_has_not_moved_for_long_may_be_ended() -> None:
    cause = Cause(GROUP, "lag", "", 10, 1.0, ())
    numbers = dict(NUMBERS)
    assert len(advise(cause, {GROUP: actor(GROUP, (0, 0, 0, 0), numbers=numbers)})) == 1
    numbers["still_ns"] = 61e9
    first, _ = advise(cause, {GROUP: actor(GROUP, (0, 0, 0, 0), numbers=numbers)})
    assert "stream.group.remove" in first
