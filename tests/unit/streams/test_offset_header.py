"""x-stream-offset among the headers, whatever else a message has."""

import pytest

from penstock.protocol.properties import Properties, decode_properties, encode_properties
from penstock.protocol.values import Table
from penstock.streams.offset_header import with_offset

OLD: Table = {"a": 1, "x-stream-offset": "old", "z": [1, "x"]}
MANY: list[Properties] = [
    Properties(),
    Properties(delivery_mode=2),
    Properties(content_type="text/plain", priority=3),
    Properties(content_type="a", content_encoding="b", message_id="id"),
    Properties(content_encoding="gzip", headers={}),
    Properties(headers={"k": "v"}),
    Properties(content_type="a", content_encoding="b", headers=OLD, app_id="app"),
]


@pytest.mark.parametrize("properties", MANY)
def test_the_offset_is_added_and_nothing_else_changes(properties: Properties) -> None:
    wire = encode_properties(properties)
    found = decode_properties(with_offset(wire, 1 << 40), 0)
    headers = dict(properties.headers or {})
    headers["x-stream-offset"] = 1 << 40
    assert found.headers == headers
    for name in ("content_type", "content_encoding", "delivery_mode", "message_id", "app_id"):
        assert getattr(found, name) == getattr(properties, name)
