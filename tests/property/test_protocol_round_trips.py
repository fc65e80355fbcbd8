"""Laws of the codec: what is written is read again, alone or in the middle of other bytes."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.methods import Method
from penstock.protocol.methods.codec import decode_method, encode_method, method_frame
from penstock.protocol.properties import (
    Properties,
    decode_properties,
    encode_header_payload,
    encode_properties,
)
from penstock.protocol.property_lookup import (
    PROPERTIES_OFFSET,
    check_properties,
    delivery_mode,
    expiration,
    headers_table_span,
    priority,
    property_span,
    replace_property,
    reply_to,
    user_id,
)
from penstock.protocol.values import (
    Table,
    decode_fields,
    decode_table,
    encode_table,
    find_field,
    read_field,
    remove_field,
)
from tests.property.protocol_strategies import methods, names, properties, same, tables


@given(tables, st.binary(max_size=20), st.binary(max_size=20))
def test_a_table_is_read_as_it_was_written(table: Table, before: bytes, behind: bytes) -> None:
    data = encode_table(table)
    found, stop = decode_table(before + data + behind, len(before), len(before) + len(data))
    assert same(found, table)
    assert stop == len(before) + len(data)
    assert encode_table(found) == data


@given(tables)
def test_a_table_without_its_length_reads_the_same(table: Table) -> None:
    data = encode_table(table)
    assert same(decode_fields(data, 4, len(data)), table)


@given(tables, names)
def test_one_field_reads_as_in_the_whole_table(table: Table, other: str) -> None:
    data = encode_table(table)
    for name in (*table, other):
        assert same(read_field(data, 0, len(data), name), table.get(name))
        assert (find_field(data, 0, len(data), name) is None) == (name not in table)


@given(tables, names)
def test_removing_a_field_leaves_every_other_byte(table: Table, other: str) -> None:
    data = encode_table(table)
    for name in (*table, other):
        rest = {key: value for key, value in table.items() if key != name}
        assert remove_field(data, name) == encode_table(rest)


@given(methods)
def test_a_method_is_read_as_it_was_written(method: Method) -> None:
    payload = encode_method(method)
    found = decode_method(payload)
    assert found == method
    assert type(found) is type(method)
    assert encode_method(found) == payload


@given(methods, st.integers(0, 65_535))
def test_a_method_frame_is_its_payload_in_an_envelope(method: Method, channel: int) -> None:
    payload = encode_method(method)
    frame = method_frame(channel, method)
    assert frame[0] == 1
    assert int.from_bytes(frame[1:3], "big") == channel
    assert int.from_bytes(frame[3:7], "big") == len(payload)
    assert frame[7:] == payload + b"\xce"


@given(properties, st.integers(0, 2**64 - 1))
def test_properties_are_read_as_they_were_written(given_: Properties, body_bytes: int) -> None:
    header = encode_header_payload(body_bytes, given_)
    assert header[:4] == b"\x00\x3c\x00\x00"
    assert int.from_bytes(header[4:12], "big") == body_bytes
    assert decode_properties(header, PROPERTIES_OFFSET) == given_


@given(properties, st.binary(max_size=9), st.binary(max_size=9))
def test_look_ups_agree_with_the_whole(given_: Properties, before: bytes, behind: bytes) -> None:
    flags_and_values = encode_properties(given_)
    data = before + flags_and_values + behind
    at, end = len(before), len(before) + len(flags_and_values)
    check_properties(data, at, end)
    assert decode_properties(data, at, end) == given_
    assert delivery_mode(data, at, end) == (
        1 if given_.delivery_mode is None else given_.delivery_mode
    )
    assert priority(data, at, end) == (given_.priority or 0)
    assert expiration(data, at, end) == given_.expiration
    assert reply_to(data, at, end) == given_.reply_to
    assert user_id(data, at, end) == given_.user_id
    span = headers_table_span(data, at, end)
    if span is None:
        assert given_.headers is None
    else:
        assert given_.headers is not None
        assert data[span[0] : span[1]] == encode_table(given_.headers)


@given(properties, properties, st.sampled_from([1 << bit for bit in range(2, 16)]))
def test_replacing_one_property_leaves_the_others(
    given_: Properties, other: Properties, flag: int
) -> None:
    header = encode_header_payload(7, given_)
    donor = encode_header_payload(0, other)
    span = property_span(donor, PROPERTIES_OFFSET, flag)
    value = None if span is None else donor[span[0] : span[1]]
    changed = replace_property(header, flag, value)
    check_properties(changed, PROPERTIES_OFFSET)
    for bit in range(2, 16):
        source = donor if 1 << bit == flag else header
        there = property_span(changed, PROPERTIES_OFFSET, 1 << bit)
        here = property_span(source, PROPERTIES_OFFSET, 1 << bit)
        assert (there is None) == (here is None)
        if there is not None and here is not None:
            assert changed[there[0] : there[1]] == source[here[0] : here[1]]
