"""The cache of a deduplication exchange: what it knows, for how long, and when it learns it."""

import pytest

from penstock.base.clock import ManualClock
from penstock.base.errors import ChannelFault
from penstock.protocol.values import Table
from penstock.routing.deduplication import DeduplicationExchange, header_key, lifetime_ms
from penstock.routing.destination import Destination
from penstock.routing.directory import QueueDirectory
from penstock.routing.router import Router

MS = 1_000_000


class Scene:
    def __init__(self, **arguments: int) -> None:
        self.clock = ManualClock()
        table: Table = {f"x-cache-{name}": value for name, value in arguments.items()}
        self.exchange = DeduplicationExchange("x", False, False, False, table)
        self.exchange.clock = self.clock
        self.exchange.bind(Destination("q"), "any", None)
        self.router = Router(QueueDirectory())
        self.router.add_exchange(self.exchange)

    def passes(self, twin: object, is_final: bool = True, **more: object) -> bool:
        headers: dict[str, object] = {"x-deduplication-header": twin}
        headers.update({name.replace("_", "-"): value for name, value in more.items()})
        found = self.router.route(self.exchange, ["k"], headers)
        if is_final:
            self.router.settle()
        return len(found) == 1


def test_a_look_without_consequence_is_not_remembered() -> None:
    scene = Scene(size=3)
    assert scene.passes("a", is_final=False) and scene.passes("a", is_final=False)
    assert scene.passes("a") and not scene.passes("a")
    assert scene.exchange.duplicate_count == 1


def test_only_the_last_look_is_settled() -> None:
    scene = Scene(size=3)
    scene.passes("a", is_final=False)
    scene.passes("b")
    scene.router.settle()
    assert list(scene.exchange.entries) == [header_key("b")]


def test_the_cache_is_never_larger_than_it_may_be_and_loses_the_oldest() -> None:
    scene = Scene(size=3)
    for number in range(20):
        assert scene.passes(number)
        assert len(scene.exchange.entries) <= 3
    assert not scene.passes(17) and scene.passes(16)


def test_entries_end() -> None:
    scene = Scene(size=10, ttl=50)
    assert scene.passes("a") and scene.passes("b", x_cache_ttl=10)
    scene.clock.advance(10 * MS)
    assert not scene.passes("a") and scene.passes("b")
    scene.clock.advance(40 * MS)
    assert scene.passes("a") and not scene.passes("b")


def test_no_header_no_cache() -> None:
    scene = Scene(size=1)
    assert scene.passes(None) and scene.passes(None)
    assert scene.exchange.entries == {}


@pytest.mark.parametrize(("one", "other"), [(1, "1"), (1, 1.0), (True, 1), ("", None)])
def test_values_of_different_types_differ(one: object, other: object) -> None:
    assert header_key(one) != header_key(other)


@pytest.mark.parametrize(
    ("value", "lifetime"), [(5, 5), ("5", 5), (0, 0), (-5, 0), (True, 0), ("x", 0), (None, 0)]
)
def test_lifetimes(value: object, lifetime: int) -> None:
    assert lifetime_ms(value) == lifetime


def test_a_cache_needs_a_size() -> None:
    with pytest.raises(ChannelFault, match="x-cache-size"):
        DeduplicationExchange("x", False, False, False, {})
