"""What a queue has on the disk and not in memory, for whoever looks at it."""

from penstock.broker.queue.queue_actor import QueueActor
from penstock.queues.paged import PagedMessages
from penstock.queues.paged_records import PagedRecords

READING = "reading"
"""In labels: of a queue whose consumers wait for the disk."""


def paged_of(actor: QueueActor) -> tuple[int, int]:
    """(messages, bytes) of ready messages whose bodies are not in memory; after a start the bytes
    are an estimate."""
    messages = actor.messages
    if isinstance(messages, PagedRecords):
        tails = messages.tails()
    elif isinstance(messages, PagedMessages):
        tails = [messages]
    else:
        return 0, 0
    return sum(int(one.paged_count()) for one in tails), sum(
        int(one.paged_bytes()) for one in tails
    )


def note_paged(actor: QueueActor, numbers: dict[str, float], labels: dict[str, str]) -> None:
    """Add `paged` and `paged_bytes` to `numbers` if there is something on the disk, and a label
    while consumers wait for it."""
    count, bytes_ = paged_of(actor)
    if count == 0:
        return
    numbers["paged"] = float(count)
    numbers["paged_bytes"] = float(bytes_)
    if actor.ready and actor.paging is not None and actor.paging.is_read_awaited():
        labels[READING] = "yes"
