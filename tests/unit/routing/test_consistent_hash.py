"""The consistent hash exchange: shares, stability, what is hashed, what is refused."""

import pytest

from penstock.base.errors import ChannelFault
from penstock.routing.consistent_hash import ConsistentHashExchange, property_name
from penstock.routing.destination import Destination
from penstock.routing.directory import QueueDirectory
from penstock.routing.factory import make_exchange
from penstock.routing.router import Router

KEYS = [f"customer.{number}" for number in range(4_000)]


def hashing(**arguments: object) -> ConsistentHashExchange:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return ConsistentHashExchange("x", False, False, False, named)


def winner(
    exchange: ConsistentHashExchange, key: str, headers: dict[str, object] | None = None
) -> str:
    found: list[Destination] = []
    exchange.match(key, headers, found)
    assert len(found) == 1
    return found[0].name


def placed(exchange: ConsistentHashExchange) -> dict[str, str]:
    return {key: winner(exchange, key) for key in KEYS}


def share(places: dict[str, str], name: str) -> float:
    return list(places.values()).count(name) / len(places)


def test_without_bindings_nothing_matches() -> None:
    found: list[Destination] = []
    hashing().match("k", None, found)
    assert found == []


def test_a_weight_is_a_share() -> None:
    exchange = hashing()
    for name, weight in (("a", "1"), ("b", "1"), ("c", "2"), ("d", "4")):
        exchange.bind(Destination(name), weight, None)
    places = placed(exchange)
    for name, wanted in (("a", 1 / 8), ("b", 1 / 8), ("c", 1 / 4), ("d", 1 / 2)):
        assert abs(share(places, name) - wanted) < 0.02


def test_two_bindings_of_a_destination_add_up() -> None:
    twice, once = hashing(), hashing()
    queue, other = Destination("a"), Destination("b")
    for key in ("1", "2"):
        twice.bind(queue, key, None)
    once.bind(queue, "3", None)
    for exchange in (twice, once):
        exchange.bind(other, "1", None)
    assert placed(twice) == placed(once)
    once.unbind(queue, "3", None)
    once.bind(queue, "2", None)
    twice.unbind(queue, "1", None)
    assert placed(twice) == placed(once)
    twice.unbind(queue, "2", None)
    assert share(placed(twice), "b") == 1


def test_a_small_weight_beside_a_huge_one_is_not_lost() -> None:
    exchange, queue = hashing(), Destination("a")
    exchange.bind(queue, "9" * 30, None)
    exchange.bind(queue, "1", None)
    exchange.unbind(queue, "9" * 30, None)
    assert winner(exchange, "k") == "a"


@pytest.mark.parametrize("count", [2, 5, 20])
def test_a_new_destination_takes_its_share_and_moves_nothing_else(count: int) -> None:
    exchange = hashing()
    for number in range(count):
        exchange.bind(Destination(f"q{number}"), "1", None)
    before = placed(exchange)
    exchange.bind(Destination("new"), "1", None)
    after = placed(exchange)
    moved = [key for key in KEYS if before[key] != after[key]]
    assert {after[key] for key in moved} == {"new"}
    assert abs(len(moved) / len(KEYS) - 1 / (count + 1)) < 0.03


def test_a_lost_destination_gives_away_its_own_and_gets_it_back() -> None:
    exchange, queues = hashing(), [Destination(f"q{number}") for number in range(8)]
    for queue in queues:
        exchange.bind(queue, "3", None)
    before = placed(exchange)
    exchange.drop_destination(queues[5])
    after = placed(exchange)
    assert {before[key] for key in KEYS if before[key] != after[key]} == {"q5"}
    exchange.bind(queues[5], "3", None)
    assert placed(exchange) == before


def test_the_order_of_binding_plays_no_part() -> None:
    first, second = hashing(), hashing()
    names = ["a", "b", "c", "d"]
    for name in names:
        first.bind(Destination(name), "2", None)
    for name in reversed(names):
        second.bind(Destination(name), "2", None)
    assert placed(first) == placed(second)


def test_a_queue_and_an_exchange_of_one_name_draw_apart() -> None:
    exchange = hashing()
    queue, other = Destination("same"), make_exchange("fanout", "same")
    exchange.bind(queue, "1", None)
    exchange.bind(other, "1", None)
    taken: list[Destination] = []
    for key in KEYS:
        found: list[Destination] = []
        exchange.match(key, None, found)
        taken += found
    assert abs(taken.count(queue) / len(KEYS) - 0.5) < 0.03


def test_a_message_goes_to_one_destination_whatever_its_cc() -> None:
    exchange, queues = hashing(), [Destination(f"q{number}") for number in range(8)]
    for queue in queues:
        exchange.bind(queue, "1", None)
    router = Router(QueueDirectory())
    router.add_exchange(exchange)
    for key in KEYS[:50]:
        [found] = router.route(exchange, [key, *KEYS[50:60]], None)
        assert found.name == winner(exchange, key)


@pytest.mark.parametrize("argument", ["hash_header", "x_hash_on"])
def test_a_header_decides(argument: str) -> None:
    exchange = hashing(**{argument: "region"})
    for name in ("a", "b", "c"):
        exchange.bind(Destination(name), "1", None)
    assert (exchange.needs_headers, exchange.needs_key) == (True, False)
    by_value = {value: winner(exchange, "k", {"region": value}) for value in ("1", "2", "3", "4")}
    assert len(set(by_value.values())) > 1
    for value, name in by_value.items():
        assert winner(exchange, "other", {"region": value, "more": 1}) == name
    # Without the header, and without any, there is one place for all.
    assert winner(exchange, "k", {}) == winner(exchange, "other", None)


def test_a_property_decides() -> None:
    exchange = hashing(hash_property="message_id")
    assert (exchange.needs_headers, exchange.needs_properties) == (True, True)
    for name in ("a", "b", "c"):
        exchange.bind(Destination(name), "1", None)
    name = property_name("message_id")
    won = {winner(exchange, "k", {name: str(number).encode()}) for number in range(30)}
    assert won == {"a", "b", "c"}
    assert winner(exchange, "k", {"message_id": "1"}) == winner(exchange, "k", {"message_id": "2"})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"hash-header": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-property": 5}, "Unsupported property: 5"),
        ({"hash-header": 5}, "hash-header must name a header, not 5"),
        ({"x-hash-on": ""}, "hash-header must name a header, not ''"),
    ],
)
def test_arguments_that_are_refused(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(ChannelFault) as refusal:
        make_exchange("x-consistent-hash", "x", arguments=arguments)
    assert (refusal.value.code, refusal.value.text) == (406, text)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("", "The binding key must be an integer: <<>>"),
        ("a", 'The binding key must be an integer: <<"a">>'),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        ("1_0", 'The binding key must be an integer: <<"1_0">>'),
        ("0", "The binding key must be greater than 0"),
        ("-3", "The binding key must be greater than 0"),
    ],
)
def test_weights_that_are_refused(key: str, text: str) -> None:
    with pytest.raises(ChannelFault) as refusal:
        hashing().bind(Destination("q"), key, None)
    assert (refusal.value.code, refusal.value.text) == (406, text)
