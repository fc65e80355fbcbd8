"""Settings are found by key, changed whole or not at all, refuse by name, and come back in time."""

import pytest

from penstock.base.errors import OperatorError
from penstock.base.limits import SETTING_REVERTS
from penstock.base.quantities import parse_bytes, show_bytes
from penstock.base.steps import whole
from penstock.broker.settings.settings import Setting, Settings, refused_words
from penstock.telemetry.events import SETTING_CHANGED
from tests.unit.broker.peer import Bed


def size(key: str) -> Setting:
    held = [1024]

    def write(text: str) -> None:
        held[0] = parse_bytes(text)

    return Setting(key, "bytes", "a size", lambda: show_bytes(held[0]), write)


@pytest.fixture
def settings() -> Settings:
    found = Settings()
    found.add(size("b.size"), size("a.size"))
    return found


def test_a_change_tells_before_and_after(settings: Settings) -> None:
    assert settings.write("a.size", "2MiB") == ("1KiB", "2MiB")
    assert [setting.key for setting in settings.all()] == ["a.size", "b.size"]


def test_a_bad_value_changes_nothing(settings: Settings) -> None:
    with pytest.raises(OperatorError, match="'lots' is not a size"):
        settings.write("a.size", "lots")
    assert settings.get("a.size").read() == "1KiB"


def test_an_unknown_key_names_the_known(settings: Settings) -> None:
    with pytest.raises(OperatorError, match=r"unknown setting 'other'; one of: a\.size, b\.size"):
        settings.write("other", "1")
    with pytest.raises(OperatorError, match=r"unknown setting 'a\.siz'; did you mean a\.size"):
        settings.write("a.siz", "1")


def test_several_changes_are_all_made_or_none(settings: Settings) -> None:
    assert settings.write_all([("a.size", "2MiB"), ("b.size", "3MiB")]) == [
        ("a.size", "1KiB", "2MiB"),
        ("b.size", "1KiB", "3MiB"),
    ]
    with pytest.raises(OperatorError, match=r"b\.size=lots: 'lots' is not a size"):
        settings.write_all([("a.size", "4MiB"), ("b.size", "lots")])
    assert [setting.read() for setting in settings.all()] == ["2MiB", "3MiB"]


def test_two_owners_of_one_key_are_a_bug(settings: Settings) -> None:
    with pytest.raises(AssertionError):
        settings.add(size("a.size"))


S = 1_000_000_000
KEY = "rate.connection.messages"


def value(bed: Bed, key: str = KEY) -> str:
    return bed.broker.settings.get(key).read()


def test_a_change_is_recorded_and_logged() -> None:
    bed = Bed()
    (change,) = bed.broker.changes.change([(KEY, "500/s")], 0)
    assert (change.before, change.after) == ("off", "500/s")
    event = bed.broker.recorder.since(0)[-1]
    assert (event.kind, event.actor) == (SETTING_CHANGED, f"setting:{KEY}")
    assert event.reason == "off -> 500/s"
    assert bed.log.lines[-1] == f"setting {KEY}: off -> 500/s"


def test_what_is_taken_over_is_taken_over_each_by_itself() -> None:
    """A virtual host that was deleted since must not keep the others away."""
    bed = Bed()
    wanted = {"account.vhost.high:gone": "1MiB", KEY: "500/s", "rate.burst": "lots"}
    refused = whole(bed.broker.changes.take_over(wanted))
    assert value(bed) == "500/s"
    assert refused == [
        "account.vhost.high:gone=1MiB: there is no virtual host 'gone'",
        "rate.burst=lots: 'lots' is not a duration; write a number with ns, us, ms, s, m, h or d",
    ]


def test_few_of_the_refused_are_shown() -> None:
    said = refused_words([f"k{number}=1" for number in range(7)])
    assert said.endswith("not in force here: k0=1; k1=1; k2=1; k3=1; k4=1; and 2 more")


def test_a_change_for_a_time_is_taken_back() -> None:
    bed = Bed()
    bed.broker.changes.change([(KEY, "500/s")], 10 * S)
    assert bed.broker.changes.reverts_in_ns(KEY) == 10 * S
    bed.later(99 * S // 10)
    assert value(bed) == "500/s"
    bed.later(2 * S // 10)
    assert value(bed) == "off" and bed.broker.changes.reverts_in_ns(KEY) == 0
    assert bed.log.lines[-1] == f"setting {KEY}: 500/s -> off"


def test_a_second_change_for_a_time_moves_the_end_and_not_what_comes_back() -> None:
    bed = Bed()
    bed.broker.changes.change([(KEY, "500/s")], 10 * S)
    bed.later(5 * S)
    bed.broker.changes.change([(KEY, "900/s")], 10 * S)
    bed.later(9 * S)
    assert value(bed) == "900/s"
    bed.later(2 * S)
    assert value(bed) == "off"


def test_a_change_for_good_stays() -> None:
    bed = Bed()
    bed.broker.changes.change([(KEY, "500/s")], 10 * S)
    bed.broker.changes.change([(KEY, "900/s")], 0)
    bed.later(20 * S)
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
    bed.later(11 * S)
    assert value(bed, "rate.user.messages:u1") == "off"
    assert value(bed, "rate.user.messages:u0") == "2/s"
