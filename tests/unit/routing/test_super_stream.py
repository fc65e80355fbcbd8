"""The super stream exchange: the hash of RabbitMQ's stream clients, and its refusals."""

import pytest

from penstock.base.errors import ChannelFault
from penstock.routing.destination import Destination
from penstock.routing.exchange import Exchange
from penstock.routing.factory import make_exchange
from penstock.routing.super_stream import murmur3


def made(*keys: str) -> Exchange:
    exchange = make_exchange("x-super-stream", "x")
    for key in keys:
        exchange.bind(Destination(f"x-{key}"), key, None)
    return exchange


def chosen(exchange: Exchange, key: str) -> list[str]:
    found: list[Destination] = []
    exchange.match(key, None, found)
    return [one.name for one in found]


@pytest.mark.parametrize(
    ("data", "seed", "hashed"),
    [
        # Published with the algorithm and by its implementations.
        (b"", 0, 0),
        (b"", 1, 0x514E28B7),
        (b"", 0xFFFFFFFF, 0x81F16F39),
        (b"test", 0, 0xBA6BD213),
        (b"Hello, world!", 0, 0xC0363E43),
        (b"The quick brown fox jumps over the lazy dog", 0, 0x2E4FF723),
        (b"aaaa", 0x9747B28C, 0x5A97808A),
        (b"aaa", 0x9747B28C, 0x283E0130),
        (b"aa", 0x9747B28C, 0x5D211726),
        (b"a", 0x9747B28C, 0x7FA09EA6),
    ],
)
def test_the_hash_is_murmur3_of_32_bits(data: bytes, seed: int, hashed: int) -> None:
    assert murmur3(data, seed) == hashed


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        # From the tests of RabbitMQ's stream clients, which all agree: partitions 01 to 03 there.
        ("hello1", 1),
        ("hello2", 0),
        ("hello3", 1),
        ("hello4", 2),
        ("hello5", 0),
        ("hello6", 2),
        ("hello7", 0),
        ("hello8", 1),
        ("hello9", 0),
        ("hello10", 2),
        ("hello88", 1),
    ],
)
def test_a_key_goes_where_stream_clients_send_it(key: str, partition: int) -> None:
    assert chosen(made("0", "1", "2"), key) == [f"x-{partition}"]
    assert chosen(made("2", "1", "0"), key) == [f"x-{partition}"], "whatever came first"


def test_every_partition_gets_its_share() -> None:
    exchange = made("0", "1", "2", "3")
    counts = dict.fromkeys((f"x-{number}" for number in range(4)), 0)
    for number in range(400):
        (name,) = chosen(exchange, f"key {number}")
        counts[name] += 1
    assert all(60 <= count <= 140 for count in counts.values())


def test_a_number_that_is_not_bound_gets_nothing() -> None:
    """As in RabbitMQ: two bindings, so keys are 0 and 1, and there is no 1."""
    exchange = made("0", "7")
    assert {tuple(chosen(exchange, f"key {number}")) for number in range(50)} == {("x-0",), ()}
    assert chosen(make_exchange("x-super-stream", "x"), "key") == []


def test_of_two_streams_with_one_number_the_first_gets_it_until_it_goes() -> None:
    exchange = make_exchange("x-super-stream", "x")
    first, second = Destination("a"), Destination("b")
    exchange.bind(first, "0", None)
    exchange.bind(second, "0", None)
    exchange.bind(second, "1", None)
    exchange.bind(second, "2", None)
    everywhere = {tuple(chosen(exchange, f"key {number}")) for number in range(50)}
    assert everywhere == {("a",), ("b",), ()}
    exchange.drop_destination(first)
    assert {tuple(chosen(exchange, f"key {number}")) for number in range(50)} == {("b",)}


def test_a_message_goes_to_one_partition_whatever_its_cc() -> None:
    exchange = made("0", "1", "2")
    found: list[Destination] = []
    for key in ("hello1", "hello2", "hello4"):
        exchange.match(key, None, found)
    assert [one.name for one in found] == ["x-1"]


@pytest.mark.parametrize(("key", "said"), [("abc", '"abc"'), ("", ""), ("1.5", '"1.5"')])
def test_a_binding_key_is_a_whole_number(key: str, said: str) -> None:
    with pytest.raises(ChannelFault) as caught:
        made(key)
    assert caught.value.code == 406
    assert caught.value.text == f"The binding key must be an integer: <<{said}>>"


@pytest.mark.parametrize("key", ["+1", "-1", "007"])
def test_what_erlang_takes_for_a_number_is_bound_and_gets_nothing(key: str) -> None:
    assert chosen(made(key), "any") == []
