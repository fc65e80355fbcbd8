"""When a receiver grants a sender more: the base keeps the books, debt and credit hold senders.

The base is the strategy `none`: costs are charged and repaid, so the ledger is right, and no gate
ever closes. Every other strategy adds its rule to these books.

Credit (seeds S0, S1): hand over while the balance lasts, get more in fixed quanta. The sender's
gate closes on the edge where the balance reaches zero and opens when it is above zero again. The
receiver counts what it repaid and grants `more_after` at a time; while its own gate is closed the
grant is deferred there. Messages and bytes are two windows; either may be off (0).
Source: flow-semantics section 2; scenarios 1-21.
"""

from mypy_extensions import i64, mypyc_attr

from penstock.base.errors import OperatorError
from penstock.flow.account import Account
from penstock.flow.hop import KIND_NAMES, Hop


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

    def spare(self, hop: Hop, origin: Account) -> tuple[i64, i64]:
        """So many messages and bytes together may be charged in one piece: nothing happens on the
        way that would not happen if each were charged for itself. (0, 0) where that is not known.
        """
        if not origin.is_plain:
            return (0, 0)
        return (
            origin.mark_messages - origin.debt_messages - origin.below_messages,
            origin.mark_bytes - origin.debt_bytes - origin.below_bytes,
        )

    def repay(self, hop: Hop, origin: Account, messages: i64, bytes_: i64) -> None:
        """The receiver is done with them, or has handed them on and charged that first."""
        hop.in_flight -= messages
        hop.in_flight_bytes -= bytes_
        assert hop.in_flight >= 0 and hop.in_flight_bytes >= 0, "repaid more than was charged"
        origin.repay(messages, bytes_)

    def repair(self, hop: Hop, origin: Account) -> None:
        """The books of `hop` are wrong, which is a bug of ours: begin anew, with a whole window."""
        self.forget(hop, origin)
        self.wire(hop)

    def forget(self, hop: Hop, origin: Account) -> None:
        """The receiver is gone: what it held is repaid, the balance starts anew, the epoch ends."""
        if hop.in_flight > 0 or hop.in_flight_bytes > 0:
            origin.repay(hop.in_flight, hop.in_flight_bytes)
        if hop.room is not None:
            hop.room.in_flight_bytes -= hop.in_flight_bytes + hop.in_flight * hop.room.extra_bytes
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


class Window:
    """`initial`, `more_after`: 0 and 0 switch the dimension off. Raises OperatorError when the
    sender could stop before the receiver owes a grant (scenario 15)."""

    __slots__ = ("initial", "more_after", "unit")

    def __init__(self, initial: int, more_after: int, unit: str) -> None:
        if initial < 0 or more_after < 0 or (initial == 0) != (more_after == 0):
            raise OperatorError(
                f"credit window {{{initial}, {more_after}}} {unit}: both must be positive, or "
                "both 0 to switch credit off"
            )
        if initial < more_after:
            raise OperatorError(
                f"credit window {{{initial}, {more_after}}} {unit}: initial must be at least "
                f"more_after, or the sender stops after {initial} and the first grant, due after "
                f"{more_after}, never comes; raise initial to {more_after} or lower more_after"
            )
        self.initial = initial
        self.more_after = more_after
        self.unit = unit


@mypyc_attr(allow_interpreted_subclasses=True)
class Credit(Strategy):
    """Credit in messages, and in bytes where a byte window is on; by kind of hop. is_fair: what
    receivers keep back is released in equal shares of bytes."""

    __slots__ = ("bytes_windows", "is_fair", "windows")

    def __init__(self, name: str, window: Window, bytes_window: Window) -> None:
        """The same windows for every kind of hop, until `set_windows`."""
        super().__init__(name)
        self.windows = [window] * len(KIND_NAMES)
        self.bytes_windows = [bytes_window] * len(KIND_NAMES)
        self.is_fair = False

    def set_windows(self, kind: int, window: Window, bytes_window: Window) -> None:
        """From now on hops of `kind` are wired with these; `resize` gives them to one that is."""
        self.windows[kind] = window
        self.bytes_windows[kind] = bytes_window

    def wire(self, hop: Hop) -> None:
        hop.is_fair = self.is_fair
        self.resize(hop)

    def resize(self, hop: Hop) -> None:
        """Give `hop` the window of its kind, whatever is under way (scenario 120)."""
        window = self.windows[hop.kind]
        bytes_window = self.bytes_windows[hop.kind]
        hop.set_window(
            window.initial, window.more_after, bytes_window.initial, bytes_window.more_after
        )

    def charge(self, hop: Hop, origin: Account, messages: i64, bytes_: i64) -> None:
        hop.in_flight += messages
        hop.in_flight_bytes += bytes_
        hop.balance -= messages
        hop.balance_bytes -= bytes_
        # The edge is tested here, and not in settle(), because this runs for every message.
        if not hop.is_spent and (
            (hop.balance <= 0 and hop.window > 0)
            or (hop.balance_bytes <= 0 and hop.window_bytes > 0)
        ):
            hop.settle()
        room = hop.room
        if room is not None:
            size: i64 = bytes_ + messages * room.extra_bytes
            under_way: i64 = room.in_flight_bytes + size
            hop.size_bytes = size
            room.in_flight_bytes = under_way
            if room.is_tight:
                room.used(hop, bytes_)
            elif under_way >= room.limit_bytes:
                room.tighten()
        if (
            origin.is_plain
            and origin.debt_messages + origin.below_messages + messages <= origin.mark_messages
            and origin.debt_bytes + origin.below_bytes + bytes_ <= origin.mark_bytes
        ):
            origin.debt_messages += messages
            origin.debt_bytes += bytes_
        else:
            origin.charge(messages, bytes_)

    def spare(self, hop: Hop, origin: Account) -> tuple[i64, i64]:
        if not origin.is_plain or hop.is_spent:
            return (0, 0)
        messages: i64 = origin.mark_messages - origin.debt_messages - origin.below_messages
        bytes_: i64 = origin.mark_bytes - origin.debt_bytes - origin.below_bytes
        # What uses up a window closes a gate, and is charged for itself.
        if hop.window > 0 and messages >= hop.balance:
            messages = hop.balance - 1
        if hop.window_bytes > 0 and bytes_ >= hop.balance_bytes:
            bytes_ = hop.balance_bytes - 1
        room = hop.room
        if room is not None:
            if room.is_tight:
                return (0, 0)
            # One half for the bytes, the other for what each message takes beside them.
            half: i64 = (room.limit_bytes - room.in_flight_bytes) // 2
            if bytes_ >= half:
                bytes_ = half - 1
            if room.extra_bytes > 0 and messages > (half - 1) // room.extra_bytes:
                messages = (half - 1) // room.extra_bytes
        return (messages, bytes_)

    def repay(self, hop: Hop, origin: Account, messages: i64, bytes_: i64) -> None:
        hop.in_flight -= messages
        hop.in_flight_bytes -= bytes_
        assert hop.in_flight >= 0 and hop.in_flight_bytes >= 0, "repaid more than was charged"
        room = hop.room
        if room is not None:
            # What was under way is content now, and stays so until the receiver measures it.
            taken: i64 = bytes_ + messages * room.extra_bytes
            room.in_flight_bytes -= taken
            room.limit_bytes -= taken
        hop.done += messages
        hop.done_bytes += bytes_
        if hop.done >= hop.more_after or hop.done_bytes >= hop.more_after_bytes:
            hop.grant_due()
        origin.repay(messages, bytes_)
