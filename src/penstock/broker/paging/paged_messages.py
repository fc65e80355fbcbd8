"""What a pager asks of the messages of its queue, and what it does with a read that has ended."""

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.queue.ruling import Ruling
from penstock.protocol.content import Message
from penstock.queues.bodies_paged import BodiesPaged
from penstock.queues.deduplicated import DeduplicatedMessages
from penstock.queues.deduplicated_paged import DeduplicatedPaged
from penstock.queues.paged import PagedMessages
from penstock.queues.paged_records import PagedRecords
from penstock.queues.priority_paged import PriorityPaged
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, ClassicQueue
from penstock.queues.records import FLAG_EXPIRATION, FLAGS_AT
from penstock.queues.ruled import RuledMessages
from penstock.queues.ruled_paged import RuledPaged
from penstock.queues.rules import REASON_REJECTED
from penstock.queues.wanted import Wanted
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.spans import Span
from penstock.storage.log.reading import Found, ReadJob


def set_records(actor: QueueActor, records: RuledMessages) -> None:
    """`records` stand for those the rules of `actor` have had until now."""
    ruling = actor.ruling
    assert isinstance(ruling, Ruling), "who keeps records has rules"
    ruling.records = records
    actor.messages = records


def begin_paging(actor: QueueActor, index: QueueIndex) -> list[PagedMessages]:
    """The queue is about to have messages on the disk: what stands behind its first ones, live."""
    plain = actor.messages
    if not isinstance(plain, RuledMessages):
        messages = PagedMessages.from_plain(plain, index, index)
        actor.messages = messages
        return [messages]
    records: PagedRecords
    if not plain.rules.has_heads_only():
        records = BodiesPaged.from_records(plain, index)
    elif isinstance(plain, DeduplicatedMessages):
        records = DeduplicatedPaged.from_deduplicated(plain, index)
    elif plain.rules.max_priority > 0:
        records = PriorityPaged.from_records(plain, index)
    else:
        records = RuledPaged.from_records(plain, index)
    set_records(actor, records)
    return records.tails()


def end_paging(actor: QueueActor) -> None:
    """Everything the queue has is in memory: it is a plain one again, or one with records."""
    messages = actor.messages
    if isinstance(messages, PagedRecords):
        set_records(actor, messages.unpaged())
    else:
        assert isinstance(messages, PagedMessages), "it has begun to page"
        actor.messages = plain_of(messages)


def is_split(tails: list[PagedMessages]) -> bool:
    """Whether something of the queue lies behind what is on the disk, or is there."""
    return any(tail.is_split for tail in tails)


def has_husks_back(tails: list[PagedMessages]) -> bool:
    """Whether something has come back of which the body is on the disk."""
    return any(len(tail.husks_back) > 0 for tail in tails)


def paged_count(tails: list[PagedMessages]) -> i64:
    """Messages whose bodies are not in memory."""
    total: i64 = 0
    for tail in tails:
        total += tail.paged_count()
    return total


def husk_count(tails: list[PagedMessages]) -> i64:
    """Those of them that memory has a husk of."""
    total: i64 = 0
    for tail in tails:
        total += tail.husk_count
    return total


def tail_bytes(tails: list[PagedMessages]) -> i64:
    """Memory of what came last, and lies behind what is on the disk."""
    total: i64 = 0
    for tail in tails:
        total += tail.tail_bytes
    return total


def page_bytes(
    messages: ClassicQueue, keep_bytes: i64, pass_bytes: i64, pass_count: i64
) -> list[Message]:
    """See queues/paged_out; of a queue that pages, with rules or without."""
    if isinstance(messages, PagedRecords):
        return messages.page_bytes(keep_bytes, pass_bytes, pass_count)
    assert isinstance(messages, PagedMessages), "others are told to become one first"
    return messages.page_bytes(keep_bytes, pass_bytes, pass_count)


def resting_bytes(messages: ClassicQueue) -> i64:
    """Of what is in memory, what cannot leave it."""
    return messages.resting_bytes() if isinstance(messages, PagedRecords) else 0


def head_bytes(messages: ClassicQueue) -> i64:
    """What the first message takes in memory, 0 when it is not there."""
    if isinstance(messages, PagedRecords):
        return messages.head_bytes()
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


def take_in(actor: QueueActor, found: list[Found], has_lost: bool) -> None:
    """`found`, which was read, is in its place: it gets its records, or leaves if it was read only
    to be dropped. has_lost: some could not be read."""
    messages = actor.messages
    if isinstance(messages, PagedRecords):
        clock = actor.line.clock
        messages.now_ns = clock.monotonic_ns()
        messages.refill(found, clock.wall_ns() - messages.now_ns)
        if has_lost:
            messages.lost_some()
    elif isinstance(messages, PagedMessages):
        for message in messages.take_rejected():
            ruling = actor.ruling
            assert ruling is not None, "who has dead letters has rules"
            ruling.dropped(message, REASON_REJECTED)


def has_expiration(found: list[Found]) -> bool:
    """Whether one of those that were read has a lifetime of its own."""
    flags: i64 = 0
    for one in found:
        flags |= i64(one.message.raw[FLAGS_AT])
    return flags & FLAG_EXPIRATION != 0


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
    """What a read that failed has not found: what is damaged, and what is left of the stretch at
    which it failed. What stands behind that may well be read."""
    found = {int(one.position) for one in job.found}
    lost = set(job.damaged)
    for part in job.stretches:
        rest = [one for one in part.positions if one not in found and one not in lost]
        if rest:
            return sorted([*job.damaged, *rest])
    return job.damaged


def can_restore_unread(messages: ClassicQueue) -> bool:
    """Whether positions are all that has to be known of what the log has at a start."""
    if not isinstance(messages, RuledMessages):
        return True
    rules = messages.rules
    return rules.max_priority == 0 and not rules.is_deduplicated and rules.last_value_key == ""


def restore_spans(
    messages: PagedMessages, index: QueueIndex, spans: list[Span], origin: Cause, is_clean: bool
) -> i64:
    """Put `spans`, some or all of what counts in `index`, into an empty queue, unread; how many
    messages that are. is_clean: only what the log says was delivered may have been."""
    total: i64 = 0
    average: i64 = index.live_bytes() // index.live_count()
    for span in spans:
        total += span.count
        before: i64 = span.below(index, index.delivered_below) if is_clean else span.count
        messages.restore_delta(
            index, span.first, span.last, span.count, average * span.count, origin, before
        )
    return total
