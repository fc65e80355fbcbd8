"""How a plain queue gets its records, and how one that needs none any more becomes plain."""

from heapq import heappush

from mypy_extensions import i64

from penstock.queues.queue import ClassicQueue, Returned
from penstock.queues.records import FLAGS_AT
from penstock.queues.ruled import RuledMessages


def adopt(records: RuledMessages, plain: ClassicQueue, now_ns: i64) -> None:
    """`records`, which has nothing yet, takes over all that is ready in `plain`, and its counts.
    Lifetimes begin now, because a plain queue does not know when a message came."""
    records.now_ns = now_ns
    for entry in plain.returned:
        record = records._record(entry.position, entry.message, i64(entry.message.raw[FLAGS_AT]))
        record.deliveries = 1
        heappush(records.levels[record.level].returned, record)
        records._counted(record, 1)
    position: i64 = plain.taken
    for message in plain.ring.items[int(plain.ring.head) :]:
        record = records._record(position, message, i64(message.raw[FLAGS_AT]))
        position += 1
        records.levels[record.level].line.append(record)
        records._counted(record, 1)
    records.next_position = position
    records.copy_counts(plain)
    plain.ring.clear()
    plain.returned.clear()
    records._index_keys()


def release(records: RuledMessages) -> ClassicQueue:
    """A plain queue with all that is ready in `records`, in the order of delivery, and its counts.
    What is out comes back in front of it, as ever."""
    plain = ClassicQueue()
    plain.taken = records.next_position
    for level in reversed(records.levels):
        for record in level.returned:
            heappush(plain.returned, Returned(record.position, record.message))
        for record in level.line[int(level.head) :]:
            plain.ring.items.append(record.message)
    plain.bytes_ready = records.bytes_ready
    plain.copy_counts(records)
    return plain
