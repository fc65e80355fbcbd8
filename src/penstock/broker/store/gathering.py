"""Whether a batch waits a moment for more messages, so that fewer syncs answer for the same number.

Two kinds of publishers make it worth while:

    window  a publisher with a window of unconfirmed messages sends as many as were just confirmed.
            If half of it is in one batch and half in the next, it stays so. `peak` is the most
            messages that were ever unanswered when a batch ended, and a window that is full ends at
            the same number each time: once it was reached again, a batch waits until it is
    flow    where no window is seen and FLOW_MESSAGES came while one batch was written, more are on
            their way: a batch waits until it has GATHER_MESSAGES

A batch waits at most `wait_ns`. After a wait in vain the peak has to be reached twice as often, or
twice as many batches go at once, before the next attempt. If more than the peak comes while a batch
is written, messages do not come because of answers, and the peak is learnt anew.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.limits import STORE_GATHER_MESSAGES, STORE_GATHER_US

WAIT_NS: Final = STORE_GATHER_US.default * 1000
GATHER_MESSAGES: Final = STORE_GATHER_MESSAGES.default
FLOW_MESSAGES: Final = 256
FIRST_REPEATS: Final = 2
REPEATS_MOST: Final = 1024


class Gathering:
    """wait_ns: how long a batch waits at most, 0 for never; unanswered: messages that were offered
    and not answered yet; repeats: how often the peak was reached again; wanted: how often it has to
    be; begun: messages that were unanswered when the batch began to wait, 0 while none waits;
    is_late: it has waited for long enough; skips: batches that go at once before the next one waits
    for a flow; skips_next: how many do after the next wait in vain."""

    __slots__ = (
        "begun",
        "is_late",
        "peak",
        "repeats",
        "skips",
        "skips_next",
        "unanswered",
        "wait_ns",
        "wanted",
    )

    def __init__(self) -> None:
        self.wait_ns: i64 = 0
        self.unanswered: i64 = 0
        self.peak: i64 = 0
        self.repeats: i64 = 0
        self.wanted: i64 = FIRST_REPEATS
        self.begun: i64 = 0
        self.is_late = False
        self.skips: i64 = 0
        self.skips_next: i64 = 1

    def ended(self) -> None:
        """A batch is on the disk, and none of it is answered yet."""
        if self.unanswered > self.peak:
            self.peak = self.unanswered
            self.repeats = 0
        elif self.unanswered == self.peak:
            self.repeats += 1

    def has_to_wait(self) -> bool:
        """Whether the batch that is being made waits for more."""
        if self.wait_ns == 0 or self.is_late:
            return False
        if self.repeats >= self.wanted:
            return self.unanswered < self.peak
        if self.unanswered >= GATHER_MESSAGES:
            return False
        return self.begun > 0 or (self.skips == 0 and self.unanswered >= FLOW_MESSAGES)

    def waits(self) -> None:
        """The batch begins to wait."""
        self.begun = self.unanswered

    def sent(self) -> None:
        """The batch goes to the disk, whether it waited or not."""
        if self.is_late and self.repeats >= self.wanted:
            self.peak = self.unanswered
            self.repeats = 0
            if self.wanted < REPEATS_MOST:
                self.wanted *= 2
        elif self.is_late and self.unanswered < self.begun + self.begun // 2:
            self.skips = self.skips_next
            if self.skips_next < REPEATS_MOST:
                self.skips_next *= 2
        elif self.begun > 0 and self.repeats >= self.wanted:
            self.wanted = FIRST_REPEATS
        elif self.begun > 0:
            self.skips_next = 1
        elif self.skips > 0:
            self.skips -= 1
        self.begun = 0
        self.is_late = False
