"""Agreement on the wire with pamqp, an independent codec, for every method and field type."""

import datetime
from collections.abc import Callable
from dataclasses import fields
from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import base, body, commands, decode, encode, frame, header, heartbeat

from penstock.protocol.constants import (
    CONTENT_METHODS,
    FRAME_END,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    REPLY_NAMES,
)
from penstock.protocol.integers import Timestamp
from penstock.protocol.methods import (
    AccessRequest,
    ChannelOpen,
    ChannelOpenOk,
    Method,
    RequestAsk,
)
from penstock.protocol.methods.base import WireType
from penstock.protocol.methods.codec import METHODS, decode_method, encode_method, method_frame
from penstock.protocol.properties import Properties, decode_properties, encode_header_payload
from penstock.protocol.property_lookup import PROPERTIES_OFFSET
from penstock.protocol.values import Value, decode_table, encode_table
from tests.property.protocol_strategies import METHOD_CLASSES, methods_of, same

_NOT_SHARED = (AccessRequest.CLASS_ID, RequestAsk.CLASS_ID)
SHARED = [found for found in METHOD_CLASSES if found.CLASS_ID not in _NOT_SHARED]
"""Class request is ours alone, and access is of AMQP 0-8."""

# What pamqp lets through: it holds names to the specification's alphabet and sorts field names.
_words = st.text("abcXYZ019-_.:", min_size=1, max_size=100)
_tables = st.dictionaries(_words, st.text(max_size=20), max_size=4).map(
    lambda found: dict(sorted(found.items()))
)
_BY_WIRE = cast(
    "dict[WireType, st.SearchStrategy[object]]",
    {
        "octet": st.integers(0, 127),
        "short": st.integers(0, 2**16 - 1),
        "long": st.integers(0, 2**32 - 1),
        "longlong": st.integers(0, 2**63 - 1),
        "bit": st.booleans(),
        "shortstr": _words,
        "longstr": _words.map(str.encode),
        "table": _tables,
    },
)
_RESERVED: dict[WireType, object] = {"short": 0, "bit": False, "shortstr": "", "longstr": ""}


def _their_class(class_id: int, method_id: int) -> type[base.Frame]:
    return cast("type[base.Frame]", commands.INDEX_MAPPING[class_id << 16 | method_id])


def _theirs(method: Method) -> base.Frame:
    """The same method as pamqp's object; its slots stand in the order of our FIELDS."""
    found = _their_class(method.CLASS_ID, method.METHOD_ID)
    made = found.__new__(found)
    for slot, (name, wire) in zip(found.__slots__, method.FIELDS, strict=True):
        value = _RESERVED[wire] if name.startswith("reserved_") else getattr(method, name)
        setattr(made, slot, value.decode() if isinstance(value, bytes) else value)
    return made


def test_both_know_the_same_methods() -> None:
    ours = {(found.CLASS_ID << 16 | found.METHOD_ID): found for found in SHARED}
    assert set(ours) == set(commands.INDEX_MAPPING)
    for found in ours.values():
        theirs = _their_class(found.CLASS_ID, found.METHOD_ID)
        # pamqp: Connection.StartOk; ours: connection.start-ok.
        assert found.NAME.replace("-", "").lower() == theirs.name.replace("-", "").lower()


# pamqp writes "0" into the reserved field of these two, and refuses to write an empty one.
_NOT_EMPTY = (ChannelOpen, ChannelOpenOk)


@pytest.mark.parametrize("found", _NOT_EMPTY, ids=lambda found: found.NAME)
def test_reserved_fields_are_skipped(found: type[Method]) -> None:
    theirs = _their_class(found.CLASS_ID, found.METHOD_ID)()
    assert decode_method(frame.marshal(cast(Any, theirs), 1)[7:-1]) == found()
    _, _, read = frame.unmarshal(method_frame(1, found()))
    assert isinstance(read, type(theirs))


@pytest.mark.filterwarnings("ignore:This command is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    "found",
    [found for found in SHARED if found not in _NOT_EMPTY],
    ids=lambda found: found.NAME,
)
@given(data=st.data())
def test_methods_agree(found: type[Method], data: st.DataObject) -> None:
    method = data.draw(methods_of(found, _BY_WIRE))
    theirs = _theirs(method)
    arguments = theirs.marshal()
    assert encode_method(method)[4:] == arguments
    ids = found.CLASS_ID.to_bytes(2, "big") + found.METHOD_ID.to_bytes(2, "big")
    assert decode_method(ids + arguments) == method
    _, channel, read = frame.unmarshal(method_frame(7, method))
    assert channel == 7
    assert isinstance(read, type(theirs))
    assert frame.marshal(cast(Any, read), 7) == method_frame(7, method)


# pamqp takes a timestamp above 32 bits for milliseconds.
_aware = st.datetimes(
    datetime.datetime(1970, 1, 1), datetime.datetime(2106, 1, 1), timezones=st.just(datetime.UTC)
).map(lambda found: found.replace(microsecond=0))


@pytest.mark.parametrize(
    ("letter", "payload", "value"),
    [
        ("t", b"\x01", True),
        ("t", b"\x00", False),
        ("b", b"\x80", -128),
        ("B", b"\xff", 255),
        ("s", b"\x80\x00", -32768),
        ("u", b"\xff\xff", 65535),
        ("I", b"\x80\x00\x00\x00", -(2**31)),
        ("i", b"\xff\xff\xff\xff", 2**32 - 1),
        ("l", b"\x80" + bytes(7), -(2**63)),
        ("L", b"\xff" * 8, -1),
        ("f", b"\x3f\xc0\x00\x00", 1.5),
        ("d", b"\x3f\xf8" + bytes(6), 1.5),
        ("D", b"\x02\x00\x00\x01\x3a", Decimal("3.14")),
        ("S", b"\x00\x00\x00\x02\xc3\xa9", "é"),
        ("A", b"\x00\x00\x00\x03b\x05V", [5, None]),
        ("F", b"\x00\x00\x00\x04\x01at\x01", {"a": True}),
        ("x", b"\x00\x00\x00\x02\x00\xff", bytearray(b"\x00\xff")),
        ("V", b"", None),
    ],
)
def test_field_types_agree(letter: str, payload: bytes, value: Value) -> None:
    field = b"\x01k" + letter.encode() + payload
    data = len(field).to_bytes(4, "big") + field
    ours, _ = decode_table(data, 0, len(data))
    assert same(ours, {"k": value})
    if letter != "L":  # RabbitMQ and pika read L with sign, pamqp without
        assert decode.field_table(data) == (len(data), {"k": value})


@given(
    st.dictionaries(
        _words,
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-(2**63), 2**63 - 1),
            st.floats(width=32, allow_nan=False),
            st.text(max_size=20),
            st.binary(max_size=20).map(bytearray),
            _aware,
            st.lists(st.integers(-5, 70_000), max_size=3),
        ),
        max_size=6,
    )
)
def test_tables_agree_both_ways(theirs: dict[str, Any]) -> None:
    ours = {
        name: Timestamp(int(value.timestamp())) if isinstance(value, datetime.datetime) else value
        for name, value in theirs.items()
    }
    written = encode.field_table(theirs)
    read, _ = decode_table(written, 0, len(written))
    assert same(dict(sorted(read.items())), dict(sorted(ours.items())))
    assert decode.field_table(encode_table(ours))[1] == theirs


@given(
    st.fixed_dictionaries(
        {},
        optional={
            **{
                field.name: _words
                for field in fields(Properties)
                if field.name not in ("headers", "delivery_mode", "priority", "timestamp")
            },
            "headers": _tables,
            "delivery_mode": st.integers(1, 2),
            "priority": st.integers(0, 127),
            "timestamp": _aware,
        },
    ).filter(lambda found: "cluster_id" not in found),  # pamqp insists that it is empty
    st.integers(0, 2**40),
)
def test_content_headers_agree(given_: dict[str, Any], body_bytes: int) -> None:
    named = {("message_type" if name == "type" else name): given_[name] for name in given_}
    theirs = header.ContentHeader(0, body_bytes, commands.Basic.Properties(**named)).marshal()
    timestamp = given_.get("timestamp")
    make: Callable[..., Properties] = Properties
    ours = make(
        **{**given_, "timestamp": None if timestamp is None else int(timestamp.timestamp())}
    )
    assert encode_header_payload(body_bytes, ours) == theirs
    assert decode_properties(theirs, PROPERTIES_OFFSET) == ours


def test_constants_agree() -> None:
    from_pamqp = heartbeat.Heartbeat().marshal()
    assert from_pamqp == HEARTBEAT_FRAME
    assert header.ProtocolHeader().marshal() == PROTOCOL_HEADER
    assert frame.marshal(body.ContentBody(b"x"), 1)[-1] == FRAME_END
    assert {(60, 40), (60, 50), (60, 60), (60, 71)} == CONTENT_METHODS
    assert set(METHODS) >= CONTENT_METHODS
    assert len(REPLY_NAMES) == 19
