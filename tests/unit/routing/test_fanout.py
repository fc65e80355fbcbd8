"""The fanout exchange."""

from penstock.routing.destination import Destination
from penstock.routing.fanout import FanoutExchange


def match(exchange: FanoutExchange) -> list[Destination]:
    found: list[Destination] = []
    exchange.match("whatever", {"a": 1}, found)
    return found


def test_every_destination_once_whatever_its_keys() -> None:
    exchange = FanoutExchange("x", False, False, False, None)
    first, second = Destination("1"), Destination("2")
    exchange.bind(first, "a", None)
    exchange.bind(second, "b", None)
    exchange.bind(first, "c", {"x-match": "nonsense"})
    assert match(exchange) == [first, second]
    exchange.unbind(first, "a", None)
    assert match(exchange) == [first, second]
    exchange.drop_destination(first)
    assert match(exchange) == [second]
    assert (exchange.needs_key, exchange.needs_headers) == (False, False)
