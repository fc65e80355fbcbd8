"""The properties of class basic, decoded whole."""

import pytest

from penstock.base.errors import ConnectionFault
from penstock.protocol.properties import (
    Properties,
    decode_properties,
    encode_header_payload,
    encode_properties,
)

FULL = Properties(
    content_type="text/plain",
    content_encoding="gzip",
    headers={"a": [1, {"b": None}]},
    delivery_mode=2,
    priority=9,
    correlation_id="c",
    reply_to="amq.rabbitmq.reply-to",
    expiration="60000",
    message_id="m",
    timestamp=1_700_000_000,
    type="t",
    user_id="guest",
    app_id="a",
    cluster_id="x",
)


def test_everything_round_trips() -> None:
    header = encode_header_payload(5, FULL)
    assert header[:14] == bytes.fromhex("003c 0000 0000000000000005 fffc")
    assert decode_properties(header, 12) == FULL


def test_nothing_round_trips() -> None:
    assert encode_header_payload(0, Properties()) == bytes.fromhex("003c") + bytes(12)
    assert decode_properties(b"\x00\x00", 0) == Properties()


def test_empty_differs_from_absent() -> None:
    data = encode_properties(Properties(correlation_id="", headers={}))
    assert data == bytes.fromhex("2400 00000000 00")
    assert decode_properties(data, 0) == Properties(correlation_id="", headers={})


def test_known_bytes() -> None:
    data = encode_properties(Properties(content_type="a", delivery_mode=2, timestamp=1))
    assert data == bytes.fromhex("9040 01 61 02 0000000000000001")


@pytest.mark.parametrize(
    "wire", ["", "80", "8000", "8000 02 61", "8000 01 ff", "2000 00000001 05", "1000 02 00"]
)
def test_malformed_properties_are_502(wire: str) -> None:
    with pytest.raises(ConnectionFault) as caught:
        decode_properties(bytes.fromhex(wire), 0)
    assert caught.value.code == 502


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        (Properties(reply_to="é" * 128), "property reply_to of 256 bytes"),
        (Properties(priority=256), "property priority 256 does not fit 8 bits"),
        (Properties(timestamp=-1), "property timestamp -1 does not fit 64 bits"),
        (Properties(headers={"k": 2**64}), "64 bits"),
    ],
)
def test_values_no_property_can_hold_are_refused(properties: Properties, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        encode_properties(properties)
