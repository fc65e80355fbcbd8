"""What a queue has on the disk and not in memory, as views show it."""

from penstock.broker.paging.pager import Pager
from penstock.broker.queue.queue_actor import NO_PAGING, QueueActor
from penstock.explain.memory_forecast import PAGES_ABOVE

READING = "reading"
"""In labels: of a queue whose consumers wait for the disk."""


def paged_of(actor: QueueActor) -> tuple[int, int]:
    """(messages, bytes) of ready messages whose bodies are not in memory; after a start the bytes
    are an estimate."""
    return int(actor.messages.paged_count()), int(actor.messages.paged_bytes())


def target_of(actor: QueueActor) -> int:
    """Bytes of memory above which `actor` pages; -1 if it goes by none."""
    paging = actor.paging
    if isinstance(paging, Pager):
        return int(paging.target_bytes)
    if paging is None or not 0 <= actor.page_above < NO_PAGING:
        return -1
    return int(actor.page_above)


def note_paged(actor: QueueActor, numbers: dict[str, float], labels: dict[str, str]) -> None:
    """Add to `numbers` above how much it pages, if it can, and what it has on the disk; a label
    while consumers wait for that."""
    target_bytes = target_of(actor)
    if target_bytes >= 0:
        numbers[PAGES_ABOVE] = float(target_bytes)
    count, bytes_ = paged_of(actor)
    if count == 0:
        return
    numbers["paged"] = float(count)
    numbers["paged_bytes"] = float(bytes_)
    if actor.ready and actor.paging is not None and actor.paging.is_read_awaited():
        labels[READING] = "yes"
