"""The topic exchange: what wildcards mean, what a match may cost, and that nothing stays behind."""

import pytest

from penstock.routing.destination import Destination
from penstock.routing.directory import QueueDirectory
from penstock.routing.exchange import words_of
from penstock.routing.router import Router
from penstock.routing.topic import TopicExchange

LEVELS = 28


def topic() -> TopicExchange:
    return TopicExchange("x", False, False, False, None)


def match(exchange: TopicExchange, key: str) -> list[Destination]:
    found: list[Destination] = []
    exchange.match(key, None, found)
    return found


def steps(exchange: TopicExchange, key: str) -> int:
    """Trie nodes visited by one match."""
    before = exchange.nodes_visited
    match(exchange, key)
    return exchange.nodes_visited - before


@pytest.mark.parametrize(
    ("pattern", "hits", "misses"),
    [
        ("", [""], [".", "a"]),
        ("a", ["a"], ["", "a.", ".a", "a.a", "b"]),
        ("*", ["a", "*", "#"], ["", "a.b", "."]),
        ("#", ["", "a", "a.b", ".", "..", "*.#"], []),
        ("a.*", ["a.b", "a."], ["a", "a.b.c", "b.b"]),
        ("*.b", ["a.b", ".b"], ["b", "a.a.b"]),
        ("a.#", ["a", "a.b", "a.b.c", "a."], ["", "b.a"]),
        ("#.a", ["a", "b.a", "a.a", "c.b.a", ".a"], ["", "a.b", "a."]),
        ("a.#.b", ["a.b", "a.c.b", "a.b.b", "a.c.d.b"], ["a", "b", "a.b.c"]),
        ("#.a.#", ["a", "b.a", "a.b", "b.a.b", "a.a"], ["", "b", "b.b"]),
        ("#.#", ["", "a", "a.b", "."], []),
        ("#.*", ["a", "a.b", "."], [""]),
        ("*.#", ["a", "a.b", "."], [""]),
        ("#.*.#.*", ["a.b", "a.b.c", "."], ["", "a"]),
        ("a..b", ["a..b"], ["a.b", "a.x.b"]),
        ("a.*.b", ["a..b", "a.x.b"], ["a.b"]),
        (".", ["."], ["", "a.", ".."]),
        ("a#", ["a#"], ["a", "ab"]),
        ("**", ["**"], ["a", "a.b"]),
    ],
)
def test_patterns(pattern: str, hits: list[str], misses: list[str]) -> None:
    exchange, queue = topic(), Destination("q")
    exchange.bind(queue, pattern, None)
    for key in hits:
        assert match(exchange, key) == [queue], key
    for key in misses:
        assert match(exchange, key) == [], key


def test_words() -> None:
    assert words_of("") == []
    assert words_of("a..b.") == ["a", "", "b", ""]


def test_a_final_hash_gives_its_destinations_once_however_often_it_is_reached() -> None:
    exchange, queue = topic(), Destination("q")
    exchange.bind(queue, "#.a.#", None)
    assert match(exchange, "a.a.a.a") == [queue]
    assert match(exchange, "a.a") == [queue]


def test_two_matching_patterns_append_twice() -> None:
    exchange, queue = topic(), Destination("q")
    exchange.bind(queue, "a.*", None)
    exchange.bind(queue, "#.b", None)
    assert match(exchange, "a.b") == [queue, queue]


def test_unbinding_cuts_the_trie_back_to_what_other_patterns_need() -> None:
    exchange, queue = topic(), Destination("q")
    patterns = ["a.b.c", "a.b", "a.*.#", "#", "a.#.b", ""]
    for pattern in patterns:
        exchange.bind(queue, pattern, None)
    assert exchange.node_count == 9
    exchange.bind(queue, "a.b", {"another": 1})
    assert exchange.node_count == 9
    exchange.unbind(queue, "a.b", None)
    assert match(exchange, "a.b").count(queue) == 4
    exchange.unbind(queue, "a.b.c", None)
    assert exchange.node_count == 8
    exchange.drop_destination(queue)
    assert exchange.node_count == 1
    assert match(exchange, "a.b") == []


def test_celery_delay_levels_in_one_exchange_cost_less_than_three_nodes_a_word() -> None:
    # celery_delayed_27 is bound with "1.#", level 26 with "*.1.#", and so on down to level 0.
    exchange = topic()
    for level in range(LEVELS):
        exchange.bind(Destination(str(level)), ".".join(["*"] * level + ["1", "#"]), None)
    last_only = ".".join(["0"] * (LEVELS - 1) + ["1"]) + ".celery"
    assert [found.name for found in match(exchange, last_only)] == [str(LEVELS - 1)]
    assert len(match(exchange, ".".join(["1"] * LEVELS))) == LEVELS
    for key in [last_only, ".".join(["1"] * LEVELS), ".".join("01" * (LEVELS // 2))]:
        assert steps(exchange, key) <= 3 * (LEVELS + 1)


@pytest.mark.parametrize(
    "pattern",
    [
        ".".join(["#"] * LEVELS),
        ".".join(["#", "*"] * (LEVELS // 2)),
        ".".join(["#", "a"] * (LEVELS // 2) + ["b"]),
        ".".join(["#", "a", "*"] * 9),
    ],
)
def test_many_hashes_visit_each_node_at_most_once_a_word(pattern: str) -> None:
    exchange = topic()
    exchange.bind(Destination("q"), pattern, None)
    key = ".".join(["a"] * LEVELS)
    assert steps(exchange, key) <= (LEVELS + 1) * exchange.node_count


def test_mixed_branches_share_the_bound() -> None:
    # 4,096 patterns that all match: trying each alone would repeat their common prefixes.
    exchange = topic()
    for number in range(4096):
        words = ["*" if number >> bit & 1 else "a" for bit in range(12)]
        exchange.bind(Destination(str(number)), ".".join(words), None)
    assert steps(exchange, ".".join(["a"] * 12)) == exchange.node_count
    assert len(match(exchange, ".".join(["a"] * 12))) == 4096
    assert steps(exchange, "b." + ".".join(["a"] * 11)) == 1 + (exchange.node_count - 1) // 2


def test_a_chain_of_levels_splits_the_key_once() -> None:
    """The native delayed delivery of task queues: an exchange a level, each bound to the next."""
    router = Router(QueueDirectory())
    levels = [TopicExchange(f"level {level}", True, False, False, None) for level in range(LEVELS)]
    end = Destination("end")
    for level, exchange in enumerate(levels):
        router.add_exchange(exchange)
        stars = ["*"] * level
        exchange.bind(Destination(f"wait {level}"), ".".join([*stars, "1", "#"]), None)
        following = levels[level + 1] if level + 1 < LEVELS else end
        exchange.bind(following, ".".join([*stars, "0", "#"]), None)
    for waiting in (0, 13, LEVELS - 1):
        bits = ["0"] * LEVELS
        bits[waiting] = "1"
        key = ".".join(bits) + ".celery"
        assert [found.name for found in router.route(levels[0], [key], None)] == [f"wait {waiting}"]
    key = ".".join(["0"] * LEVELS)
    assert router.route(levels[0], [key], None) == [end]
    assert router.words_of(key) is router.words_of(key)
    assert steps(levels[-1], key) == LEVELS + 1


def test_keys_of_one_publish_do_not_share_words() -> None:
    router, exchange = Router(QueueDirectory()), topic()
    router.add_exchange(exchange)
    first, second = Destination("1"), Destination("2")
    exchange.bind(first, "a.*", None)
    exchange.bind(second, "b.#.c", None)
    assert router.route(exchange, ["a.b", "b.c", "a.c"], None) == [first, second]
    assert router.route(exchange, ["b.x.c"], None) == [second]
