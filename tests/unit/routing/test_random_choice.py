"""The random exchange."""

from penstock.routing.destination import Destination
from penstock.routing.random_choice import RandomExchange

COUNT = 6_000


def counts(exchange: RandomExchange) -> dict[str, int]:
    found: list[Destination] = []
    for _ in range(COUNT):
        exchange.match("whatever", None, found)
    names = [one.name for one in found]
    return {name: names.count(name) for name in sorted(set(names))}


def random(name: str = "x") -> RandomExchange:
    return RandomExchange(name, False, False, False, None)


def test_one_destination_for_each_message_each_as_likely() -> None:
    exchange, queues = random(), [Destination(name) for name in "abc"]
    assert counts(exchange) == {}
    for queue in queues:
        exchange.bind(queue, "", None)
    found = counts(exchange)
    assert sum(found.values()) == COUNT
    assert all(abs(count / COUNT - 1 / 3) < 0.03 for count in found.values()), found
    exchange.drop_destination(queues[0])
    assert list(counts(exchange)) == ["b", "c"]


def test_a_second_binding_is_a_second_lot() -> None:
    exchange, first, second = random(), Destination("a"), Destination("b")
    exchange.bind(first, "1", None)
    exchange.bind(first, "2", None)
    exchange.bind(second, "1", None)
    assert abs(counts(exchange)["a"] / COUNT - 2 / 3) < 0.03
    exchange.unbind(first, "2", None)
    assert abs(counts(exchange)["a"] / COUNT - 1 / 2) < 0.03


def test_it_is_asked_for_each_message_and_replays() -> None:
    runs = []
    for name in ("x", "x", "y"):
        exchange = random(name)
        assert (exchange.needs_headers, exchange.needs_key) == (True, False)
        found: list[Destination] = []
        for destination in ("a", "b", "c"):
            exchange.bind(Destination(destination), "", None)
        for _ in range(50):
            exchange.match("", None, found)
        runs.append([one.name for one in found])
    assert runs[0] == runs[1] != runs[2]
