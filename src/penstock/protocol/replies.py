"""From a peer's fault to the close method that answers it, with RabbitMQ's reply texts."""

from penstock.base.errors import PeerError
from penstock.protocol.constants import REPLY_NAMES
from penstock.protocol.methods import ChannelClose, ConnectionClose

_TEXT_BYTES_MAX = 255
_CUT = "..."


def reply_text(code: int, text: str) -> str:
    """`NAME - text`, as RabbitMQ writes it, cut to the 255 bytes of UTF-8 a shortstr holds.

    code: a reply code of REPLY_NAMES. A cut text ends in three dots.
    """
    whole = f"{REPLY_NAMES[code]} - {text}"
    data = whole.encode("utf-8", "replace")
    if len(data) <= _TEXT_BYTES_MAX:
        return data.decode("utf-8")
    return data[: _TEXT_BYTES_MAX - len(_CUT)].decode("utf-8", "ignore") + _CUT


def connection_close(fault: PeerError) -> ConnectionClose:
    """The connection.close that answers `fault`."""
    text = reply_text(fault.code, fault.text)
    return ConnectionClose(fault.code, text, fault.class_id, fault.method_id)


def channel_close(fault: PeerError) -> ChannelClose:
    """The channel.close that answers `fault`."""
    text = reply_text(fault.code, fault.text)
    return ChannelClose(fault.code, text, fault.class_id, fault.method_id)
