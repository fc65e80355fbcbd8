"""Divides the rows of a batch, or the tasks of one, among several queues; pure."""

from collections.abc import Sequence


def share(total: int, backlogs: Sequence[int]) -> list[int]:
    """`total` in proportion to `backlogs`, none more than its own, and whole.

    Each queue that has something gets at least one, because a queue with little would otherwise
    wait until a long one is empty; where `total` is less than their number, the longest get one.
    What rounding leaves goes to those that lost most by it. total: 0..; backlogs: 0... each.
    """
    everything = sum(backlogs)
    if everything <= total:
        return list(backlogs)
    filled = [number for number, backlog in enumerate(backlogs) if backlog > 0]
    parts = [0] * len(backlogs)
    if total <= len(filled):
        for number in sorted(filled, key=lambda number: -backlogs[number])[:total]:
            parts[number] = 1
        return parts
    for number in filled:
        parts[number] = max(1, total * backlogs[number] // everything)
    over = sum(parts) - total
    # Those that were lifted to one row may have made it too much: the largest give it back.
    for number in sorted(filled, key=lambda number: -parts[number]):
        given = min(max(0, over), parts[number] - 1)
        parts[number] -= given
        over -= given
    by_loss = sorted(filled, key=lambda number: -(total * backlogs[number] % everything))
    while over < 0:
        for number in by_loss:
            if over < 0 and parts[number] < backlogs[number]:
                parts[number] += 1
                over += 1
    return parts
