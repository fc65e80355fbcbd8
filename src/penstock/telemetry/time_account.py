"""Where an actor's time went, by state. This module is compiled.

TimeAccount splits wall time into four states that exclude one another; at every instant
    idle + busy + blocked + waiting = now - start.
"""

from typing import Final

from mypy_extensions import mypyc_attr

IDLE: Final = 0
BUSY: Final = 1
BLOCKED: Final = 2
WAITING: Final = 3


@mypyc_attr(acyclic=True)
class TimeAccount:
    """One actor's time by state. Starts IDLE at `now_ns`. Kept from the garbage collector.

    state: what it is in now; start_ns: when it started. Both are for reading only.
    """

    __slots__ = (
        "_blocked_ns",
        "_busy_ns",
        "_idle_ns",
        "_since_ns",
        "_waiting_ns",
        "start_ns",
        "state",
    )

    def __init__(self, now_ns: int) -> None:
        self.state = IDLE
        self.start_ns = now_ns
        self._since_ns = now_ns
        self._idle_ns = 0
        self._busy_ns = 0
        self._blocked_ns = 0
        self._waiting_ns = 0

    def enter(self, state: int, now_ns: int) -> None:
        """From `now_ns` on the actor is in `state`: IDLE, BUSY, BLOCKED or WAITING.

        Entering the present state again changes nothing but the books' date.
        Raises: AssertionError on another state, or when time went back.
        """
        assert IDLE <= state <= WAITING, "no such state"
        elapsed_ns = now_ns - self._since_ns
        assert elapsed_ns >= 0, "time never goes back"
        self._spend(elapsed_ns)
        self.state = state
        self._since_ns = now_ns

    def _spend(self, elapsed_ns: int) -> None:
        """So much of its time goes to the state it is in."""
        state = self.state
        if state == IDLE:
            self._idle_ns += elapsed_ns
        elif state == BUSY:
            self._busy_ns += elapsed_ns
        elif state == BLOCKED:
            self._blocked_ns += elapsed_ns
        else:
            self._waiting_ns += elapsed_ns

    def worked(self, began_ns: int, now_ns: int, state: int) -> None:
        """It was BUSY from `began_ns`, or since it was entered last, to `now_ns`, and from now on
        is in `state`."""
        since_ns = self._since_ns
        if since_ns < began_ns:
            self._spend(began_ns - since_ns)
            since_ns = began_ns
        assert since_ns <= now_ns, "time never goes back"
        self._busy_ns += now_ns - since_ns
        self.state = state
        self._since_ns = now_ns

    def rests_since(self) -> int:
        """Since when it is IDLE and its accounts were not read, -1 if it is not idle."""
        return self._since_ns if self.state == IDLE else -1

    def totals(self, now_ns: int) -> tuple[int, int, int, int]:
        """Nanoseconds idle, busy, blocked, waiting; they sum to `now_ns` minus the start."""
        self.enter(self.state, now_ns)
        return self._idle_ns, self._busy_ns, self._blocked_ns, self._waiting_ns
