"""Topic tries agree with a recursive reading of AMQP 0-9-1, 3.1.3.3, and cost no more than said."""

import functools

from hypothesis import given
from hypothesis import strategies as st

from penstock.routing.destination import Destination
from penstock.routing.topic import TopicExchange

WORDS = st.sampled_from(["a", "b", "", "*", "#"])
# Joining no words gives the empty key; joining one empty word gives it again, rightly.
PATTERNS = st.lists(WORDS, max_size=6).map(".".join)
KEYS = st.lists(st.sampled_from(["a", "b", "", "*", "#"]), max_size=8).map(".".join)
CHANGES = st.lists(
    st.tuples(st.sampled_from(["bind", "unbind", "drop"]), st.integers(0, 2), PATTERNS),
    max_size=30,
)


def split(key: str) -> tuple[str, ...]:
    return tuple(key.split(".")) if key else ()


@functools.cache
def is_match(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """The naive twin: try everything."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(is_match(pattern[1:], words[skip:]) for skip in range(len(words) + 1))
    if not words or pattern[0] not in ("*", words[0]):
        return False
    return is_match(pattern[1:], words[1:])


def topic() -> TopicExchange:
    return TopicExchange("x", False, False, False, None)


@given(st.lists(PATTERNS, max_size=12), KEYS)
def test_agrees_with_the_naive_twin(patterns: list[str], key: str) -> None:
    exchange = topic()
    queues = {pattern: Destination(pattern) for pattern in patterns}
    for pattern in patterns:
        exchange.bind(queues[pattern], pattern, None)
    found: list[Destination] = []
    exchange.match(key, None, found)
    expected = [pattern for pattern in queues if is_match(split(pattern), split(key))]
    assert sorted(queue.name for queue in found) == sorted(expected)
    assert exchange.steps <= exchange.node_count + len(split(key))


@given(CHANGES, st.lists(KEYS, min_size=1, max_size=4))
def test_any_history_equals_a_fresh_trie_of_what_is_left(
    changes: list[tuple[str, int, str]], keys: list[str]
) -> None:
    queues = [Destination(str(number)) for number in range(3)]
    exchange = topic()
    left: dict[tuple[int, str], None] = {}
    for verb, number, pattern in changes:
        if verb == "bind":
            assert exchange.bind(queues[number], pattern, None) == ((number, pattern) not in left)
            left[number, pattern] = None
        elif verb == "unbind":
            assert exchange.unbind(queues[number], pattern, None) == ((number, pattern) in left)
            left.pop((number, pattern), None)
        else:
            exchange.drop_destination(queues[number])
            left = {place: None for place in left if place[0] != number}
        # Matching in between must leave nothing behind that disturbs later matches.
        exchange.match(keys[0], None, [])
    fresh = topic()
    for number, pattern in left:
        fresh.bind(queues[number], pattern, None)
    assert exchange.node_count == fresh.node_count
    for key in keys:
        found: list[Destination] = []
        again: list[Destination] = []
        exchange.match(key, None, found)
        fresh.match(key, None, again)
        assert sorted(queue.name for queue in found) == sorted(queue.name for queue in again)
        expected = [str(number) for number, p in left if is_match(split(p), split(key))]
        assert sorted(queue.name for queue in again) == sorted(expected)
