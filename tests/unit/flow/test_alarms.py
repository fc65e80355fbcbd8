"""A set of (node, resource): idempotent, told once, forgotten with its node."""

import pytest

from penstock.flow.alarms import Alarms


def test_only_the_first_set_and_the_last_clear_are_news() -> None:
    alarms = Alarms("n1")
    alarms.node_up("n2", ())
    assert alarms.set("n1", "memory")
    assert not alarms.set("n1", "memory") and not alarms.set("n2", "memory")
    assert alarms.where("memory") == ("n1", "n2")
    assert not alarms.clear("n1", "memory") and alarms.is_set("memory")
    assert alarms.clear("n2", "memory") and not alarms.clear("n2", "memory")
    assert alarms.resources() == ()


def test_resources_are_apart() -> None:
    alarms = Alarms("n1")
    assert alarms.set("n1", "memory") and alarms.set("n1", "disk")
    assert alarms.resources() == ("disk", "memory")
    assert alarms.clear("n1", "memory")
    assert alarms.resources() == ("disk",)


def test_what_a_dead_node_had_is_gone_and_what_it_says_later_is_not_believed() -> None:
    alarms = Alarms("n1")
    assert alarms.node_up("n2", ("memory", "disk")) == (("disk", "memory"), ())
    alarms.set("n1", "disk")
    assert alarms.node_down("n2") == ("memory",)
    assert not alarms.set("n2", "memory")
    assert alarms.resources() == ("disk",)


def test_a_node_that_is_back_has_what_it_says_and_nothing_older() -> None:
    alarms = Alarms("n1")
    alarms.node_up("n2", ("memory",))
    assert alarms.node_up("n2", ("disk",)) == (("disk",), ("memory",))


def test_a_node_never_hears_of_its_own_death() -> None:
    with pytest.raises(AssertionError):
        Alarms("n1").node_down("n1")
