"""The canonical text is one for AMQP-equal values and another for all others."""

from decimal import Decimal

import pytest

from penstock.protocol.integers import Timestamp
from penstock.routing.canonical import canonical, canonical_value, is_same_value


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("text", "text"),
        ("é", "é".encode()),
        (b"\xff", bytearray(b"\xff")),
        (7, 7),
        (float("nan"), float("nan")),
        (None, None),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        ([1, "2"], [1, "2"]),
        (Timestamp(5), Timestamp(5)),
        (Decimal("1.5"), Decimal("1.5")),
    ],
)
def test_equal(left: object, right: object) -> None:
    assert is_same_value(left, right)
    assert canonical_value(left) == canonical_value(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (0, False),
        (1, 1.0),
        (1, "1"),
        (None, False),
        (None, ""),
        (5, Timestamp(5)),
        (1.0, Decimal("1")),
        ([1, 2], [12]),
        ([], {}),
        (["a", "b"], ["ab"]),
        (["s1:a"], ["a"]),
        ({"a": 1}, {"a": True}),
        ({"a": {"b": 1}}, {"a": {"c": 1}}),
        ({"ab": "c"}, {"a": "bc"}),
        (b"\xfe", b"\xff"),
    ],
)
def test_not_equal(left: object, right: object) -> None:
    assert not is_same_value(left, right)
    assert canonical_value(left) != canonical_value(right)


def test_no_table_and_an_empty_one_are_the_same() -> None:
    assert canonical(None) == canonical({}) == ""
    assert canonical({"a": None}) != ""
