"""What a majority waits for, in words for the broker's `why`."""

from collections.abc import Iterable
from typing import Final

from penstock.replication.views import AWAY, COPY, DISK, LINK, FollowerWait

LOOKS: Final = 10
"""Between two sentences: half a second's."""
_CAUSES: Final = {
    DISK: "is behind by its disk",
    LINK: "is behind by its link",
    COPY: "is being copied",
    AWAY: "has no link",
}


class CommitWatch:
    """words: what held commits at more than half of the last looks, "" for nothing."""

    def __init__(self) -> None:
        self.words = ""
        self._looks = 0
        self._held = 0
        self._last: tuple[FollowerWait, ...] = ()

    def look(self, waits: tuple[FollowerWait, ...]) -> None:
        """What is waited for now."""
        self._looks += 1
        if waits:
            self._held += 1
            self._last = waits
        if self._looks < LOOKS:
            return
        self.words = in_words(self._last) if 2 * self._held > LOOKS else ""
        self._looks = self._held = 0


def in_words(waits: Iterable[FollowerWait]) -> str:
    """`node c is behind by its disk: 312 ms an answer; node b has no link for 4 s`."""
    return "; ".join(_one(one) for one in waits)


def _one(one: FollowerWait) -> str:
    said = f"node {one.name} {_CAUSES[one.cause]}"
    if one.cause == AWAY:
        return f"{said} for {one.ms / 1000:.1f} s"
    return said if one.cause == COPY else f"{said}: {one.ms} ms until it answers"
