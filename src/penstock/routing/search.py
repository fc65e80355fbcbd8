"""The matches of one publish that are too long for one turn. COMPILED."""

from typing import Final

from mypy_extensions import i64

from penstock.routing.destination import Destination

NO_BOUND: Final = 1 << 60
RESTARTS_MAX: Final = 4
WORK_OF_ONE: Final = 8
"""Steps of matching that take about as long as an ordinary publish."""
MATCHED_AT_ONCE: Final = 2048
"""Steps that one publish is matched by in one turn; it goes on in the next."""


class Search:
    """What the exchanges on the way of one publish have matched so far. An exchange whose match is
    long asks for it, stops when `left` is used up, and goes on when the publish is routed again,
    which it is until nothing is `unfinished`. An exchange that was changed meanwhile begins anew;
    after RESTARTS_MAX times it is not stopped any more, so that a publish ends however often
    others bind.

    left: steps that may still be taken in this turn; at, found: where the exchange that is under
    way stopped, and what it had found by then.
    """

    __slots__ = (
        "_done",
        "_under_way",
        "_version",
        "at",
        "found",
        "is_unfinished",
        "left",
        "restarts",
    )

    def __init__(self) -> None:
        self._done: dict[Destination, tuple[int, list[Destination]]] = {}
        self._under_way: Destination | None = None
        self._version: i64 = 0
        self.at: i64 = 0
        self.found: list[Destination] = []
        self.is_unfinished = False
        self.left: i64 = 0
        self.restarts = 0

    def go_on(self, steps: i64) -> None:
        """The publish is routed, for about so many steps."""
        self.left = NO_BOUND if self.restarts > RESTARTS_MAX else steps
        self.is_unfinished = False

    def known(self, exchange: Destination, version: i64) -> list[Destination] | None:
        """What `exchange`, whose bindings are those of `version`, has matched; None as long as it
        has not. Then it is the one under way, if none before it is."""
        done = self._done.get(exchange)
        if done is not None:
            if done[0] == version:
                return done[1]
            del self._done[exchange]
            self.restarts += 1
        if self.is_unfinished:
            return None
        if self._under_way is not exchange or self._version != version:
            if self._under_way is not None:
                self.restarts += 1
            self._under_way = exchange
            self._version = version
            self.at = 0
            self.found = []
        return None

    def may_go_on(self) -> bool:
        """Whether the exchange under way may match on; if not, the publish is unfinished."""
        if self.left <= 0:
            self.is_unfinished = True
        return not self.is_unfinished

    def reached(self, at: i64, steps: i64, is_done: bool) -> bool:
        """The exchange under way has come to `at` in so many steps; `is_done` comes back."""
        self.left -= steps
        if is_done and self._under_way is not None:
            self._done[self._under_way] = (int(self._version), self.found)
            self._under_way = None
        elif not is_done:
            self.at = at
            self.is_unfinished = True
        return is_done
