"""The exchange graph: links, alternates, cycles, bounds, and the life of exchanges."""

import pytest

from penstock.routing.destination import Destination, Targets
from penstock.routing.directory import QueueDirectory
from penstock.routing.exchange import Exchange
from penstock.routing.factory import make_exchange
from penstock.routing.mixing import MIXED_SPAN, mixed, text_number
from penstock.routing.router import Router


class World:
    """A router with queues "1" to "4" and a short way to make exchanges."""

    def __init__(self, hops_max: int = 100) -> None:
        self.directory = QueueDirectory()
        self.router = Router(self.directory, hops_max)
        self.queues = {name: Destination(name) for name in "1234"}
        for queue in self.queues.values():
            self.directory.add(queue)

    def exchange(
        self, kind: str, name: str, alternate: str | None = None, auto_delete: bool = False
    ) -> Exchange:
        arguments = None if alternate is None else {"alternate-exchange": alternate}
        exchange = make_exchange(kind, name, auto_delete=auto_delete, arguments=arguments)
        self.router.add_exchange(exchange)
        return exchange

    def route(self, exchange: Exchange | None, *keys: str) -> str:
        """The names of the queues, in order."""
        assert exchange is not None
        return "".join(queue.name for queue in self.router.route(exchange, keys, None))


def test_default_exchange() -> None:
    world = World()
    default = world.router.find("")
    assert world.route(default, "3") == "3"
    assert world.route(default, "nobody") == ""
    assert world.route(default, "3", "1", "3") == "31"


def test_cc_and_bcc_keys_add_up_without_duplicates() -> None:
    world = World()
    direct, topic = world.exchange("direct", "d"), world.exchange("topic", "t")
    for exchange in (direct, topic):
        exchange.bind(world.queues["1"], "a", None)
        exchange.bind(world.queues["2"], "b", None)
        exchange.bind(world.queues["1"], "b", None)
        assert world.route(exchange, "a", "b", "none") == "12"
    topic.bind(world.queues["2"], "#", None)
    assert world.route(topic, "b") == "21"


def test_keyless_kinds_match_once_whatever_the_number_of_keys() -> None:
    world = World()
    fanout = world.exchange("fanout", "f")
    fanout.bind(world.queues["2"], "", None)
    fanout.bind(world.queues["1"], "", None)
    assert world.route(fanout, "a", "b", "c") == "21"


def test_exchange_to_exchange_with_a_cycle() -> None:
    world = World()
    names = ["a", "b", "c"]
    ring = [world.exchange("fanout", name) for name in names]
    for position in range(3):
        ring[position].bind(ring[(position + 1) % 3], "", None)
        ring[position].bind(world.queues[str(position + 1)], "", None)
    ring[0].bind(ring[0], "", None)
    assert world.route(ring[0], "") == "123"
    assert world.route(ring[1], "") == "231"


def test_a_queue_reached_on_two_ways_gets_the_message_once() -> None:
    world = World()
    top, left, right = (world.exchange("fanout", name) for name in ("top", "left", "right"))
    for middle in (left, right):
        top.bind(middle, "", None)
        middle.bind(world.queues["4"], "", None)
    assert world.route(top, "") == "4"


def test_alternate_takes_what_matches_nothing() -> None:
    world = World()
    direct = world.exchange("direct", "d", alternate="spare")
    direct.bind(world.queues["1"], "a", None)
    assert world.route(direct, "b") == ""  # The alternate need not exist.
    spare = world.exchange("fanout", "spare")
    spare.bind(world.queues["2"], "", None)
    assert world.route(direct, "b") == "2"
    assert world.route(direct, "a") == "1"
    assert world.route(direct, "a", "b") == "1"  # One key that matches is a match.


def test_alternate_of_a_linked_exchange_and_of_an_alternate() -> None:
    world = World()
    top = world.exchange("fanout", "top", alternate="never")
    world.exchange("fanout", "never").bind(world.queues["1"], "", None)
    middle = world.exchange("direct", "middle", alternate="second")
    world.exchange("direct", "second", alternate="third")
    world.exchange("fanout", "third").bind(world.queues["3"], "", None)
    top.bind(middle, "", None)
    # `top` matched an exchange, so its own alternate stays out even if nothing comes of it.
    assert world.route(top, "k") == "3"


def test_alternate_cycle_ends() -> None:
    world = World()
    first = world.exchange("direct", "first", alternate="second")
    world.exchange("direct", "second", alternate="first")
    own = world.exchange("direct", "own", alternate="own")
    assert world.route(first, "k") == ""
    assert world.route(own, "k") == ""


def test_the_default_exchange_as_alternate_finds_the_queue_by_name() -> None:
    world = World()
    assert world.route(world.exchange("direct", "d", alternate=""), "2") == "2"


def test_hops_are_bounded_and_the_refused_visits_counted() -> None:
    world = World(hops_max=3)
    chain = [world.exchange("fanout", str(position)) for position in range(4)]
    for position in range(3):
        chain[position].bind(chain[position + 1], "", None)
        chain[position].bind(world.queues[str(position + 1)], "", None)
    chain[3].bind(world.queues["4"], "", None)
    assert world.route(chain[0], "") == "123"
    assert world.router.snapshot().visits_refused == 1
    assert world.route(chain[1], "") == "234"
    assert world.router.visits_refused == 1
    with pytest.raises(AssertionError):
        Router(QueueDirectory(), 0)


def test_needs_headers_looks_through_links_and_alternates() -> None:
    world = World()
    top = world.exchange("fanout", "top")
    middle = world.exchange("direct", "middle", alternate="rules")
    assert not world.router.needs_headers(top)
    rules = world.exchange("headers", "rules")
    assert world.router.needs_headers(rules)
    assert world.router.needs_headers(middle)
    assert not world.router.needs_headers(top)
    top.bind(middle, "", None)
    middle.bind(top, "", None)
    assert world.router.needs_headers(top)
    rules.bind(world.queues["1"], "", {"a": 1})
    assert world.router.route(top, ("k",), {"a": 1}) == [world.queues["1"]]
    assert world.router.route(top, ("k",), {"a": 2}) == []
    world.router.remove_exchange(rules)
    assert not world.router.needs_headers(top)


def test_names_and_listing() -> None:
    world = World()
    exchange = world.exchange("direct", "d")
    default = world.router.find("")
    assert world.router.find("d") is exchange
    assert world.router.find("e") is None
    assert world.router.exchanges() == (default, exchange)
    with pytest.raises(AssertionError):
        world.exchange("fanout", "d")
    assert default is not None
    with pytest.raises(AssertionError):
        world.router.remove_exchange(default)


def test_an_exchange_comes_with_the_bindings_it_has() -> None:
    world = World()
    exchange = make_exchange("direct", "d")
    exchange.bind(world.queues["1"], "a", None)
    exchange.bind(world.queues["1"], "b", None)
    world.router.add_exchange(exchange)
    assert world.router.binding_count == 2
    assert [
        (source.name, binding.routing_key)
        for source, binding in world.router.bindings_to(world.queues["1"])
    ] == [("d", "a"), ("d", "b")]
    assert world.router.drop_destination(world.queues["1"]) == []
    assert world.router.binding_count == 0
    assert world.router.bindings_to(world.queues["1"]) == []


def test_removing_an_exchange_removes_its_bindings_on_both_ends() -> None:
    world = World()
    source, middle = world.exchange("fanout", "source"), world.exchange("fanout", "middle")
    source.bind(middle, "", None)
    middle.bind(world.queues["1"], "", None)
    middle.bind(middle, "", None)
    assert world.route(source, "") == "1"
    assert world.router.remove_exchange(middle) == [middle]
    assert world.router.remove_exchange(middle) == []
    assert world.route(source, "") == ""
    assert source.is_unused and middle.is_unused
    assert world.router.snapshot().exchange_count == 2
    assert world.router.binding_count == 0
    again = world.exchange("fanout", "middle")
    assert world.route(source, "") == "" and again.is_unused


def test_auto_delete_goes_up_the_chain() -> None:
    world = World()
    chain = [world.exchange("fanout", name, auto_delete=True) for name in "abc"]
    stays = world.exchange("fanout", "stays")
    chain[0].bind(chain[1], "", None)
    chain[1].bind(chain[2], "", None)
    chain[2].bind(world.queues["1"], "", None)
    stays.bind(chain[2], "", None)
    assert world.router.drop_destination(world.queues["1"]) == chain[::-1]
    assert [exchange.name for exchange in world.router.exchanges()] == ["", "stays"]
    assert stays.is_unused


def test_auto_delete_waits_for_the_last_binding() -> None:
    world = World()
    exchange = world.exchange("direct", "x", auto_delete=True)
    exchange.bind(world.queues["1"], "a", None)
    exchange.bind(world.queues["2"], "a", None)
    assert world.router.drop_destination(world.queues["1"]) == []
    assert exchange.unbind(world.queues["2"], "a", None)
    assert exchange.is_due
    assert world.router.remove_exchange(exchange) == [exchange]


def given(targets: Targets) -> list[Destination]:
    found: list[Destination] = []
    targets.give(found)
    return found


def test_given_once_in_order_until_the_last_binding_goes() -> None:
    targets, first, second = Targets(), Destination("1"), Destination("2")
    assert given(targets) == []
    targets.hold(first)
    assert given(targets) == [first]
    targets.hold(second)
    targets.hold(first)
    assert given(targets) == [first, second]
    assert not targets.release(first)
    assert given(targets) == [first, second]
    assert not targets.release(first)
    assert given(targets) == [second]
    assert targets.release(second)
    assert given(targets) == []


def test_what_is_given_belongs_to_the_caller() -> None:
    targets, queue = Targets(), Destination("q")
    targets.hold(queue)
    given(targets).clear()
    assert given(targets) == [queue]


def test_neighbours_are_spread_over_the_whole_span() -> None:
    numbers = [int(mixed(number)) for number in range(4_096)]
    assert len(set(numbers)) == len(numbers)
    buckets = [0] * 16
    for number in numbers:
        assert 0 <= number < MIXED_SPAN
        buckets[number >> 28] += 1
    assert max(buckets) < 2 * min(buckets)


def test_the_ends_of_the_span() -> None:
    assert mixed(0) == 0
    assert 0 <= mixed(MIXED_SPAN - 1) < MIXED_SPAN


def test_a_text_has_one_number_in_every_run() -> None:
    assert text_number("customer.1") == text_number("customer." + str(1))
    assert text_number("customer.1") != text_number("customer.2")
    assert 0 <= text_number("\udcff") < MIXED_SPAN
