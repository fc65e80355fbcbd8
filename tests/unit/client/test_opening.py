"""Limits agreed on: the lower wish wins, and 0 is no wish."""

import pytest

from penstock.base.errors import ConnectionFault
from penstock.client.opening import Agreed, agree, client_properties, start_ok
from penstock.client.url import BrokerUrl
from penstock.protocol.methods import ConnectionStart, ConnectionTune


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
        start_ok(ConnectionStart(mechanisms=b"EXTERNAL"), BrokerUrl(), "")


def test_the_name_is_told_only_where_there_is_one() -> None:
    assert client_properties("n")["connection_name"] == "n"
    assert "connection_name" not in client_properties("")
