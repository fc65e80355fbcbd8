"""Laws of damage: no cut and no change of the bytes raises anything but ConnectionFault."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import ConnectionFault
from penstock.protocol import property_lookup, sasl
from penstock.protocol.handshake import HeaderVerdict, judge_header
from penstock.protocol.methods import Method
from penstock.protocol.methods.codec import decode_method, encode_method
from penstock.protocol.properties import Properties, decode_properties, encode_header_payload
from penstock.protocol.values import (
    Table,
    decode_fields,
    decode_table,
    encode_table,
    find_field,
    read_field,
    remove_field,
)
from tests.property.protocol_strategies import methods, names, properties, tables


@given(tables)
def test_every_cut_of_a_table_is_a_fault(table: Table) -> None:
    data = encode_table(table)
    for stop in range(len(data)):
        for piece, end in ((data[:stop], stop), (data, stop)):
            with pytest.raises(ConnectionFault) as caught:
                decode_table(piece, 0, end)
            assert caught.value.code == 502


@given(methods)
def test_every_cut_of_a_method_is_a_fault(method: Method) -> None:
    payload = encode_method(method)
    for stop in range(len(payload)):
        with pytest.raises(ConnectionFault) as caught:
            decode_method(payload[:stop])
        assert caught.value.code == 502


@given(methods, st.binary(min_size=1, max_size=5))
def test_bytes_behind_a_method_are_a_fault(method: Method, behind: bytes) -> None:
    with pytest.raises(ConnectionFault) as caught:
        decode_method(encode_method(method) + behind)
    assert caught.value.code == 502
    assert (caught.value.class_id, caught.value.method_id) == (method.CLASS_ID, method.METHOD_ID)


@given(properties)
def test_every_cut_of_a_content_header_is_a_fault(given_: Properties) -> None:
    header = encode_header_payload(3, given_)
    for stop in range(len(header)):
        with pytest.raises(ConnectionFault) as caught:
            decode_properties(header[:stop], property_lookup.PROPERTIES_OFFSET)
        assert caught.value.code == 502


def _read_every_way(data: bytes, name: str) -> None:
    """Give `data` to every reader; a ConnectionFault is fine, anything else is not."""
    with suppress(ConnectionFault):
        table, _ = decode_table(data, 0, len(data))
        encode_table(table)
    with suppress(ConnectionFault):
        encode_table(decode_fields(data, 0, len(data)))
    with suppress(ConnectionFault):
        find_field(data, 0, len(data), name)
    with suppress(ConnectionFault):
        read_field(data, 0, len(data), name)
    with suppress(ConnectionFault):
        remove_field(data, name)
    with suppress(ConnectionFault):
        encode_method(decode_method(data))
    for mechanism in (*sasl.MECHANISMS, name):
        with suppress(ConnectionFault):
            sasl.parse(mechanism, data)
    assert judge_header(data[:8]) in HeaderVerdict
    for look_up in (
        property_lookup.delivery_mode,
        property_lookup.priority,
        property_lookup.expiration,
        property_lookup.reply_to,
        property_lookup.user_id,
        property_lookup.headers_table_span,
        property_lookup.check_properties,
        decode_properties,
    ):
        for offset in (0, property_lookup.PROPERTIES_OFFSET):
            with suppress(ConnectionFault):
                look_up(data, offset)
    with suppress(ConnectionFault):
        property_lookup.replace_property(data, property_lookup.HEADERS, None)


@given(st.binary(max_size=200), names)
def test_noise_raises_nothing_but_faults(data: bytes, name: str) -> None:
    _read_every_way(data, name)


@given(
    st.one_of(
        tables.map(encode_table),
        methods.map(encode_method),
        properties.map(lambda found: encode_header_payload(1, found)),
    ),
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=4),
    names,
)
def test_changed_octets_raise_nothing_but_faults(
    data: bytes, changes: list[tuple[int, int]], name: str
) -> None:
    damaged = bytearray(data)
    for at, octet in changes:
        damaged[at % len(damaged)] = octet
    _read_every_way(bytes(damaged), name)
