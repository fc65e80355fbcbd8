"""One staged transaction: publishes of a channel that are kept apart until they are committed.

    OPEN     --stage-->    CHECKED     piece by piece
    CHECKED  --all is well--> STAGED   its channel publishes as ever again
    STAGED   --commit-->   COMMITTING  until the disk has all of it; then it is gone
    OPEN, CHECKED, STAGED --rollback, lifetime over, OPEN: its channel ended--> gone

What is staged has no credit to wait for: nobody can drain it before its commit, so a wait could
last for ever. Its room is reserved at the beginning instead, and what does not fit is refused.
Bound: TRANSACTION_BYTES each, TRANSACTIONS_BYTES together (broker/transaction/transaction_manager).
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.errors import ChannelFault
from penstock.broker.channel.transactions import Transaction
from penstock.protocol.content import Message
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES

OPEN: Final = 0
STAGED: Final = 1
COMMITTING: Final = 2
GONE: Final = 3
CHECKED: Final = 4


class StagedTransaction(Transaction):
    """identity: under which it is committed; app, batch, attempt: whose it is, as it said; staged:
    bytes, with MESSAGE_OVERHEAD_BYTES for each message, at most bytes_max; expires_ns:
    monotonic."""

    __slots__ = (
        "app",
        "attempt",
        "batch",
        "bytes_max",
        "expires_ns",
        "identity",
        "staged_bytes",
        "state",
    )

    def __init__(
        self, identity: str, app: str, batch: int, attempt: str, bytes_max: int, expires_ns: int
    ) -> None:
        super().__init__()
        self.identity = identity
        self.app = app
        self.batch = batch
        self.attempt = attempt
        self.bytes_max: i64 = bytes_max
        self.staged_bytes: i64 = 0
        self.expires_ns = expires_ns
        self.state: i64 = OPEN

    def publish(self, message: Message) -> None:
        """Keep a publish. Raises: ChannelFault 406 when it does not fit what was reserved, 404 when
        the transaction is over."""
        if self.state != OPEN:
            raise ChannelFault(
                404,
                f"the transaction of app '{self.app}', batch {self.batch}, is over: its time has "
                "passed, or it was rolled back",
                60,
                40,
            )
        size: i64 = len(message.raw)
        size += MESSAGE_OVERHEAD_BYTES
        if self.staged_bytes + size > self.bytes_max:
            raise ChannelFault(
                406,
                f"transaction of app '{self.app}' has reserved {int(self.bytes_max)} bytes, and "
                f"its publish number {len(self.messages) + 1} does not fit; it is rolled back. "
                "Begin it with a larger max_bytes, or publish fewer messages in each",
                60,
                40,
            )
        self.staged_bytes += size
        self.messages.append(message)

    def settle(self, tag: int, is_multiple: bool, action: int) -> None:
        """Raises: ChannelFault 406, because settles are not part of it."""
        raise _foreign("basic.ack, basic.nack and basic.reject")

    def clear(self) -> None:
        """Raises: ChannelFault 406: tx.commit and tx.rollback are for others."""
        raise _foreign("tx.commit and tx.rollback")


def _foreign(what: str) -> ChannelFault:
    return ChannelFault(
        406, f"the channel stages a transaction, and {what} cannot be part of it", 240, 10
    )
