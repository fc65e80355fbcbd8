"""Consistent hashing: a change moves keys only to or from the destination that it is about, and
what the bindings are decides, not how they came about."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.routing.consistent_hash import ConsistentHashExchange
from penstock.routing.destination import Destination

KEYS = [str(number) for number in range(60)]
QUEUES = [Destination(name) for name in "abcde"]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["bind", "bind", "unbind", "drop"]),
        st.sampled_from(QUEUES),
        st.integers(1, 5).map(str),
    ),
    max_size=20,
)


def hashing() -> ConsistentHashExchange:
    return ConsistentHashExchange("x", False, False, False, None)


def placed(exchange: ConsistentHashExchange) -> list[Destination | None]:
    places: list[Destination | None] = []
    for key in KEYS:
        found: list[Destination] = []
        exchange.match(key, None, found)
        assert len(found) <= 1
        places.append(found[0] if found else None)
    return places


@given(CHANGES)
def test_a_change_moves_only_what_it_is_about(changes: list[tuple[str, Destination, str]]) -> None:
    exchange = hashing()
    before = placed(exchange)
    for verb, queue, weight in changes:
        if verb == "bind":
            exchange.bind(queue, weight, None)
        elif verb == "unbind":
            exchange.unbind(queue, weight, None)
        else:
            exchange.drop_destination(queue)
        after = placed(exchange)
        for old, new in zip(before, after, strict=True):
            assert old is new or queue in (old, new)
            if old is not new and old is not None and new is not None:
                # More weight only ever wins keys, less only ever loses them.
                assert (new is queue) == (verb == "bind")
        before = after
    fresh = hashing()
    for binding in reversed(exchange.bindings()):
        fresh.bind(binding.destination, binding.routing_key, None)
    assert placed(fresh) == before
    assert (None in before) == (exchange.binding_count == 0)
