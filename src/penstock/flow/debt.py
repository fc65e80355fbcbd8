"""Debt alone (seed S4, Syndicate): no credit on hops; who started the work stops reading.

    before each read   debt > limit: wait        debt == limit: read (scenario 93)
    a read             is admitted as a whole, however many messages are in it (scenario 105)
    debt <= limit      everybody who waits on the account goes on (scenario 107)
Inner actors never wait, so there is no wait-for edge between them and no deadlock by construction.
Source: flow-semantics 13.2, 13.4.
"""

from penstock.flow.account import Account
from penstock.flow.strategy import Strategy


class Debt(Strategy):
    """One mark, not two: who is held goes on at the limit itself."""

    __slots__ = ()

    def join(self, account: Account) -> None:
        account.be_lenient()

    def before_read(self, account: Account) -> None:
        account.ask()

    def low_of(self, high: int) -> int:
        return high
