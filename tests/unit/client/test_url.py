"""Addresses, case by case: the examples of RabbitMQ's URI specification and its query page."""

import pytest

from penstock.base.errors import OperatorError
from penstock.client.url import BrokerUrl, parse_url


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # RabbitMQ URI specification, appendix A, in its order.
        ("amqp://user:pass@host:10000/vhost", BrokerUrl("host", 10000, "user", "pass", "vhost")),
        (
            "amqp://user%61:%61pass@ho%61st:10000/v%2fhost",
            BrokerUrl("hoast", 10000, "usera", "apass", "v/host"),
        ),
        ("amqp://", BrokerUrl()),
        ("amqp://:@/", BrokerUrl(user="", password="", vhost="")),
        ("amqp://user@", BrokerUrl(user="user")),
        ("amqp://user:pass@", BrokerUrl(user="user", password="pass")),
        ("amqp://host", BrokerUrl("host")),
        ("amqp://:10000", BrokerUrl(port=10000)),
        ("amqp:///vhost", BrokerUrl(vhost="vhost")),
        ("amqp://host/", BrokerUrl("host", vhost="")),
        ("amqp://host/%2f", BrokerUrl("host", vhost="/")),
        ("amqp://[::1]", BrokerUrl("::1")),
        # Beyond it.
        ("amqp://host//", BrokerUrl("host", vhost="/")),
        ("amqps://host", BrokerUrl("host", 5671, tls=True)),
        ("amqp://[::1]:5/%2F", BrokerUrl("::1", 5)),
        ("amqp://Host", BrokerUrl("Host")),
        (
            "amqp://h?heartbeat=7&connection_timeout=250&channel_max=3&frame_max=8192",
            BrokerUrl("h", heartbeat_s=7, connection_timeout_ms=250, channels_max=3,
                      frame_bytes_max=8192),
        ),
        ("amqp://h/?heartbeat=0", BrokerUrl("h", vhost="", heartbeat_s=0)),
        ("amqp://u:p%40%3a%2f@h", BrokerUrl("h", user="u", password="p@:/")),
    ],
)  # fmt: skip
def test_an_address_means(text: str, expected: BrokerUrl) -> None:
    assert parse_url(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("http://host", "not an AMQP address"),
        ("host:5672", "not an AMQP address"),
        ("amqp://host:port", "not an address"),
        ("amqp://host:70000", "not an address"),
        ("amqp://host/%ff", "not UTF-8"),
        ("amqp://host?heartbeat=often", "expected a number 0..65535"),
        ("amqp://host?heartbeat=70000", "expected a number 0..65535"),
        ("amqp://host?hartbeat=1", "unknown parameter 'hartbeat'"),
        ("amqp://host/#vhost", "%23"),
    ],
)
def test_a_wrong_address_names_the_part(text: str, words: str) -> None:
    with pytest.raises(OperatorError, match=words):
        parse_url(text)


def test_errors_and_text_hide_the_password() -> None:
    with pytest.raises(OperatorError) as caught:
        parse_url("amqp://user:secret@host:port")
    assert "secret" not in str(caught.value)
    url = parse_url("amqp://user:secret@host/v%2fhost")
    assert str(url) == "amqp://user@host:5672/v%2Fhost"
    assert "secret" not in repr(url)
