"""Credit on a hop (seeds S0, S1): hand over while the balance lasts, get more in fixed quanta.

The sender's gate closes on the edge where the balance reaches zero and opens when it is above zero
again. The receiver counts what it repaid and grants `more_after` at a time; while its own gate is
closed the grant is deferred there. Messages and bytes are two windows; either may be off (0).
Source: flow-semantics section 2; scenarios 1-21.
"""

from mypy_extensions import i64, mypyc_attr

from penstock.base.errors import OperatorError
from penstock.flow.account import Account
from penstock.flow.hop import KIND_NAMES, Hop
from penstock.flow.strategy import Strategy


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
        if (
            origin.is_plain
            and origin.debt_messages + origin.below_messages + messages <= origin.mark_messages
            and origin.debt_bytes + origin.below_bytes + bytes_ <= origin.mark_bytes
        ):
            origin.debt_messages += messages
            origin.debt_bytes += bytes_
        else:
            origin.charge(messages, bytes_)

    def repay(self, hop: Hop, origin: Account, messages: i64, bytes_: i64) -> None:
        hop.in_flight -= messages
        hop.in_flight_bytes -= bytes_
        assert hop.in_flight >= 0 and hop.in_flight_bytes >= 0, "repaid more than was charged"
        hop.done += messages
        hop.done_bytes += bytes_
        if hop.done >= hop.more_after or hop.done_bytes >= hop.more_after_bytes:
            hop.grant_due()
        origin.repay(messages, bytes_)
