"""Quantities read back as they were printed, and refuse what they cannot read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import OperatorError
from penstock.base.quantities import (
    parse_bytes,
    parse_duration_ns,
    parse_rate,
    parse_share,
    parse_window,
    show_bytes,
    show_duration,
    show_rate,
    show_window,
)

WHOLE = st.integers(0, 2**50)


@given(WHOLE, WHOLE)
def test_what_is_printed_is_read_back(first: int, second: int) -> None:
    assert parse_bytes(show_bytes(first)) == first
    assert parse_duration_ns(show_duration(first)) == first
    assert parse_window(show_window(first, second)) == (first, second)
    assert parse_rate(show_rate(float(first))) == float(first)


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("64MiB", 64 << 20),
        ("1.5GB", 1_500_000_000),
        ("7", 7),
        ("2 kb", 2000),
        ("9000TB", 9 * 10**15),
        ("1TiB", 1 << 40),
        ("2PB", 2 * 10**15),
        ("3k", 3000),
        ("1M", 10**6),
        ("1Ki", 1024),
        ("2g", 2 * 10**9),
        ("1Gi", 1 << 30),
        ("1T", 10**12),
        ("2kiB", 2048),
    ],
)
def test_sizes(text: str, bytes_: int) -> None:
    assert parse_bytes(text) == bytes_


def test_shares_rates_and_windows() -> None:
    assert parse_share("40%") == parse_share("0.4") == 0.4
    assert parse_rate("1000/s") == 1000.0
    assert parse_rate("off") == 0.0
    assert parse_window("4MiB/2MiB") == (4 << 20, 2 << 20)
    assert parse_duration_ns("250ms") == 250_000_000


@pytest.mark.parametrize("text", ["", "-1", "many", "1XB", "1e9"])
def test_what_is_no_size_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(OperatorError, match="is not a size"):
        parse_bytes(text)


def test_numbers_without_end_are_refused_as_others_are() -> None:
    for text in ("9" * 5000, "9" * 400 + ".5", "9" * 400 + ".5GB"):
        with pytest.raises(OperatorError, match="is not a size"):
            parse_bytes(text)
    with pytest.raises(OperatorError, match="is not a duration"):
        parse_duration_ns("9" * 400 + "s")


def test_a_size_has_at_most_63_bits() -> None:
    assert parse_bytes(str(2**63 - 1)) == 2**63 - 1
    for text in (str(2**63), "9300PB", "9300.0PB"):
        with pytest.raises(OperatorError, match=f"'{text}' is not a size there can be"):
            parse_bytes(text)


def test_what_is_no_share_duration_or_window_is_refused() -> None:
    for text in ("1.5", "x", "140%", "-0.1"):
        with pytest.raises(OperatorError, match="is not a share"):
            parse_share(text)
    with pytest.raises(OperatorError, match="is not a duration"):
        parse_duration_ns("5")
    with pytest.raises(OperatorError, match="is not a window"):
        parse_window("400")
