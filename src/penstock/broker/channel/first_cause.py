"""Who pays for a publish that was caused by a delivery: whoever caused that.

A client that works on what it was given can say so. The header `x-cause` of a publish is the tag of
a delivery of this very channel that is not answered yet; the message rests in queues, waits for
sockets and dies on the account of the one who caused the delivered message, and so on from relay to
relay. Without the header, or with a tag that is not outstanding, it is on the account of the
connection that publishes. Mailboxes are always charged to the connection, because it is the one
that can be stopped from reading. Source: seed S4, flow-semantics 13.3 (children of children).
"""

from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.lane import Lane
from penstock.broker.channel.content_rules import headers_of
from penstock.flow.account import Account
from penstock.protocol.content import Message
from penstock.queues.unacked import UnackedTable

CAUSE: Final = "x-cause"
CAUSE_BYTES: Final = b"x-cause"
HEADER_AT: Final = 21
"""Of a message's frames: where the values of its properties may begin."""


def pay_by_cause(table: UnackedTable | None, message: Message, lanes: list[Lane]) -> None:
    """Let `message`, which has headers and goes to `lanes`, be paid by the cause of the delivery
    that it names. table: unanswered deliveries of the channel, None for a channel that never has
    any. Raises: ConnectionFault 502 when the headers cannot be read."""
    if table is None or table.count == 0:
        return
    end: i64 = message.header_bytes + 7
    if message.raw.find(CAUSE_BYTES, HEADER_AT, int(end)) < 0:
        return
    tag = headers_of(message).get(CAUSE)
    if not isinstance(tag, int) or isinstance(tag, bool) or not 0 < tag < 1 << 62:
        return
    delivery = table.find(tag)
    if delivery is not None and isinstance(delivery.message.origin, Account):
        message.origin = delivery.message.origin
        for lane in lanes:
            lane.has_foreign = True
