"""Alerts for an administrator: which there are, how often one is sent, and what it says.

    memory alarm, disk alarm    when one begins on this node
    memory forecast             when the memory alarm is near, see admin/alarm_watch
    mirror out of sync          when mirrored queues go on without a node of the cluster
An alert is sent at the end of the next round of snapshots, so that its `why memory` knows of it; of
several in one round the first is the title. Then none is sent for a pause; those that come
meanwhile are counted, and the next one says how many there were. Pure: server/recorder sends.
Seed S2.
"""

from collections.abc import Callable
from dataclasses import dataclass

FORECAST = "memory forecast"


@dataclass(frozen=True, slots=True)
class Alert:
    """title: what has happened, `memory alarm`; text: its line in the log; withheld: alerts since
    the one that was sent last that were not sent."""

    title: str
    text: str
    withheld: int


class AlertPacer:
    """Collects what happens, and gives out an alert when one may be sent.

    pause_ns: between two that are sent, 0.. ; withheld: see Alert."""

    def __init__(self, pause_ns: int) -> None:
        self.pause_ns = pause_ns
        self.withheld = 0
        self._waiting: tuple[str, str] | None = None
        self._sent_ns = -1

    def note(self, title: str, text: str) -> None:
        """Something has happened."""
        if self._waiting is None:
            self._waiting = (title, text)
        else:
            self.withheld += 1

    def due(self, now_ns: int, is_free: bool) -> Alert | None:
        """The alert that is to be sent now, None if there is none. is_free: False while the last
        one is still under way: a receiver that hangs gets no second one."""
        waiting = self._waiting
        if waiting is None:
            return None
        self._waiting = None
        is_resting = self._sent_ns >= 0 and now_ns - self._sent_ns < self.pause_ns
        if is_resting or not is_free:
            self.withheld += 1
            return None
        alert = Alert(waiting[0], waiting[1], self.withheld)
        self.withheld = 0
        self._sent_ns = now_ns
        return alert


Teller = Callable[[str, str], None]
"""Is told the title and the text of everything that may be worth an alert."""


def tell_nobody(title: str, text: str) -> None:
    """Where no alerts are wanted."""
