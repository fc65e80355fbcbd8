"""Addresses, and what they make of connection.tune: RabbitMQ's URI specification and query page."""

import pytest

from penstock.base.errors import ConnectionFault, OperatorError
from penstock.client.opening import Agreed, agree, client_properties, start_ok
from penstock.client.url import BrokerUrl, parse_url
from penstock.protocol.methods import ConnectionStart, ConnectionTune


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
        ("amqp://host/\udcff", "not UTF-8"),
        ("amqp://us\udcffer@host/", "not UTF-8"),
        ("amqp://host?heartbeat=often", "expected a number 0..65535"),
        ("amqp://host?heartbeat=70000", "expected a number 0..65535"),
        ("amqp://host?hartbeat=1", "unknown parameter 'hartbeat'"),
        ("amqp://host/#vhost", "%23"),
        ("amqp://host?heartbeat=" + "9" * 5000, "expected a number 0..65535"),
        ("amqp://user:a/b@host", "%2F"),
    ],
)
def test_a_wrong_address_names_the_part(text: str, words: str) -> None:
    with pytest.raises(OperatorError, match=words):
        parse_url(text)


@pytest.mark.parametrize(
    "password",
    ["secret@host:port", "secret/x@host", "secret?x@host", "12?secret@host", "secret#x@host"],
)
def test_errors_hide_the_password(password: str) -> None:
    with pytest.raises(OperatorError) as caught:
        parse_url(f"amqp://user:{password}")
    assert "secret" not in str(caught.value)


def test_text_hides_the_password() -> None:
    url = parse_url("amqp://user:secret@host/v%2fhost")
    assert str(url) == "amqp://user@host:5672/v%2Fhost"
    assert "secret" not in repr(url)


@pytest.mark.parametrize(
    ("tune", "url", "expected"),
    [
        (ConnectionTune(0, 0, 0), BrokerUrl(), Agreed(65_535, 131_072, 0)),
        (ConnectionTune(2047, 131_072, 60), BrokerUrl(), Agreed(2047, 131_072, 60)),
        (
            ConnectionTune(2047, 131_072, 60),
            BrokerUrl(channels_max=5, frame_bytes_max=8192, heartbeat_s=7),
            Agreed(5, 8192, 7),
        ),
        (ConnectionTune(10, 4096, 60), BrokerUrl(heartbeat_s=90), Agreed(10, 4096, 60)),
        (ConnectionTune(10, 4096, 0), BrokerUrl(heartbeat_s=90), Agreed(10, 4096, 90)),
        (ConnectionTune(10, 4096, 60), BrokerUrl(heartbeat_s=0), Agreed(10, 4096, 0)),
    ],
)
def test_the_lower_wish_wins(tune: ConnectionTune, url: BrokerUrl, expected: Agreed) -> None:
    assert agree(tune, url) == expected


def test_frames_below_the_minimum_are_refused() -> None:
    with pytest.raises(ConnectionFault, match="below the minimum of 4096"):
        agree(ConnectionTune(0, 1000, 0), BrokerUrl())


def test_a_broker_without_plain_is_refused_by_name() -> None:
    with pytest.raises(ConnectionFault, match="offers EXTERNAL"):
        start_ok(ConnectionStart(mechanisms=b"EXTERNAL"), BrokerUrl(), "", {})


def test_the_name_is_told_only_where_there_is_one() -> None:
    assert client_properties("n", {})["connection_name"] == "n"
    more = client_properties("", {"spark": {"query": "minutes"}})
    assert "connection_name" not in more
    assert more["spark"] == {"query": "minutes"} and "product" in more
