"""Changes of settings: recorded, logged, taken back by themselves, bounded."""

import pytest

from penstock.base.errors import OperatorError
from penstock.base.limits import SETTING_REVERTS
from penstock.telemetry.events import SETTING_CHANGED
from tests.unit.broker.peer import Bed

S = 1_000_000_000
KEY = "rate.connection.messages"


def value(bed: Bed, key: str = KEY) -> str:
    return bed.broker.settings.get(key).read()


def later(bed: Bed, seconds: float) -> None:
    bed.clock.advance(round(seconds * S))
    bed.broker.dues.fire(bed.clock.monotonic_ns())


def test_a_change_is_recorded_and_logged() -> None:
    bed = Bed()
    (change,) = bed.broker.changes.change([(KEY, "500/s")], 0)
    assert (change.before, change.after) == ("off", "500/s")
    event = bed.broker.recorder.since(0)[-1]
    assert (event.kind, event.actor) == (SETTING_CHANGED, f"setting:{KEY}")
    assert event.reason == "off -> 500/s"
    assert bed.log.lines[-1] == f"setting {KEY}: off -> 500/s"


def test_a_change_for_a_time_is_taken_back() -> None:
    bed = Bed()
    bed.broker.changes.change([(KEY, "500/s")], 10 * S)
    assert bed.broker.changes.reverts_in_ns(KEY) == 10 * S
    later(bed, 9.9)
    assert value(bed) == "500/s"
    later(bed, 0.2)
    assert value(bed) == "off" and bed.broker.changes.reverts_in_ns(KEY) == 0
    assert bed.log.lines[-1] == f"setting {KEY}: 500/s -> off"


def test_a_second_change_for_a_time_moves_the_end_and_not_what_comes_back() -> None:
    bed = Bed()
    bed.broker.changes.change([(KEY, "500/s")], 10 * S)
    later(bed, 5)
    bed.broker.changes.change([(KEY, "900/s")], 10 * S)
    later(bed, 9)
    assert value(bed) == "900/s"
    later(bed, 2)
    assert value(bed) == "off"


def test_a_change_for_good_stays() -> None:
    bed = Bed()
    bed.broker.changes.change([(KEY, "500/s")], 10 * S)
    bed.broker.changes.change([(KEY, "900/s")], 0)
    later(bed, 20)
    assert value(bed) == "900/s" and len(bed.broker.dues) == 0


def test_of_several_changes_all_are_made_or_none() -> None:
    bed = Bed()
    before = bed.broker.recorder.next_seq
    with pytest.raises(OperatorError, match="unknown setting 'nope'"):
        bed.broker.changes.change([(KEY, "500/s"), ("nope", "1")], 10 * S)
    assert value(bed) == "off" and len(bed.broker.dues) == 0
    assert bed.broker.recorder.next_seq == before


def test_bad_wishes_are_refused() -> None:
    bed = Bed()
    with pytest.raises(OperatorError, match="given twice"):
        bed.broker.changes.change([(KEY, "1/s"), (KEY, "2/s")], 0)
    with pytest.raises(OperatorError, match="at most 168h"):
        bed.broker.changes.change([(KEY, "1/s")], 8 * 24 * 3600 * S)
    assert value(bed) == "off"


def test_changes_that_wait_to_be_taken_back_are_bounded() -> None:
    bed = Bed()
    for number in range(SETTING_REVERTS.default):
        bed.broker.changes.change([(f"rate.user.messages:u{number}", "1/s")], 10 * S)
    with pytest.raises(OperatorError, match=f"limit of {SETTING_REVERTS.default}"):
        bed.broker.changes.change([(KEY, "1/s")], 10 * S)
    bed.broker.changes.change([("rate.user.messages:u0", "2/s")], 20 * S)
    later(bed, 11)
    assert value(bed, "rate.user.messages:u1") == "off"
    assert value(bed, "rate.user.messages:u0") == "2/s"
