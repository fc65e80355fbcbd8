"""The topic exchange: what wildcards mean, what a match may cost, and that nothing stays behind."""

import random

import pytest

from penstock.base.errors import ChannelFault
from penstock.base.limits import TOPIC_HASHES, TOPIC_POSITIONS
from penstock.routing.bindings import Binding, BindingBounds
from penstock.routing.destination import Destination
from penstock.routing.directory import QueueDirectory
from penstock.routing.exchange import words_of
from penstock.routing.pattern_set import GROUP_BITS, TRIE_WORDS
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
    """What one match has to do: nodes of the trie, and words for each group of patterns."""
    before = exchange.steps
    match(exchange, key)
    return exchange.steps - before


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
    assert exchange.node_count == 7
    exchange.bind(queue, "a.b", {"another": 1})
    assert exchange.node_count == 7
    exchange.unbind(queue, "a.b", None)
    assert match(exchange, "a.b").count(queue) == 4
    exchange.unbind(queue, "a.b.c", None)
    assert exchange.node_count == 6
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


def test_many_hashes_are_moved_once_a_word() -> None:
    """Issue 18, 2: 3,000 patterns of random words, "*" and "#", and a new key for each publish."""
    exchange, dice = topic(), random.Random(1)
    length = 12
    for number in range(3000):
        words = [dice.choice("##**ab") for _ in range(length - 1)]
        exchange.bind(Destination(str(number)), ".".join(["#", *words]), None)
    groups = -(-3000 * (length + 1) // (GROUP_BITS - length))
    for _ in range(20):
        key = [dice.choice("abc") for _ in range(LEVELS)]
        assert steps(exchange, ".".join(key)) <= (len(key) + 1) * groups


@pytest.mark.parametrize("longest", [TRIE_WORDS, 127])
def test_long_patterns_that_all_match_cost_little(longest: int) -> None:
    exchange = topic()
    for number in range(1024):
        words = ["*" if number >> bit & 1 else "a" for bit in range(10)]
        words += ["*"] + ["a"] * (longest - 11)
        exchange.bind(Destination(str(number)), ".".join(words), None)
    assert len(match(exchange, ".".join(["a"] * longest))) == 1024
    most = 1024 * TRIE_WORDS if longest <= TRIE_WORDS else 1 + longest * 1024 * 128 // GROUP_BITS
    assert steps(exchange, ".".join(["a"] * longest)) <= most


def test_a_set_that_is_half_empty_is_made_anew() -> None:
    exchange, queue = topic(), Destination("q")
    patterns = [f"#.{number}.x" for number in range(3 * GROUP_BITS // 3)]
    for pattern in patterns:
        exchange.bind(queue, pattern, None)
    full = steps(exchange, "0.x")
    for pattern in patterns[5:]:
        exchange.unbind(queue, pattern, None)
    assert match(exchange, "a.4.x") == [queue]
    assert match(exchange, "a.5.x") == []
    assert steps(exchange, "0.x") < full / 2


def test_patterns_beyond_the_bounds_are_refused() -> None:
    exchange, queue = topic(), Destination("q")
    most = TOPIC_HASHES.default

    def bind(pattern: str) -> bool:
        exchange.check_bounds(Binding(queue, pattern, None), BindingBounds())
        return exchange.bind(queue, pattern, None)

    bind(".".join(["#"] * most))
    with pytest.raises(
        ChannelFault, match=f"has {most + 1} words '#', more than {most}"
    ) as refused:
        bind(".".join(["#"] * (most + 1)))
    assert refused.value.code == 406
    exchange._patterns.positions = TOPIC_POSITIONS.default
    with pytest.raises(ChannelFault, match="bind to another exchange"):
        bind("#.a")
    # What is bound already is no new pattern.
    assert not bind(".".join(["#"] * most))


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
