"""Whether a batch waits a moment for more, because publishers are about to send again.

A publisher with a window of unconfirmed messages sends as many as were just confirmed. If half of
its window is in one batch and half in the next, it stays so, and every message pays for twice as
many syncs as it needs. What is known of it:

    peak    the most messages that were ever unanswered when a batch ended, and how often it was
            reached again: a window that is full ends at the same number each time
A batch waits while less than the peak is unanswered, at most `wait_ns`. If it waits in vain, the
peak has to be reached twice as often before the next attempt; if more than the peak comes while the
batch is written, messages do not come because of answers, and the peak is learnt anew.
"""

from typing import Final

from mypy_extensions import i64

FIRST_REPEATS: Final = 2
REPEATS_MOST: Final = 1024


class Gathering:
    """wait_ns: how long a batch waits at most, 0 for never; unanswered: messages that were offered
    and not answered yet; repeats: how often the peak was reached again; wanted: how often it has to
    be; is_waiting: a batch waits; is_late: it has waited for long enough."""

    __slots__ = ("is_late", "is_waiting", "peak", "repeats", "unanswered", "wait_ns", "wanted")

    def __init__(self) -> None:
        self.wait_ns: i64 = 0
        self.unanswered: i64 = 0
        self.peak: i64 = 0
        self.repeats: i64 = 0
        self.wanted: i64 = FIRST_REPEATS
        self.is_waiting = False
        self.is_late = False

    def ended(self) -> None:
        """A batch is on the disk, and none of it is answered yet."""
        if self.unanswered > self.peak:
            self.peak = self.unanswered
            self.repeats = 0
        elif self.unanswered == self.peak:
            self.repeats += 1

    def has_to_wait(self) -> bool:
        """Whether the batch that is being made waits for more."""
        if self.wait_ns == 0 or self.is_late or self.repeats < self.wanted:
            return False
        return self.unanswered < self.peak

    def sent(self) -> None:
        """The batch goes to the disk, whether it waited or not."""
        if self.is_late:
            self.peak = self.unanswered
            self.repeats = 0
            if self.wanted < REPEATS_MOST:
                self.wanted *= 2
        elif self.is_waiting:
            self.wanted = FIRST_REPEATS
        self.is_waiting = False
        self.is_late = False
