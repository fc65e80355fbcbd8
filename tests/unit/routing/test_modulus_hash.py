"""The modulus hash exchange: one of its bindings for each key, in an order of their own."""

from penstock.routing.destination import Destination
from penstock.routing.exchange import Exchange
from penstock.routing.factory import make_exchange

NAMES = ("a", "b", "c", "d")
KEYS = tuple(f"key {number}" for number in range(400))


def chosen(exchange: Exchange, key: str) -> str:
    found: list[Destination] = []
    exchange.match(key, None, found)
    assert len(found) == 1
    return found[0].name


def made(*names: str) -> Exchange:
    exchange = make_exchange("x-modulus-hash", "x")
    for name in names:
        exchange.bind(Destination(name), "", None)
    return exchange


def test_the_order_of_binding_plays_no_part() -> None:
    first, second = made(*NAMES), made(*reversed(NAMES))
    assert [chosen(first, key) for key in KEYS] == [chosen(second, key) for key in KEYS]


def test_every_binding_gets_its_share() -> None:
    exchange = made(*NAMES)
    counts = dict.fromkeys(NAMES, 0)
    for key in KEYS:
        counts[chosen(exchange, key)] += 1
    assert all(60 <= count <= 140 for count in counts.values())


def test_who_is_bound_twice_gets_twice_as_much() -> None:
    exchange = make_exchange("x-modulus-hash", "x")
    a, b = Destination("a"), Destination("b")
    exchange.bind(a, "1", None)
    exchange.bind(b, "1", None)
    exchange.bind(b, "2", None)
    of_a = sum(chosen(exchange, key) == "a" for key in KEYS)
    assert 90 <= of_a <= 180
    exchange.unbind(b, "1", None)
    of_a = sum(chosen(exchange, key) == "a" for key in KEYS)
    assert 150 <= of_a <= 250


def test_what_is_unbound_gets_nothing_and_nobody_none() -> None:
    exchange = made("a", "b")
    exchange.drop_destination(exchange.destinations()[0])
    assert {chosen(exchange, key) for key in KEYS} == {"b"}
    exchange.drop_destination(exchange.destinations()[0])
    found: list[Destination] = []
    exchange.match("k", None, found)
    assert found == []


def test_a_message_goes_to_one_binding_whatever_its_cc() -> None:
    exchange = made(*NAMES)
    for key in KEYS[:50]:
        found: list[Destination] = []
        for one in (key, *KEYS[50:60]):
            exchange.match(one, None, found)
        assert [one.name for one in found] == [chosen(exchange, key)]
