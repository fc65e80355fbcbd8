"""Finding whom a name means, and saying which names come close."""

import pytest

from penstock.explain.naming import (
    CLOSE_NAMES_MAX,
    find,
    nobody_called,
    nobody_of_all,
    several_of_all,
)
from tests.unit.explain.scene import actor, held, scene

WINDOWS = scene(
    actor("conn:web-7", labels={"peer": "10.0.0.1:5000", "name": "shop"}),
    actor("chan:web-7/1"),
    actor("queue:/orders"),
    actor("queue:prod/orders"),
    actor("store:/"),
    actor("consumer:w@conn:a", (0, 0, 5, 0), held("socket:a", 5, "socket")),
    actor("consumer:w@conn:b", (0, 0, 9, 0), held("socket:b", 9, "socket")),
    actor("consumer:u@conn:web-7"),
)


@pytest.mark.parametrize(
    ("kind", "name", "found"),
    [
        ("connection", "web-7", "conn:web-7"),
        ("connection", "conn:web-7", "conn:web-7"),
        ("connection", "10.0.0.1:5000", "conn:web-7"),
        ("connection", "shop", "conn:web-7"),
        ("connection", "chan:web-7/1", None),
        ("channel", "web-7/1", "chan:web-7/1"),
        ("queue", "orders", "queue:/orders"),
        ("queue", "/orders", "queue:/orders"),
        ("queue", "prod/orders", "queue:prod/orders"),
        ("queue", "missing", None),
        ("consumer", "w@conn:a", "consumer:w@conn:a"),
        ("consumer", "w", None),
        ("consumer", "w@a", "consumer:w@conn:a"),
        ("consumer", "u@10.0.0.1:5000", "consumer:u@conn:web-7"),
        ("consumer", "u", "consumer:u@conn:web-7"),
        ("consumer", "v", None),
        ("store", "/", "store:/"),
        ("vhost", "/", None),
    ],
)
def test_whom_a_name_means(kind: str, name: str, found: str | None) -> None:
    assert find(kind, name, WINDOWS) == found


@pytest.mark.parametrize(
    ("kind", "name", "text", "close"),
    [
        (
            "connection",
            "WEB",
            "no connection is called 'WEB'; did you mean web-7?",
            ("web-7",),
        ),
        (
            "queue",
            "ordres",
            "no queue is called 'ordres'; did you mean /orders, prod/orders?",
            ("/orders", "prod/orders"),
        ),
        (
            "queue",
            "zzz",
            "no queue is called 'zzz'; there are /orders, prod/orders",
            ("/orders", "prod/orders"),
        ),
        (
            "quue",
            "x",
            "'quue' cannot be asked for; ask for connection, channel, queue, consumer, store "
            "or publish",
            ("queue",),
        ),
    ],
)
def test_names_that_come_close(kind: str, name: str, text: str, close: tuple[str, ...]) -> None:
    assert nobody_called(kind, name, WINDOWS) == (text, close)


def test_no_more_names_than_fit() -> None:
    windows = scene(*(actor(f"queue:/q{number}") for number in range(9)))
    text, close = nobody_called("queue", "zzz", windows)
    assert len(close) == CLOSE_NAMES_MAX
    assert text.endswith("/q4 and 4 more")
    assert len(nobody_called("queue", "q", windows)[1]) == CLOSE_NAMES_MAX


def test_nobody_is_there() -> None:
    assert nobody_called("queue", "a", {}) == (
        "no queue is called 'a'; there is no queue now",
        (),
    )


@pytest.mark.parametrize(
    ("kind", "name"),
    [("queue", name) for name in ("only", "zzz", "q3", "", "a/q", "ordres", "prod/orders/x")]
    + [("consumer", "t"), ("consumer", "none"), ("channel", "c"), ("quue", "x")],
)
def test_what_several_say_is_what_one_would_say(kind: str, name: str) -> None:
    parts = [
        ["queue:/orders", *(f"queue:a/q{number}" for number in range(7)), "consumer:t@conn:x"],
        ["queue:tenant/only", "queue:b/q3", "consumer:t@conn:y", "consumer:t@conn:z"],
        ["queue:third/prod", "conn:p"],
    ]
    scenes = [scene(*map(actor, part)) for part in parts]
    whole = scene(*(actor(one) for part in parts for one in part))
    said = [nobody_called(kind, name, one) for one in scenes]
    told = nobody_of_all(kind, name, said)
    if kind == "consumer":
        known = [f"consumer:{name}@conn:x"] if name == "t" else []
        told = several_of_all(name, said[1:], known) or told
    assert told == nobody_called(kind, name, whole)


def test_consumers_of_one_name_are_one_question() -> None:
    """A client with the same name at two brokers: none of both can be told by it."""
    assert several_of_all("t", [], ["consumer:t@conn:x", "consumer:t@conn:x"]) is None
