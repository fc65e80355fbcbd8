"""What a queue has on the disk and not in memory, as views show it."""

from penstock.broker.queue.queue_actor import QueueActor

READING = "reading"
"""In labels: of a queue whose consumers wait for the disk."""


def paged_of(actor: QueueActor) -> tuple[int, int]:
    """(messages, bytes) of ready messages whose bodies are not in memory; after a start the bytes
    are an estimate."""
    return int(actor.messages.paged_count()), int(actor.messages.paged_bytes())


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
