"""What pages of the ledger have with everything below them, added up while a round walks by."""

from collections.abc import Iterator
from typing import Final

from penstock.flow.account import Account

STEP_PAGES: Final = 256
"""Pages looked at in one step."""


class Sum:
    """Of one page with everything below it, debt, stored, parked and unfinished; ended_bytes: of
    it, what connections that have ended left directly below."""

    def __init__(self) -> None:
        self.debt_messages = self.debt_bytes = 0
        self.stored_messages = self.stored_bytes = 0
        self.parked_messages = self.parked_bytes = 0
        self.unfinished_bytes = 0
        self.ended_bytes = 0

    def add_own(self, page: Account) -> None:
        self.debt_messages += int(page.debt_messages)
        self.debt_bytes += int(page.debt_bytes)
        self.stored_messages += int(page.stored_messages)
        self.stored_bytes += int(page.stored_bytes - page.shared_bytes)
        self.parked_messages += int(page.parked_messages)
        self.parked_bytes += int(page.parked_bytes)
        self.unfinished_bytes += int(page.unfinished_bytes)

    def memory_bytes(self) -> int:
        return self.debt_bytes + self.stored_bytes + self.parked_bytes + self.unfinished_bytes

    def add(self, other: "Sum") -> None:
        self.debt_messages += other.debt_messages
        self.debt_bytes += other.debt_bytes
        self.stored_messages += other.stored_messages
        self.stored_bytes += other.stored_bytes
        self.parked_messages += other.parked_messages
        self.parked_bytes += other.parked_bytes
        self.unfinished_bytes += other.unfinished_bytes


class PageSums:
    """The sums of one round: of what is directly below each page. Owner: the walk."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[str, Sum] = {}

    def met(self, page: Account) -> None:
        """The walk is at the connection whose page this is."""
        parent = page.parent
        if parent is not None:
            above = self._open.get(parent.name)
            if above is None:
                above = self._open[parent.name] = Sum()
            above.add_own(page)

    def ended(self, page: Account) -> Iterator[None]:
        """Add what connections that have ended left directly below `page`; STEP_PAGES a step."""
        above = self._open.get(page.name)
        if above is None:
            above = self._open[page.name] = Sum()
        for index, child in enumerate(list(page.children.values())):
            if child.is_closed and is_of_connection(child):
                above.add_own(child)
                above.ended_bytes += int(child.debt_bytes + child.stored_bytes - child.shared_bytes)
            if index % STEP_PAGES == STEP_PAGES - 1:
                yield None

    def whole(self, page: Account, below: list[Sum]) -> Sum:
        """The sum of a page that is not a connection's, when every connection was met and `ended`
        has been through it. below: of the pages directly below that are not connections' either."""
        total = Sum()
        total.add_own(page)
        known = self._open.get(page.name)
        if known is not None:
            total.add(known)
            total.ended_bytes = known.ended_bytes
        for one in below:
            total.add(one)
        return total


def is_of_connection(page: Account) -> bool:
    return page.name.startswith("conn:")
