"""The default exchange."""

import pytest

from penstock.base.errors import ChannelFault
from penstock.routing.default import DefaultExchange
from penstock.routing.destination import Destination
from penstock.routing.directory import QueueDirectory


def test_the_key_is_the_name_of_the_queue() -> None:
    directory, queue = QueueDirectory(), Destination("q")
    directory.add(queue)
    exchange = DefaultExchange(directory)
    found: list[Destination] = []
    exchange.match("other", None, found)
    assert found == []
    exchange.match("q", None, found)
    assert found == [queue]
    assert (exchange.name, exchange.kind, exchange.durable) == ("", "direct", True)


def test_nothing_can_be_bound() -> None:
    exchange = DefaultExchange(QueueDirectory())
    with pytest.raises(ChannelFault) as refusal:
        exchange.bind(Destination("q"), "k", None)
    assert refusal.value.code == 403
    assert refusal.value.text == "operation not permitted on the default exchange"
    assert not exchange.unbind(Destination("q"), "k", None)
