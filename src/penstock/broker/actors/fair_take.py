"""Deficit round robin: how much of each waiting lane a queue takes in one round, in bytes.

Every round gives each waiting lane a quantum; a lane whose first message is larger saves up. What a
lane has saved is forgotten when its mailbox is empty. So over time every sender that keeps its lane
full gets the same bytes, whatever the size of its messages.
Source: Shreedhar and Varghese 1995; flow-semantics 16 (W18); scenario 116.
"""

from mypy_extensions import i64

from penstock.broker.actors.lane import Lane


def allot(pending: list[Lane], quantum: i64) -> None:
    """One round for the lanes of `pending`; if nobody could take anything after it, as many rounds
    at once as the first needs, because nothing is gained by waiting for them."""
    rounds: i64 = 1 << 40
    for lane in pending:
        if lane.head >= len(lane.items):
            continue
        missing: i64 = len(lane.items[lane.head].raw) - lane.saved_bytes
        needed: i64 = (missing + quantum - 1) // quantum
        if needed < 1:
            needed = 1
        if needed < rounds:
            rounds = needed
    for lane in pending:
        lane.saved_bytes += rounds * quantum


def affordable(lane: Lane, count_max: i64) -> i64:
    """How many messages at the head of `lane` are paid for by what it has saved, and pay."""
    items = lane.items
    end: i64 = len(items)
    at: i64 = lane.head
    if end > at + count_max:
        end = at + count_max
    saved = lane.saved_bytes
    count: i64 = 0
    while at < end:
        size: i64 = len(items[at].raw)
        if size > saved:
            break
        saved -= size
        count += 1
        at += 1
    lane.saved_bytes = 0 if at == len(items) else saved
    return count
