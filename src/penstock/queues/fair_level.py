"""How much memory each queue may use, so that all of them together keep to a budget.

    target = min(the queue's own bound, level)       with   sum of min(held, level) <= budget
Water filled into vessels: those who hold little keep it, and what they leave is shared by the
others. Pure; see broker/node/paging_manager.
"""

from typing import Final

NO_LEVEL: Final = 1 << 62


def fair_level(held: list[int], budget: int) -> int:
    """The level in bytes, NO_LEVEL while everybody may keep what he has.

    held: bytes of each queue, in any order; budget: bytes of all together, 0.. ."""
    left = budget
    if sum(held) <= left:
        return NO_LEVEL
    ascending = sorted(held)
    count = len(ascending)
    for bytes_ in ascending:
        share = left // count
        if bytes_ > share:
            return share
        left -= bytes_
        count -= 1
    return NO_LEVEL
