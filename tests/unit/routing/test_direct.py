"""The direct exchange."""

from penstock.routing.destination import Destination
from penstock.routing.direct import DirectExchange


def match(exchange: DirectExchange, key: str) -> list[Destination]:
    found: list[Destination] = []
    exchange.match(key, None, found)
    return found


def test_exactly_the_key_matches() -> None:
    exchange = DirectExchange("x", False, False, False, None)
    first, second = Destination("1"), Destination("2")
    exchange.bind(first, "a.b", None)
    exchange.bind(second, "a.b", None)
    exchange.bind(second, "", None)
    exchange.bind(second, "#", None)
    assert match(exchange, "a.b") == [first, second]
    assert match(exchange, "") == [second]
    assert match(exchange, "a") == []
    assert (exchange.needs_key, exchange.needs_headers) == (True, False)


def test_bindings_that_differ_in_arguments_alone_give_one_delivery() -> None:
    exchange, queue = DirectExchange("x", False, False, False, None), Destination("q")
    assert exchange.bind(queue, "k", None)
    assert exchange.bind(queue, "k", {"note": "again"})
    assert match(exchange, "k") == [queue]
    assert exchange.unbind(queue, "k", None)
    assert match(exchange, "k") == [queue]
    assert exchange.unbind(queue, "k", {"note": "again"})
    assert match(exchange, "k") == []
