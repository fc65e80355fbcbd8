"""Several strategies on the same hops at once: one keeps the books, the others add their rules.

A rule looks at the books after every change and closes or opens gates for a reason of its own;
reasons keep them apart, so that one rule's opening cannot undo another's closing. It is how
RabbitMQ lays the soft limit of quorum queues over credit (a pseudo-peer among the blockers).
Source: architecture section 5 (strategies); flow-semantics 8.1.
"""

from collections.abc import Sequence

from mypy_extensions import i64, mypyc_attr

from penstock.flow.account import Account
from penstock.flow.hop import Hop
from penstock.flow.strategy import Strategy


@mypyc_attr(allow_interpreted_subclasses=True)
class Rule:
    """A rule that is laid over a strategy. Nominal base."""

    __slots__ = ()

    def wired(self, hop: Hop) -> None:
        """A hop begins its life."""

    def charged(self, hop: Hop, messages: i64, bytes_: i64) -> None:
        """The books of `hop` have this much more in flight."""

    def repaid(self, hop: Hop, messages: i64, bytes_: i64) -> None:
        """The books of `hop` have this much less in flight."""

    def forgotten(self, hop: Hop) -> None:
        """The receiver is gone: let go of the sender."""


class Both(Strategy):
    """books: the strategy that charges and repays; rules: laid over it, in order."""

    __slots__ = ("books", "rules")

    def __init__(self, name: str, books: Strategy, rules: list[Rule]) -> None:
        super().__init__(name)
        self.books = books
        self.rules = rules

    def wire(self, hop: Hop) -> None:
        self.books.wire(hop)
        for rule in self.rules:
            rule.wired(hop)

    def charge(self, hop: Hop, origin: Account, messages: i64, bytes_: i64) -> None:
        self.books.charge(hop, origin, messages, bytes_)
        for rule in self.rules:
            rule.charged(hop, messages, bytes_)

    def repay(self, hop: Hop, origin: Account, messages: i64, bytes_: i64) -> None:
        self.books.repay(hop, origin, messages, bytes_)
        for rule in self.rules:
            rule.repaid(hop, messages, bytes_)

    def passed(self, hops: Sequence[Hop]) -> None:
        self.books.passed(hops)

    def forget(self, hop: Hop, origin: Account) -> None:
        self.books.forget(hop, origin)
        for rule in self.rules:
            rule.forgotten(hop)
