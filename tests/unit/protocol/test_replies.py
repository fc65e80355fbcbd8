"""Reply texts as RabbitMQ writes them."""

import pytest

from penstock.base.errors import ChannelFault, ConnectionFault
from penstock.protocol.methods import ChannelClose, ConnectionClose
from penstock.protocol.methods.codec import decode_method, encode_method
from penstock.protocol.replies import channel_close, connection_close, reply_text


def test_the_text_starts_with_the_name() -> None:
    assert reply_text(404, "no queue 'q' in vhost '/'") == "NOT_FOUND - no queue 'q' in vhost '/'"


@pytest.mark.parametrize("filler", ["x", "é", "😀", "\ud800"])
def test_a_long_text_is_cut_to_a_short_string(filler: str) -> None:
    text = reply_text(406, "inequivalent arg " + filler * 300)
    assert 250 <= len(text.encode()) <= 255
    assert text.endswith("...")
    assert reply_text(200, "y" * 239) == "REPLY_SUCCESS - " + "y" * 239


def test_faults_become_closes() -> None:
    close = connection_close(ConnectionFault(530, "vhost v not found", 10, 40))
    assert close == ConnectionClose(530, "NOT_ALLOWED - vhost v not found", 10, 40)
    gone = channel_close(ChannelFault(404, "no exchange 'e'", 60, 40))
    assert gone == ChannelClose(404, "NOT_FOUND - no exchange 'e'", 60, 40)
    assert decode_method(encode_method(gone)) == gone
