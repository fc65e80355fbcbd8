"""What a publish's properties ask for: CC and BCC, direct reply-to, user-id, expiration.

Only publishes that carry one of these come here; the flags in the raw header decide that.
Source: RabbitMQ's rabbit_channel (check_user_id_header, check_expiration_header, sender-selected
distribution) and rabbit_direct_reply_to.
"""

from typing import Final

from penstock.base.errors import ChannelFault, ConnectionFault
from penstock.broker.vhost.equivalence import type_name
from penstock.broker.vhost.rights import Rights
from penstock.broker.vhost.vhost import REPLY_TO_NAME
from penstock.protocol.content import Message, make_content
from penstock.protocol.property_lookup import (
    FLAG_EXPIRATION,
    FLAG_REPLY_TO,
    FLAG_USER_ID,
    HEADERS,
    PROPERTIES_OFFSET,
    REPLY_TO,
    USER_ID,
    expiration,
    headers_table_span,
    property_span,
    replace_property,
    reply_to,
    user_id,
)
from penstock.protocol.values import Table, decode_table, remove_field

RAW_OFFSET: Final = PROPERTIES_OFFSET + 7
"""Of the property flags in `Message.raw`, behind the envelope of the header frame."""

EXPIRATION_MS_MAX: Final = (1 << 64) - 1


def headers_of(message: Message) -> Table:
    """The headers table, empty when there is none. Raises: ConnectionFault 502."""
    span = headers_table_span(message.header(), PROPERTIES_OFFSET)
    if span is None:
        return {}
    return decode_table(message.header(), span[0], span[1])[0]


class PropertyRules:
    """What a channel looks at in the properties of its publishes; those of one session share it.
    reply_queue: name of its direct reply-to queue, "" for none: who has one shares with nobody;
    rights: who publishes, and what he may."""

    __slots__ = ("frame_bytes_max", "reply_queue", "rights")

    def __init__(self, rights: Rights, frame_bytes_max: int) -> None:
        self.rights = rights
        self.frame_bytes_max = frame_bytes_max
        self.reply_queue = ""

    def headers(self, message: Message) -> Table:
        """The headers table, empty when there is none. Raises: ConnectionFault 502."""
        return headers_of(message)

    def routing_keys(self, message: Message, key: str) -> list[str]:
        """`key` and the keys of CC and BCC. Raises: ChannelFault 406 on malformed ones."""
        table = self.headers(message)
        keys = [key]
        for name in ("CC", "BCC"):
            more = table.get(name)
            if more is None:
                continue
            if not isinstance(more, list):
                raise ChannelFault(
                    406,
                    f'invalid message: {{unacceptable_type_in_header,"{name}",{type_name(more)}}}',
                    60,
                    40,
                )
            keys.extend(one for one in more if isinstance(one, str))
        return keys

    def checked(self, message: Message) -> Message:
        """`message`, or the one to publish in its stead (direct reply-to).
        Raises: ChannelFault 406 on a bad user-id or expiration."""
        # Only what the flags name is looked up, and in place: most publishes that come here have
        # one of the three.
        raw = message.raw
        end = int(message.header_bytes) + 7
        if raw[20] & FLAG_USER_ID:
            user = self.rights.user
            claimed = _claimed(raw, end, user)
            if claimed != user and not self.rights.is_impersonator:
                raise _other_user(claimed, user)
        if raw[19] & FLAG_EXPIRATION:
            lifetime = expiration(raw, RAW_OFFSET, end) or ""
            fault = _lifetime_fault(lifetime)
            if fault != "":
                raise ChannelFault(406, f"invalid expiration '{lifetime}': {fault}", 60, 40)
        if raw[19] & FLAG_REPLY_TO and reply_to(raw, RAW_OFFSET, end) == REPLY_TO_NAME:
            if self.reply_queue == "":
                raise ChannelFault(406, "fast reply consumer does not exist", 60, 40)
            name = self.reply_queue.encode()
            header = replace_property(message.header(), REPLY_TO, bytes([len(name)]) + name)
            return self._with_header(message, header)
        return message

    def without_bcc(self, message: Message) -> Message:
        """`message` with the BCC header cut out, itself if it has none."""
        header = message.header()
        span = headers_table_span(header, PROPERTIES_OFFSET)
        if span is None or header.find(b"\x03BCC", span[0], span[1]) < 0:
            return message
        table = header[span[0] : span[1]]
        cut = remove_field(table, "BCC")
        if cut == table:
            return message
        return self._with_header(message, replace_property(header, HEADERS, cut))

    def _with_header(self, message: Message, header: bytes) -> Message:
        """A copy of `message` with another header payload."""
        copy = make_content(int(message.channel), b"", header, message.body(), self.frame_bytes_max)
        copy.address = message.address
        copy.origin = message.origin
        return copy


def _claimed(raw: bytes, end: int, user: str) -> str:
    """Who publishes, as the property user-id of the message `raw` of `user` says.
    Raises: ChannelFault 406 for bytes that are no UTF-8: nobody is called so."""
    try:
        return user_id(raw, RAW_OFFSET, end) or ""
    except ConnectionFault:
        span = property_span(raw, RAW_OFFSET, USER_ID, end)
        assert span is not None, "because it has no text"
        shown = raw[span[0] + 1 : span[1]].decode("utf-8", "backslashreplace")
        raise _other_user(shown, user) from None


def _other_user(claimed: str, user: str) -> ChannelFault:
    text = f"user_id property set to '{claimed}' but authenticated user was '{user}'"
    return ChannelFault(406, text, 60, 40)


def _lifetime_fault(text: str) -> str:
    """What is wrong with an expiration, "" if nothing is; words of RabbitMQ's parser."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    count = 0
    while count < len(digits) and digits[count] in "0123456789":
        count += 1
    if count == 0:
        return "no_integer"
    if count < len(digits):
        return f'{{leftover_string,"{digits[count:]}"}}'
    number = int(text[:24])
    if number < 0:
        return f"{{value_negative,{number}}}"
    return f"{{value_too_large,{number}}}" if number > EXPIRATION_MS_MAX else ""
