"""Commits that wait for another one of the same app, oldest first. Owner: the transaction desk.

One that waits for a full queue may wait for long, and whoever loses patience closes its channel and
asks again; so what nobody hears the answer of any more is forgotten, and the rest has a bound.
"""

from collections.abc import Callable

from penstock.base.limits import TRANSACTION_WAITING
from penstock.broker.transaction.commit_routes import Asked, refused


class CommitsBehind:
    """What waits, by virtual host and app."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], list[tuple[Asked, Callable[[], None]]]] = {}

    def wait(self, key: tuple[str, str], asked: Asked, begin: Callable[[], None]) -> None:
        """Call `begin` when its turn comes. Raises: ChannelFault 406 at TRANSACTION_WAITING."""
        waiting = [one for one in self._waiting.get(key, []) if not one[0].is_gone()]
        if len(waiting) >= TRANSACTION_WAITING.default:
            raise refused(
                f"{len(waiting)} commits of app '{key[1]}' wait for another one already, and "
                f"{TRANSACTION_WAITING.default} may; is one query running twice?"
            )
        self._waiting[key] = [*waiting, (asked, begin)]

    def take(self, key: tuple[str, str]) -> list[Callable[[], None]]:
        """What to call now, in order."""
        return [begin for asked, begin in self._waiting.pop(key, []) if not asked.is_gone()]
