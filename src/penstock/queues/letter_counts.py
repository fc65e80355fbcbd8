"""How the deaths in one queue ended, counted by reason."""

from typing import Final

from mypy_extensions import i64

from penstock.queues.rules import DROP_NAMES

LOST_CYCLE: Final = 0
LOST_NO_EXCHANGE: Final = 1
LOST_NO_ROUTE: Final = 2
LOST_REFUSED: Final = 3
LOST_OVERFLOW: Final = 4
LOST_MALFORMED: Final = 5
LOST_DELETED: Final = 6
LOST_NAMES: Final = (
    "cycle",
    "no exchange",
    "no route",
    "refused",
    "overflow",
    "malformed",
    "deleted",
)
"""Why a dead letter went nowhere: it came back to where it had died; it found no way; one copy of
it was refused by a queue that was full or has gone; too many waited; its headers were never sound;
the queue where it waited for confirms was deleted."""


class LetterCounts:
    """sent: dead letters that some queue has or will have, by rules.REASON_*; lost: by LOST_*;
    escapes: that went into a queue that did not want them, to break a ring."""

    __slots__ = ("escapes", "lost", "sent")

    def __init__(self) -> None:
        self.sent: list[int] = [0] * len(DROP_NAMES)
        self.lost: list[int] = [0] * len(LOST_NAMES)
        self.escapes: i64 = 0

    def numbers(self) -> dict[str, float]:
        """By name, those that are 0 left out."""
        found: dict[str, float] = {}
        for prefix, names, counts in (
            ("dead_lettered:", DROP_NAMES, self.sent),
            ("dead_letter_dropped:", LOST_NAMES, self.lost),
        ):
            for index in range(len(counts)):
                if counts[index] > 0:
                    found[prefix + names[index]] = float(counts[index])
        if self.escapes > 0:
            found["dead_letter_escapes"] = float(self.escapes)
        return found
