"""What a delayed message exchange holds back, and that the rest is the inner exchange's doing."""

import pytest

from penstock.base.errors import ChannelFault
from penstock.protocol.values import Table
from penstock.routing.delayed import (
    DELAY_MS_MAX,
    DelayedExchange,
    delay_ms,
    delay_number,
)
from penstock.routing.destination import Destination
from penstock.routing.directory import QueueDirectory
from penstock.routing.factory import make_exchange
from penstock.routing.router import Router

LATER: Table = {"x-delay": 5}


def delayed(kind: str) -> DelayedExchange:
    made = make_exchange("x-delayed-message", "x", arguments={"x-delayed-type": kind})
    assert isinstance(made, DelayedExchange)
    made.store = Destination("store")
    return made


def route(router: Router, name: str, key: str, headers: Table) -> list[str]:
    exchange = router.find(name)
    assert exchange is not None
    return [found.name for found in router.route(exchange, [key], headers)]


@pytest.mark.parametrize(
    ("value", "delay"),
    [
        (1, 1),
        (1 << 40, 1 << 40),
        ((1 << 63) - 1, DELAY_MS_MAX),
        (0, 0),
        (-1, 0),
        ("25", 25),
        ("+25", 25),
        ("-25", 0),
        ("2.5", 0),
        ("", 0),
        ("9" * 300, 0),
        (2.9, 2),
        (float("nan"), 0),
        (float("inf"), 0),
        (True, 0),
        (None, 0),
        ([5], 0),
    ],
)
def test_what_a_header_asks_for(value: object, delay: int) -> None:
    assert delay_ms(value) == delay


def test_the_number_of_a_header_keeps_its_sign() -> None:
    assert [delay_number(one) for one in (-5, "-5", -5.5, "x", 1 << 62)] == [-5, -5, -5, 0, 1 << 62]


@pytest.mark.parametrize("kind", ["direct", "topic", "fanout", "x-modulus-hash"])
def test_a_delay_leads_to_the_store_and_nothing_else(kind: str) -> None:
    router = Router(QueueDirectory())
    exchange = delayed(kind)
    router.add_exchange(exchange)
    exchange.bind(Destination("q"), "k", None)
    assert router.needs_headers(exchange)
    assert route(router, "x", "k", LATER) == ["store"]
    assert route(router, "x", "k", {"x-delay": -5}) == ["q"]
    assert route(router, "x", "k", {}) == ["q"]
    exchange.unbind(Destination("other"), "k", None)
    exchange.drop_destination(exchange.destinations()[0])
    assert route(router, "x", "k", {}) == []


def test_several_keys_lead_to_the_store_once() -> None:
    router = Router(QueueDirectory())
    exchange = delayed("direct")
    router.add_exchange(exchange)
    assert router.route(exchange, ["a", "b", "c"], LATER) == [exchange.store]


def test_a_fanout_before_two_of_them_leads_to_both_stores() -> None:
    router = Router(QueueDirectory())
    fanout = make_exchange("fanout", "f")
    router.add_exchange(fanout)
    for name in ("x", "y"):
        exchange = make_exchange("x-delayed-message", name, arguments={"x-delayed-type": "fanout"})
        assert isinstance(exchange, DelayedExchange)
        exchange.store = Destination("store of " + name)
        router.add_exchange(exchange)
        fanout.bind(exchange, "", None)
    assert route(router, "f", "k", LATER) == ["store of x", "store of y"]


def test_without_a_store_nothing_is_delayed() -> None:
    exchange = delayed("fanout")
    exchange.bind(Destination("q"), "", None)
    exchange.store = None
    found: list[Destination] = []
    exchange.match("k", LATER, found)
    assert [one.name for one in found] == ["q"]


def test_it_is_told_once_that_the_exchange_is_gone() -> None:
    router = Router(QueueDirectory())
    exchange = delayed("direct")
    told: list[str] = []
    exchange.gone = lambda: told.append("gone")
    router.add_exchange(exchange)
    assert told == []
    router.remove_exchange(exchange)
    router.remove_exchange(exchange)
    assert told == ["gone"] and exchange.store is None


def test_properties_that_the_inner_exchange_hashes_are_asked_for() -> None:
    arguments: Table = {"x-delayed-type": "x-consistent-hash", "hash-property": "message_id"}
    exchange = make_exchange("x-delayed-message", "x", arguments=arguments)
    assert exchange.needs_properties
    with pytest.raises(ChannelFault, match="must be an integer"):
        exchange.bind(Destination("q"), "not a weight", None)
