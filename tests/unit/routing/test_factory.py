"""Making exchanges by the name of their kind."""

import pytest

from penstock.base.errors import ChannelFault
from penstock.protocol.values import Table
from penstock.routing.factory import EXCHANGE_KINDS, check_kind, make_exchange

NEEDED: Table = {"x-delayed-type": "direct", "x-cache-size": 1}
BY_HEADERS = ("headers", "x-random", "x-delayed-message", "x-message-deduplication")
BY_KEY = (
    "direct",
    "topic",
    "x-consistent-hash",
    "x-modulus-hash",
    "x-delayed-message",
    "x-super-stream",
)


@pytest.mark.parametrize("kind", EXCHANGE_KINDS)
def test_each_kind(kind: str) -> None:
    check_kind(kind)
    exchange = make_exchange(
        kind, "x", durable=True, auto_delete=True, internal=True, arguments=NEEDED
    )
    assert (exchange.kind, exchange.name, exchange.arguments) == (kind, "x", NEEDED)
    assert exchange.durable and exchange.auto_delete and exchange.internal
    assert exchange.needs_headers == (kind in BY_HEADERS)
    assert exchange.needs_key == (kind in BY_KEY)


@pytest.mark.parametrize("kind", ["xyz", "", "Direct", "x-recent-history"])
def test_an_unknown_kind_closes_the_channel(kind: str) -> None:
    with pytest.raises(ChannelFault) as refusal:
        make_exchange(kind, "x")
    assert refusal.value.code == 406
    assert refusal.value.text == f"unknown exchange type '{kind}'"
