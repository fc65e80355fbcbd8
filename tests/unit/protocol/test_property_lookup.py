"""Look-ups in raw content headers: known bytes, flags words, and the refusals."""

import pytest

from penstock.base.errors import ConnectionFault
from penstock.protocol import property_lookup as p

HEAD = bytes.fromhex("003c 0000 0000000000000005")
# Every property: flags fffc, then one value each, in the order of the flags.
VALUES = [
    (p.CONTENT_TYPE, "02 6374"),
    (p.CONTENT_ENCODING, "02 6365"),
    (p.HEADERS, "00000004 01 61 74 01"),
    (p.DELIVERY_MODE, "02"),
    (p.PRIORITY, "09"),
    (p.CORRELATION_ID, "01 63"),
    (p.REPLY_TO, "02 7274"),
    (p.EXPIRATION, "03 313030"),
    (p.MESSAGE_ID, "01 6d"),
    (p.TIMESTAMP, "0000000000000007"),
    (p.TYPE, "01 79"),
    (p.USER_ID, "01 75"),
    (p.APP_ID, "01 61"),
    (p.CLUSTER_ID, "01 78"),
]
FULL = HEAD + bytes.fromhex("fffc" + "".join(value for _, value in VALUES))
EMPTY = HEAD + b"\x00\x00"


def test_every_single_property_is_found() -> None:
    p.check_properties(FULL, 12)
    for flag, value in VALUES:
        span = p.property_span(FULL, 12, flag)
        assert span is not None
        assert FULL[span[0] : span[1]] == bytes.fromhex(value)
        alone = HEAD + flag.to_bytes(2, "big") + bytes.fromhex(value)
        assert p.property_span(alone, 12, flag) == (14, len(alone))


def test_the_look_ups_read_values() -> None:
    assert p.delivery_mode(FULL, 12) == p.PERSISTENT
    assert p.priority(FULL, 12) == 9
    assert p.expiration(FULL, 12) == "100"
    assert p.reply_to(FULL, 12) == "rt"
    assert p.user_id(FULL, 12) == "u"
    assert p.headers_table_span(FULL, 12) == (20, 28)


def test_what_is_absent_has_a_default() -> None:
    assert p.delivery_mode(EMPTY, 12) == p.TRANSIENT
    assert p.priority(EMPTY, 12) == 0
    assert p.expiration(EMPTY, 12) is None
    assert p.reply_to(EMPTY, 12) is None
    assert p.user_id(EMPTY, 12) is None
    assert p.headers_table_span(EMPTY, 12) is None


def test_an_end_keeps_look_ups_within_the_header() -> None:
    frame = b"\x02\x00\x01\x00\x00\x00\x00" + FULL + b"\xce" + b"body frames"
    assert p.user_id(frame, 19, 7 + len(FULL)) == "u"
    p.check_properties(frame, 19, 7 + len(FULL))
    with pytest.raises(ConnectionFault, match="behind the properties"):
        p.check_properties(frame, 19)


def test_a_further_flags_word_is_stepped_over() -> None:
    data = HEAD + bytes.fromhex("1001 0001 0000 02")
    assert p.delivery_mode(data, 12) == 2
    p.check_properties(data, 12)


def test_the_bit_without_a_property_is_ignored() -> None:
    data = HEAD + bytes.fromhex("1002 02")
    assert p.delivery_mode(data, 12) == 2
    p.check_properties(data, 12)


@pytest.mark.parametrize("flags", ["1001 8000 02", "1001 0002 02", "1001", "1001 00", "1001 0001"])
def test_unknown_or_missing_flags_words_are_502(flags: str) -> None:
    data = HEAD + bytes.fromhex(flags)
    with pytest.raises(ConnectionFault) as caught:
        p.delivery_mode(data, 12)
    assert caught.value.code == 502


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        (p.CONTENT_TYPE, ""),
        (p.CONTENT_TYPE, "02 61"),
        (p.HEADERS, "00 00 00"),
        (p.HEADERS, "00 00 00 01"),
        (p.HEADERS, "ff ff ff ff"),
        (p.DELIVERY_MODE, ""),
        (p.PRIORITY, ""),
        (p.TIMESTAMP, "00 00 00 00 00 00 00"),
        (p.CLUSTER_ID, "ff"),
    ],
)
def test_values_past_the_end_are_502(flag: int, value: str) -> None:
    data = HEAD + flag.to_bytes(2, "big") + bytes.fromhex(value)
    with pytest.raises(ConnectionFault, match="past its end") as caught:
        p.check_properties(data, 12)
    assert caught.value.code == 502
    with pytest.raises(ConnectionFault, match="past its end"):
        p.property_span(data, 12, flag)


@pytest.mark.parametrize("data", [b"", HEAD, HEAD + b"\x00"])
def test_a_header_without_flags_is_502(data: bytes) -> None:
    with pytest.raises(ConnectionFault):
        p.priority(data, 12)
    with pytest.raises(ConnectionFault):
        p.priority(data, -1)


def test_text_that_is_no_utf8_is_502() -> None:
    data = HEAD + bytes.fromhex("0100 01 ff")
    p.check_properties(data, 12)
    with pytest.raises(ConnectionFault, match="malformed UTF-8 in property expiration"):
        p.expiration(data, 12)


def test_a_property_is_taken_away_and_put_in() -> None:
    for flag, value in VALUES:
        without = p.replace_property(FULL, flag, None)
        assert p.property_span(without, 12, flag) is None
        assert len(without) == len(FULL) - len(bytes.fromhex(value))
        assert p.replace_property(without, flag, bytes.fromhex(value)) == FULL
    assert p.replace_property(EMPTY, p.PRIORITY, b"\x05") == HEAD + bytes.fromhex("0800 05")
    assert p.replace_property(EMPTY, p.PRIORITY, None) == EMPTY
