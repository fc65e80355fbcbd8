"""From a message that died to the one that is published in its stead, whose headers say how.

Only the headers that tell of deaths are decoded and written anew; every other property and header
stays as the publisher encoded it, to the byte. A record of deaths counts where the broker wrote it:
what a publisher says of deaths is not believed, and goes with the first true one (RabbitMQ 4). A
profile of an older RabbitMQ counts on from it.
Source: RabbitMQ's rabbit_dead_letter (make_msg).
"""

from typing import Final

from penstock.protocol.content import DeadLetter, Message
from penstock.protocol.property_lookup import (
    EXPIRATION,
    HEADERS,
    PROPERTIES_OFFSET,
    expiration,
    headers_table_span,
    replace_property,
)
from penstock.protocol.values import Table, encode_table, read_field, remove_field
from penstock.queues.deaths import DEATH_HEADERS, Death, with_death

NO_HEADERS: Final = b"\x00\x00\x00\x00"
CC: Final = "CC"


class Obituary:
    """A dead letter with what its way depends on. keys: its routing keys, CC's behind the first;
    deaths: the headers that tell of deaths, this one included. A delayed message that is released
    has one without deaths, and is a dead letter only if it was one before."""

    __slots__ = ("deaths", "keys", "message")

    def __init__(self, message: Message, keys: list[str], deaths: Table) -> None:
        self.message = message
        self.keys = keys
        self.deaths = deaths


def obituary(
    message: Message,
    queue: str,
    reason: str,
    time_s: int,
    routing_key: str | None,
    believes_all: bool = False,
) -> Obituary:
    """What to publish for `message`, which died in `queue` for `reason` (rules.DROP_NAMES).

    time_s: wall clock; routing_key: the queue's dead-letter-routing-key, which takes the place of
    all its keys and of CC; None keeps them. The expiration goes, so that it does not die at once
    where it comes to. Its address is not set. believes_all: deaths that a publisher tells of count,
    not only those that the broker wrote. Raises: ConnectionFault 502 on headers that were
    never sound."""
    header = message.header()
    span = headers_table_span(header, PROPERTIES_OFFSET)
    table = NO_HEADERS if span is None else header[span[0] : span[1]]
    copies = read_field(table, 0, len(table), CC) if table.find(b"\x02CC") >= 0 else None
    keys = [message.address.routing_key]
    if isinstance(copies, list):
        keys.extend(one for one in copies if isinstance(one, str))
    lifetime = expiration(header, PROPERTIES_OFFSET)
    death = Death(
        queue, reason, time_s, message.address.exchange, keys, "" if lifetime is None else lifetime
    )
    before: Table = {}
    if table.find(b"-death") >= 0:
        for name in DEATH_HEADERS:
            if believes_all or isinstance(message, DeadLetter):
                value = read_field(table, 0, len(table), name)
                if value is not None:
                    before[name] = value
            table = remove_field(table, name)
    deaths = with_death(before, death)
    if routing_key is not None:
        keys = [routing_key]
        if copies is not None:
            table = remove_field(table, CC)
    fields = table[4:] + encode_table(deaths)[4:]
    header = replace_property(header, HEADERS, len(fields).to_bytes(4, "big") + fields)
    if lifetime is not None:
        header = replace_property(header, EXPIRATION, None)
    return Obituary(_with_header(message, header), keys, deaths)


def _with_header(message: Message, header: bytes) -> DeadLetter:
    """The body frames of `message` behind another header payload."""
    letter = DeadLetter(
        message.channel, b"", reframed(message, header), len(header), message.body_bytes
    )
    letter.origin = message.origin
    return letter


def reframed(message: Message, header: bytes) -> bytes:
    """The frames of `message` with the payload `header` in place of its content header's."""
    raw = message.raw
    return b"".join(
        (
            raw[:3],
            len(header).to_bytes(4, "big"),
            header,
            b"\xce",
            raw[int(message.header_bytes) + 8 :],
        )
    )
