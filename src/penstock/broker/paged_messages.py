"""What a pager asks of the messages of its queue, and what it does with a read that has ended."""

from mypy_extensions import i64

from penstock.queues.paged import PagedMessages
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, ClassicQueue
from penstock.queues.wanted import Wanted
from penstock.storage.reading import Found, ReadJob


def head_bytes(messages: PagedMessages) -> i64:
    """What the first message takes in memory, 0 when it is not there."""
    if messages.returned:
        message = messages.returned[0].message
    elif len(messages.ring) > 0:
        message = messages.ring.items[messages.ring.head]
    else:
        return 0
    size: i64 = len(message.raw)
    return size + MESSAGE_OVERHEAD_BYTES


def place_found(
    messages: PagedMessages, wanted: Wanted, found: list[Found], damaged: list[int]
) -> list[int]:
    """Put what was read where it belongs, and give up what cannot be read, in their order; the
    positions that were given up. What does not come next any more, because the queue has paged on
    meanwhile, is read again, and counts until then."""
    if not damaged:
        messages.arrived(wanted, found)
        return damaged
    lost: list[int] = []
    at = 0
    for position in sorted(damaged):
        begin = at
        while at < len(found) and found[at].position < position:
            at += 1
        messages.arrived(wanted, found[begin:at])
        if messages.lost(wanted, position):
            lost.append(position)
    messages.arrived(wanted, found[at:])
    return lost


def plain_of(messages: PagedMessages) -> ClassicQueue:
    """A plain queue with everything `messages` has, all of it in memory."""
    plain = ClassicQueue()
    plain.ring = messages.ring
    plain.returned = messages.returned
    plain.taken = messages.taken
    plain.position = messages.position
    plain.redelivered = messages.redelivered
    plain.redelivered_below = messages.redelivered_below
    plain.bytes_ready = messages.bytes_ready
    plain.copy_counts(messages)
    return plain


def unread(job: ReadJob) -> list[int]:
    """What a read that failed has not found: every position it was for, and did not come to."""
    found = {int(one.position) for one in job.found}
    return [one for part in job.stretches for one in part.positions if one not in found]
