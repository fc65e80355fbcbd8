"""The numbers of AMQP 0-9-1, section 4.2 and the table of constants."""

from penstock.protocol import constants as c


def test_the_protocol_header_is_the_specifications() -> None:
    assert bytes.fromhex("414d515000000901") == c.PROTOCOL_HEADER


def test_frame_types_and_end() -> None:
    kinds = (c.FRAME_METHOD, c.FRAME_HEADER, c.FRAME_BODY, c.HEARTBEAT_FRAME[0])
    assert kinds == (1, 2, 3, 8)
    assert c.FRAME_END == 0xCE
    assert len(c.HEARTBEAT_FRAME) == c.FRAME_ENVELOPE_BYTES


def test_reply_codes_have_rabbitmqs_names() -> None:
    assert c.REPLY_NAMES[404] == "NOT_FOUND"
    assert c.REPLY_NAMES[530] == "NOT_ALLOWED"
    for code, name in c.REPLY_NAMES.items():
        assert getattr(c, name) == code
