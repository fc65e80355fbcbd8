"""The headers exchange: the four modes, void, and the refusals in RabbitMQ's words."""

import pytest

from penstock.base.errors import ChannelFault
from penstock.base.limits import HEADERS_EXCHANGE_VALUES, HEADERS_VALUES
from penstock.protocol.integers import Timestamp
from penstock.routing.bindings import Binding, BindingBounds
from penstock.routing.destination import Destination
from penstock.routing.headers import HeadersExchange

Table = dict[str, object]


def is_match(arguments: Table, headers: Table | None) -> bool:
    exchange, queue = HeadersExchange("x", False, False, False, None), Destination("q")
    exchange.bind(queue, "ignored", arguments)
    found: list[Destination] = []
    exchange.match("also ignored", headers, found)
    assert found in ([], [queue])
    return bool(found)


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({"x-match": "all", "a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
        ({"x-match": "all", "a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, True),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 3}, False),
        ({"x-match": "all", "x-a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "all-with-x", "x-a": 1, "b": 2}, {"b": 2}, False),
        ({"x-match": "all-with-x", "x-a": 1, "b": 2}, {"b": 2, "x-a": 1}, True),
        ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
        ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 1}, True),
        ({"x-match": "any-with-x"}, {"x-match": "any-with-x"}, False),
        ({"x-match": "all"}, None, True),
        ({}, {}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"a": None}, {"a": "anything"}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {}, False),
        ({"x-match": "any", "a": None}, {"a": [1]}, True),
        ({"a": 1}, {"a": None}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 2]}}, True),
    ],
)
def test_modes(arguments: Table, headers: Table | None, expected: bool) -> None:
    assert is_match(arguments, headers) is expected


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        (
            "one",
            'Invalid x-match field value <<"one">>; expected all, any, all-with-x, or any-with-x',
        ),
        ("", 'Invalid x-match field value <<"">>; expected all, any, all-with-x, or any-with-x'),
        (1, "Invalid x-match field type byte (value 1); expected longstr"),
        (True, "Invalid x-match field type bool (value true); expected longstr"),
        (None, "Invalid x-match field type void (value undefined); expected longstr"),
        (0.5, "Invalid x-match field type double (value 0.5); expected longstr"),
        ([], "Invalid x-match field type array (value []); expected longstr"),
        ({}, "Invalid x-match field type table (value {}); expected longstr"),
        (b"\xff", "Invalid x-match field type binary (value b'\\xff'); expected longstr"),
        (
            Timestamp(3),
            "Invalid x-match field type timestamp (value Timestamp(3)); expected longstr",
        ),
    ],
)
def test_refusals(mode: object, text: str) -> None:
    exchange = HeadersExchange("x", False, False, False, None)
    with pytest.raises(ChannelFault) as refusal:
        exchange.bind(Destination("q"), "", {"x-match": mode, "a": 1})
    assert (refusal.value.code, refusal.value.text) == (406, text)
    assert exchange.binding_count == 0
    assert not exchange.had_bindings


def test_every_agreeing_rule_counts_and_goes_with_its_binding() -> None:
    exchange, queue = HeadersExchange("x", False, False, False, None), Destination("q")
    exchange.bind(queue, "", {"a": 1})
    exchange.bind(queue, "", {"b": None})
    found: list[Destination] = []
    exchange.match("", {"a": 1, "b": 2}, found)
    assert found == [queue, queue]
    exchange.unbind(queue, "", {"a": 1})
    found.clear()
    exchange.match("", {"a": 1, "b": 2}, found)
    assert found == [queue]
    assert (exchange.needs_key, exchange.needs_headers) == (False, True)


def test_what_a_match_may_cost_is_bounded() -> None:
    """Issue 18, 2: 200 bindings of 4,000 arguments held everybody for 87 to 347 ms a publish."""
    exchange, queue = HeadersExchange("x", False, False, False, None), Destination("q")
    most = HEADERS_VALUES.default

    def bind(key: str, arguments: Table) -> bool:
        exchange.check_bounds(Binding(queue, key, arguments), BindingBounds())
        return exchange.bind(queue, key, arguments)

    full: Table = {str(number): 1 for number in range(most)}
    assert bind("", full)
    assert exchange.size == most
    with pytest.raises(ChannelFault, match=f"has {most + 1} values .* more than {most}") as refused:
        bind("", {**full, "one": "more"})
    assert refused.value.code == 406
    with pytest.raises(ChannelFault, match="values in its arguments"):
        bind("", {"nested": [[1] * 100, {"a": [1] * most}]})
    for number in range(1, HEADERS_EXCHANGE_VALUES.default // most):
        bind(str(number), full)
    with pytest.raises(ChannelFault, match="bind to another one"):
        bind("too many", full)
    assert not bind("1", full), "what is bound is no more"
    for number in range(1, HEADERS_EXCHANGE_VALUES.default // most):
        exchange.unbind(queue, str(number), full)
    assert exchange.size == most
