"""What is committed, and who leads, as plain functions of configurations and promises."""

import pytest

from penstock.replication.config import (
    ALL,
    ELECTING,
    MAJORITY,
    ClusterConfig,
    Promise,
    agreed_seq,
    chosen_leader,
)
from penstock.replication.positions import Position


def config(
    names: str = "abc", mode: str = MAJORITY, in_sync: str = "", led_by: str = "", prefer: str = ""
) -> ClusterConfig:
    voters = {name: f"{name}1" for name in names}
    return ClusterConfig(
        "c", 5, ELECTING, "a", voters, mode, tuple(in_sync), led_by=led_by, prefer=prefer
    )


def promise(
    name: str, epoch: int, seq: int, *, is_whole: bool = True, is_exact: bool = True
) -> Promise:
    return Promise(name, f"{name}1", 5, Position(epoch, seq), is_whole, is_exact)


@pytest.mark.parametrize(
    ("names", "persisted", "agreed"),
    [
        ("a", {"a": 7}, 7),
        ("ab", {"a": 7, "b": 5}, 5),
        ("abc", {"a": 7, "b": 5}, 5),
        ("abc", {"a": 7}, 0),
        ("abcde", {"a": 9, "b": 8, "c": 7, "d": 6, "e": 5}, 7),
        ("abc", {"a": 9, "x": 9, "y": 9}, 0),
    ],
)
def test_a_majority_of_voters_agrees(names: str, persisted: dict[str, int], agreed: int) -> None:
    assert agreed_seq(config(names), persisted) == agreed


def test_in_the_mode_all_everybody_in_sync_agrees() -> None:
    persisted = {"a": 9, "b": 4, "c": 6}
    assert agreed_seq(config(mode=ALL, in_sync="abc"), persisted) == 4
    assert agreed_seq(config(mode=ALL, in_sync="ac"), persisted) == 6
    assert agreed_seq(config(mode=ALL, in_sync="a"), persisted) == 0, "fewer than a majority"


def chosen(which: ClusterConfig, *promises: Promise, is_patient: bool = False) -> str:
    return chosen_leader(which, promises, is_patient=is_patient)


def test_the_longest_of_a_majority_leads() -> None:
    assert chosen(config(), promise("a", 4, 9)) == ""
    assert chosen(config(), promise("a", 4, 9), promise("b", 4, 8)) == "a"
    assert chosen(config(), promise("a", 3, 9), promise("b", 4, 8)) == "b", "a later epoch"


def test_equals_lead_as_preferred_then_by_name() -> None:
    equals = promise("a", 4, 9), promise("b", 4, 9), promise("c", 4, 9)
    assert chosen(config(), *equals) == "c"
    assert chosen(config(prefer="b"), *equals) == "b"


def test_mixtures_strangers_and_promises_of_other_epochs_do_not_count() -> None:
    mixture = promise("b", 4, 9, is_whole=False)
    stranger = Promise("b", "b2", 5, Position(4, 9), True, True)
    old = Promise("b", "b1", 4, Position(4, 9), True, True)
    for other in (mixture, stranger, old):
        assert chosen(config(), promise("a", 4, 8), other) == ""


def test_an_exact_majority_leads_before_a_longer_one_that_is_not() -> None:
    longer = promise("a", 4, 12, is_exact=False)
    assert chosen(config(), longer, promise("b", 4, 9), promise("c", 4, 8)) == "b"
    assert chosen(config(), longer, promise("b", 4, 9), is_patient=True) == ""
    assert chosen(config(), longer, promise("b", 4, 9)) == "a", "b alone may lack what a confirmed"


def test_the_last_leader_is_enough() -> None:
    mixture = promise("b", 4, 9, is_whole=False)
    assert chosen(config(led_by="a"), promise("a", 4, 9), mixture) == "a"
    assert chosen(config(led_by="a"), promise("b", 4, 9)) == ""
    assert chosen(config(led_by="a"), promise("a", 4, 9), promise("b", 4, 10)) == "b"


def test_in_the_mode_all_one_in_sync_leads() -> None:
    which = config(mode=ALL, in_sync="ab")
    assert chosen(which, promise("c", 4, 99)) == ""
    assert chosen(which, promise("c", 4, 99), promise("b", 4, 9)) == "b"


def test_of_equals_anybody_leads_before_who_led_last() -> None:
    which = config(led_by="c")
    assert chosen(which, promise("a", 4, 9), promise("b", 4, 9), promise("c", 4, 9)) == "b"
    assert chosen(which, promise("a", 4, 8), promise("b", 4, 8), promise("c", 4, 9)) == "c"
    asked = config(led_by="c", prefer="c")
    assert chosen(asked, promise("a", 4, 9), promise("b", 4, 9), promise("c", 4, 9)) == "c"
