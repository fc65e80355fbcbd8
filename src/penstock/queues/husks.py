"""A husk: what stands for a message in a queue while its body is on the disk, or on its way there.

It has everything of the message but its frames, and so it is repaid and counted like any message:
`len(raw)` is 0. A message is shared by several queues; a husk is one queue's own.
"""

from mypy_extensions import i64

from penstock.protocol.content import Message


def husk_of(message: Message) -> Message:
    """A husk of `message`, which has a place in a log or will get one. The publish sequence stays
    with the message: whoever waits for a confirm waits for that."""
    husk = Message(message.channel, b"", b"", message.header_bytes, message.body_bytes)
    husk.address = message.address
    husk.origin = message.origin
    husk.stored = message.stored
    return husk


def is_husk(message: Message) -> bool:
    """Whether the body has to be read before the message can be delivered."""
    size: i64 = len(message.raw)
    return size == 0


def content_bytes(message: Message) -> i64:
    """Header and body without envelopes: the same for a message and for its husk."""
    return message.header_bytes + message.body_bytes
