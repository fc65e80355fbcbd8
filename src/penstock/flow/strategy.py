"""The rule of flow control on a hop, as a plain base class that keeps the books and holds nobody.

The base is the strategy `none`: costs are charged and repaid, so the ledger is right, and no gate
ever closes. Every other strategy adds its rule to these books.
"""

from collections.abc import Sequence

from mypy_extensions import i64, mypyc_attr

from penstock.flow.account import Account
from penstock.flow.hop import Hop


@mypyc_attr(allow_interpreted_subclasses=True)
class Strategy:
    """charge before handing over, repay on every way out, forget when the receiver is gone."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def join(self, account: Account) -> None:
        """The page of a connection begins its life under this strategy."""

    def before_read(self, account: Account) -> None:
        """Somebody is about to read work of `account`; its gate says afterwards whether he may."""

    def low_of(self, high: int) -> int:
        """The debt at which a page that was held above `high` goes on, unless told otherwise."""
        return high // 2

    def wire(self, hop: Hop) -> None:
        """A hop begins its life under this strategy."""

    def charge(self, hop: Hop, origin: Account, messages: i64, bytes_: i64) -> None:
        """`messages` and `bytes_` are about to enter the receiver's mailbox."""
        hop.in_flight += messages
        hop.in_flight_bytes += bytes_
        origin.charge(messages, bytes_)

    def repay(self, hop: Hop, origin: Account, messages: i64, bytes_: i64) -> None:
        """The receiver is done with them, or has handed them on and charged that first."""
        hop.in_flight -= messages
        hop.in_flight_bytes -= bytes_
        assert hop.in_flight >= 0 and hop.in_flight_bytes >= 0, "repaid more than was charged"
        origin.repay(messages, bytes_)

    def passed(self, hops: Sequence[Hop]) -> None:
        """Work for other receivers has gone past work that waits for `hops`, and the next piece for
        one of these would hold it up."""

    def repair(self, hop: Hop, origin: Account) -> None:
        """The books of `hop` are wrong, which is a bug of ours: begin anew, with a whole window."""
        self.forget(hop, origin)
        self.wire(hop)

    def forget(self, hop: Hop, origin: Account) -> None:
        """The receiver is gone: what it held is repaid, the balance starts anew, the epoch ends."""
        if hop.in_flight > 0 or hop.in_flight_bytes > 0:
            origin.repay(hop.in_flight, hop.in_flight_bytes)
        if hop.deferred > 0 or hop.deferred_bytes > 0:
            hop.receiver_gate.drop(hop)
        hop.in_flight = 0
        hop.in_flight_bytes = 0
        hop.done = 0
        hop.done_bytes = 0
        hop.deferred = 0
        hop.deferred_bytes = 0
        hop.granted = 0
        hop.balance = hop.window
        hop.balance_bytes = hop.window_bytes
        hop.epoch += 1
        hop.settle()


class Debt(Strategy):
    """Debt alone (seed S4, Syndicate): no credit on hops; a connection in debt stops reading.

    before each read   debt > limit: wait        debt == limit: read (scenario 93)
    a read             is admitted as a whole, however many messages are in it (scenario 105)
    debt <= limit      every connection that waits on the account goes on (scenario 107)
    There is one mark, not two. Inner actors never wait, so there is no wait-for edge between them
    and no deadlock by construction. Source: flow-semantics 13.2, 13.4."""

    __slots__ = ()

    def join(self, account: Account) -> None:
        account.be_lenient()

    def before_read(self, account: Account) -> None:
        account.ask()

    def low_of(self, high: int) -> int:
        return high
