"""Numbers and names as people read them."""

import pytest

from penstock.telemetry.words import (
    amount,
    called,
    duration,
    kind_of,
    name_of,
    percent,
    rate,
    size,
    waits_for,
)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 s"),
        (1, "1 ns"),
        (999, "999 ns"),
        (12_000, "12 µs"),
        (999_499, "999 µs"),
        (999_500, "1.0 ms"),
        (1_400_000, "1.4 ms"),
        (94_000_000, "94 ms"),
        (999_499_999, "999 ms"),
        (999_500_000, "1.0 s"),
        (6_100_000_000, "6.1 s"),
        (99_950_000_000, "100 s"),
        (150_000_000_000, "2 min"),
        (10_920_000_000_000, "3 h 2 min"),
        (-94_000_000, "-94 ms"),
    ],
)
def test_duration(ns: int, text: str) -> None:
    assert duration(ns) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (0.004, "<1 %"), (0.01, "1 %"), (0.614, "61 %"), (1.0, "100 %")],
)
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("per_second", "text"),
    [(0.0, "0/s"), (0.5, "0.5/s"), (14.3, "14/s"), (999.4, "999/s"), (4100.0, "4.1k/s")],
)
def test_rate(per_second: float, text: str) -> None:
    assert rate(per_second) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (512, "512 bytes"), (999_999, "1.0 MB"), (1.9e9, "1.9 GB"), (2048, "2.0 kB")],
)
def test_size(count: float, text: str) -> None:
    assert size(count) == text


def test_amount() -> None:
    assert amount(18204) == "18 204"


@pytest.mark.parametrize(
    ("actor", "text"),
    [
        ("conn:web-7", "web-7"),
        ("conn:10.0.0.1:5000", "10.0.0.1:5000"),
        ("chan:web-7/1", "web-7/1"),
        ("queue:/orders", "queue /orders"),
        ("consumer:spark@conn:sp", "consumer spark@sp"),
        ("consumers:/q", "the consumers of queue /q"),
        ("user:shop@/", "user shop"),
        ("user:shop@prod", "user shop@prod"),
        ("node", "the whole node"),
        ("rate:conn:web-7", "the rate limit of web-7"),
        ("rate:queue:/q", "the rate limit of queue /q"),
        ("rate:vhost:/", "the rate limit of vhost /"),
        ("alarm:memory", "the memory alarm"),
        ("socket:web-7", "the socket of web-7"),
        ("store:/", "store /"),
        ("others", "others"),
    ],
)
def test_called(actor: str, text: str) -> None:
    assert called(actor) == text


def test_the_parts_of_an_id() -> None:
    assert (kind_of("queue:/a:b"), name_of("queue:/a:b")) == ("queue", "/a:b")
    assert (kind_of("others"), name_of("others")) == ("others", "others")


def test_the_verb_of_a_reason() -> None:
    assert waits_for("credit") == waits_for("credit:channel->queue") == "waits for credit from"
    assert waits_for("alarm") == waits_for("memory") == "is stopped by"
    assert waits_for("something new") == "waits for"
