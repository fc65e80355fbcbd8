"""The ledger page of one first cause: how much work it has outstanding, and who waits for that.

Seed S4: every piece of work is charged to the account that started it and repaid when it is done.
    debt    cost of everything of this cause in mailboxes, and of its bytes that wait for sockets
    stored  cost of what of this cause rests in queues; counted apart, and never a reason to wait
    shared  of that, what is in the books more than once and in memory once, because several queues
            hold the same message
    parked  cost of what of it waits in front of queues that take nothing; bounded by its lot. What
            of it is on the disk is counted apart, and no part of its memory
    unfinished  bytes that have been read and are no message yet; bounded by broker/connection
Accounts nest: connection within user within virtual host within node, each with its own marks.
    held  <=>  debt of the page and everything below it rose above `high`, and has not come down
               to `low` since
A held page closes the gates of the pages below it that owe something, and opens them all together
when it is no longer held. A page that owes nothing is let on: it cannot make the debt smaller by
waiting, and what it reads may be the answers that do (a consumer of the same user). One that owes
something and has answers to read is let on for one charge at a time (`let_on`).
Unlimited pages cost a charge nothing: each page knows its nearest limited ancestor, and only those
keep a sum. Source: flow-semantics section 13, W19; scenarios 92-111.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.base.errors import OperatorError
from penstock.flow.gate import Gate

NO_MARK: Final = 1 << 62
REASON: Final = "debt"
NO_CHILDREN: Final[dict[str, "Account"]] = {}
"""What all pages of connections share, as nothing is below them."""


class Account(Cause):
    """One page. `high_messages`, `high_bytes`: 0 for no limit; `gate`: of the connection, None for
    pages that are nobody's own and for those whose connection has ended.

    is_plain: open and below no limited page, so a charge up to the marks changes its sum alone;
    is_lenient: a charge never closes the gate, only `ask` does (a read is admitted as a whole);
    is_let_on: the gate was opened although the page is held, and the next charge closes it;
    below_*: debt of all pages below, kept while this page has a limit; held_since_ns: while held;
    attached_count: pages that were ever put below this one."""

    __slots__ = (
        "attached_count",
        "below_bytes",
        "below_messages",
        "children",
        "debt_bytes",
        "debt_messages",
        "gate",
        "held_since_ns",
        "high_bytes",
        "high_messages",
        "is_closed",
        "is_held",
        "is_lenient",
        "is_let_on",
        "is_limited",
        "is_listed",
        "is_plain",
        "key",
        "limited",
        "low_bytes",
        "low_messages",
        "mark_bytes",
        "mark_messages",
        "parent",
        "parked_bytes",
        "parked_disk_bytes",
        "parked_messages",
        "shared_bytes",
        "stored_bytes",
        "stored_messages",
        "unfinished_bytes",
    )

    def __init__(self, name: str, parent: "Account | None", gate: Gate | None, high_bytes: int):
        """high_bytes: as `set_limits` would, with a low mark of half of it."""
        super().__init__(name)
        self.gate = gate
        self.debt_messages: i64 = 0
        self.debt_bytes: i64 = 0
        self.stored_messages: i64 = 0
        self.stored_bytes: i64 = 0
        self.shared_bytes: i64 = 0
        self.parked_messages: i64 = 0
        self.parked_bytes: i64 = 0
        self.parked_disk_bytes: i64 = 0
        self.unfinished_bytes: i64 = 0
        self.below_messages: i64 = 0
        self.below_bytes: i64 = 0
        self.high_messages: i64 = 0
        self.low_messages: i64 = 0
        self.high_bytes: i64 = 0
        self.low_bytes: i64 = 0
        self.mark_messages: i64 = NO_MARK
        self.mark_bytes: i64 = NO_MARK
        self.is_plain = True
        self.is_limited = False
        self.is_lenient = False
        self.is_let_on = False
        self.is_held = False
        self.held_since_ns: int = 0
        self.is_closed = False
        self.is_listed = False
        self.attached_count: i64 = 0
        self.key = name
        self.children: dict[str, Account] = NO_CHILDREN
        self.parent: Account | None = parent
        self.limited: Account | None = None
        if parent is not None:
            parent._attach(self)
        if high_bytes > 0:
            self.set_limits(0, 0, high_bytes, high_bytes // 2)

    # -- debt ------------------------------------------------------------------------------------

    def charge(self, messages: i64, bytes_: i64) -> None:
        """More work of this cause: `messages`, `bytes_` 0.. ; may pass the limit by one message."""
        if self.is_closed and not self.is_listed:
            self._relist()
        self.debt_messages += messages
        self.debt_bytes += bytes_
        if not self.is_held and (
            self.debt_messages + self.below_messages > self.mark_messages
            or self.debt_bytes + self.below_bytes > self.mark_bytes
        ):
            self._hold()
        elif self.is_let_on:
            self._hold_again()
        if self.limited is not None:
            self._charge_above(messages, bytes_)

    def repay(self, messages: i64, bytes_: i64) -> None:
        """Work done. Raises: AssertionError if more is repaid than was charged."""
        self.debt_messages -= messages
        self.debt_bytes -= bytes_
        assert self.debt_messages >= 0 and self.debt_bytes >= 0, "repaid more than was charged"
        if self.is_held and self._is_low():
            self._let_go()
        if self.limited is not None:
            self._repay_above(messages, bytes_)
        if self.is_closed:
            self._vanish_if_done()

    def ask(self) -> None:
        """Somebody is about to read new work of this cause: a page above its mark is held now."""
        if not self.is_held and self.is_limited and self._is_high():
            self._hold()

    def _charge_above(self, messages: i64, bytes_: i64) -> None:
        page = self.limited
        while page is not None:
            page.below_messages += messages
            page.below_bytes += bytes_
            if page.is_held:
                # Again for the same pair changes nothing, and this is not the usual case.
                if self.gate is not None:
                    self.gate.close(page.name, REASON)
            elif (
                page.debt_messages + page.below_messages > page.mark_messages
                or page.debt_bytes + page.below_bytes > page.mark_bytes
            ):
                page._hold()
            page = page.limited

    def _repay_above(self, messages: i64, bytes_: i64) -> None:
        page = self.limited
        while page is not None:
            page.below_messages -= messages
            page.below_bytes -= bytes_
            if page.is_held:
                if page._is_low():
                    page._let_go()
                elif self.gate is not None and self.owes_nothing():
                    self.gate.open(page.name, REASON)
            page = page.limited

    def is_stopped(self) -> bool:
        """Whether its gate is closed for debt, its own or that of a page above: nothing more is to
        be begun."""
        gate = self.gate
        if gate is None or gate.is_open:
            return False
        return any(reason == REASON for _, reason in gate.reasons)

    def owes_nothing(self) -> bool:
        """No debt on this very page."""
        return self.debt_messages == 0 and self.debt_bytes == 0

    def _is_high(self) -> bool:
        return (
            self.high_messages > 0 and self.debt_messages + self.below_messages > self.high_messages
        ) or (self.high_bytes > 0 and self.debt_bytes + self.below_bytes > self.high_bytes)

    def _is_low(self) -> bool:
        return (
            self.high_messages == 0 or self.debt_messages + self.below_messages <= self.low_messages
        ) and (self.high_bytes == 0 or self.debt_bytes + self.below_bytes <= self.low_bytes)

    # -- holding ---------------------------------------------------------------------------------

    def _hold(self) -> None:
        self.is_held = True
        self.held_since_ns = 0
        self._close_gates(self)

    def _close_gates(self, holder: "Account") -> None:
        """Close the gates from here down, for `holder`; it remembers when the first one closed."""
        gate = self.gate
        if gate is not None and (self is holder or not self.owes_nothing()):
            gate.close(holder.name, REASON)
            if holder.held_since_ns == 0:
                holder.held_since_ns = gate.reasons[(holder.name, REASON)]
        for child in list(self.children.values()):
            child._close_gates(holder)

    def let_on(self) -> str:
        """Read the connection of this page, although it is held, until something is charged to it:
        what it reads may be the answers that its debt waits for. By which page it was held, "" for
        none."""
        gate = self.gate
        holder = ""
        page: Account | None = self
        while gate is not None and page is not None:
            if page.is_held and (page.name, REASON) in gate.reasons:
                holder = page.name
                gate.open(holder, REASON)
            page = page.parent
        if holder != "":
            self.is_let_on = True
            self.is_plain = False
        return holder

    def _hold_again(self) -> None:
        """It was let on, and has read more work."""
        self.is_let_on = False
        self.is_plain = self.limited is None and not self.is_closed
        if self.is_held and self.gate is not None:
            self.gate.close(self.name, REASON)

    def _let_go(self) -> None:
        """Everybody below goes on, and not one of them only (scenario 107)."""
        self.is_held = False
        self._open_gates(self.name)

    def _open_gates(self, holder: str) -> None:
        if self.gate is not None:
            self.gate.open(holder, REASON)
        for child in list(self.children.values()):
            child._open_gates(holder)

    # -- limits ----------------------------------------------------------------------------------

    def set_limits(
        self, high_messages: int, low_messages: int, high_bytes: int, low_bytes: int
    ) -> None:
        """Give the page its marks, or change them live; `high_*` 0: no limit in that dimension.
        A limit set while there is debt starts from the true sums. Raises: OperatorError when a low
        mark is negative or above its high mark."""
        for high, low, unit in (
            (high_messages, low_messages, "messages"),
            (high_bytes, low_bytes, "bytes"),
        ):
            if high < 0 or low < 0 or low > high:
                raise OperatorError(
                    f"limit of {self.name}: high {high} and low {low} {unit}: low must be 0.. and "
                    "at most high; high 0 switches the limit off"
                )
        self.high_messages = high_messages
        self.low_messages = low_messages
        self.high_bytes = high_bytes
        self.low_bytes = low_bytes
        self.is_limited = high_messages > 0 or high_bytes > 0
        self.below_messages = 0
        self.below_bytes = 0
        if self.is_limited:
            self.below_messages = self.total_messages() - self.debt_messages
            self.below_bytes = self.total_bytes() - self.debt_bytes
        self._set_marks()
        for child in self.children.values():
            child._relink()
        if self.is_held and (not self.is_limited or self._is_low()):
            self._let_go()
        elif not self.is_lenient:
            self.ask()

    def be_lenient(self) -> None:
        """From now on a charge never closes the gate; whoever reads has to `ask`."""
        self.is_lenient = True
        self._set_marks()

    def _set_marks(self) -> None:
        self.mark_messages = NO_MARK
        self.mark_bytes = NO_MARK
        if not self.is_lenient:
            if self.high_messages > 0:
                self.mark_messages = self.high_messages
            if self.high_bytes > 0:
                self.mark_bytes = self.high_bytes

    def _relink(self) -> None:
        """Find the nearest limited ancestor anew, from here down to the next limited page."""
        parent = self.parent
        self.limited = None
        if parent is not None:
            self.limited = parent if parent.is_limited else parent.limited
        self.is_plain = self.limited is None and not self.is_closed and not self.is_let_on
        for child in self.children.values():
            child._relink()

    # -- stored messages -------------------------------------------------------------------------

    def store(self, messages: i64, bytes_: i64) -> None:
        if self.is_closed and not self.is_listed:
            self._relist()
        self.stored_messages += messages
        self.stored_bytes += bytes_

    def unstore(self, messages: i64, bytes_: i64) -> None:
        """Raises: AssertionError if more leaves the queues than came into them."""
        self.stored_messages -= messages
        self.stored_bytes -= bytes_
        assert self.stored_messages >= 0 and self.stored_bytes >= 0, "more left than was stored"
        if self.is_closed:
            self._vanish_if_done()

    def share(self, bytes_: i64) -> None:
        """Raises: AssertionError if more is shared no more than was."""
        self.shared_bytes += bytes_
        assert self.shared_bytes >= 0, "fewer share a message than did"

    def park(self, messages: i64, bytes_: i64) -> None:
        """Publishes of this cause wait in front of queues that take nothing."""
        if self.is_closed and not self.is_listed:
            self._relist()
        self.parked_messages += messages
        self.parked_bytes += bytes_

    def unpark(self, messages: i64, bytes_: i64) -> None:
        """They go on, or end. Raises: AssertionError if more leave than came."""
        self.parked_messages -= messages
        self.parked_bytes -= bytes_
        assert self.parked_messages >= 0 and self.parked_bytes >= 0, "more left than was parked"
        if self.is_closed:
            self._vanish_if_done()

    def spill(self, bytes_: i64) -> None:
        """Files of parked publishes of this cause are written."""
        if self.is_closed and not self.is_listed:
            self._relist()
        self.parked_disk_bytes += bytes_

    def unspill(self, bytes_: i64) -> None:
        """They are gone. Raises: AssertionError if more go than came."""
        self.parked_disk_bytes -= bytes_
        assert self.parked_disk_bytes >= 0, "more has left the disk than went there"
        if self.is_closed:
            self._vanish_if_done()

    # -- sums ------------------------------------------------------------------------------------

    def total_messages(self) -> int:
        """Debt in messages with everything nested below."""
        total = int(self.debt_messages)
        for child in self.children.values():
            total += child.total_messages()
        return total

    def total_bytes(self) -> int:
        """Debt in bytes with everything nested below."""
        total = int(self.debt_bytes)
        for child in self.children.values():
            total += child.total_bytes()
        return total

    def total_stored_messages(self) -> int:
        """Messages in queues, with everything nested below."""
        total = int(self.stored_messages)
        for child in self.children.values():
            total += child.total_stored_messages()
        return total

    def total_stored_bytes(self) -> int:
        """Bytes in queues, with everything nested below; what queues share is counted once."""
        total = int(self.stored_bytes - self.shared_bytes)
        for child in self.children.values():
            total += child.total_stored_bytes()
        return total

    def total_parked_messages(self) -> int:
        """Publishes that are parked, with everything nested below."""
        total = int(self.parked_messages)
        for child in self.children.values():
            total += child.total_parked_messages()
        return total

    def total_parked_bytes(self) -> int:
        """Bytes that are parked, with everything nested below."""
        total = int(self.parked_bytes)
        for child in self.children.values():
            total += child.total_parked_bytes()
        return total

    def total_parked_disk_bytes(self) -> int:
        """Bytes on the disk for publishes that are parked, with everything nested below."""
        total = int(self.parked_disk_bytes)
        for child in self.children.values():
            total += child.total_parked_disk_bytes()
        return total

    def total_unfinished_bytes(self) -> int:
        """Bytes of messages that have come in part, with everything nested below."""
        total = int(self.unfinished_bytes)
        for child in self.children.values():
            total += child.total_unfinished_bytes()
        return total

    def memory_bytes(self) -> int:
        """What this page and everything below it keeps in memory: debt, stored, parked and
        unfinished."""
        held = self.total_bytes() + self.total_stored_bytes() + self.total_parked_bytes()
        return held + self.total_unfinished_bytes()

    # -- life ------------------------------------------------------------------------------------

    def _attach(self, child: "Account") -> None:
        """Put `child` below. A name may be taken by a page that is closed and not yet empty."""
        self.attached_count += 1
        child.key = child.name
        if child.key in self.children:
            child.key = f"{child.name}#{self.attached_count}"
        if self.children is NO_CHILDREN:
            self.children = {}
        self.children[child.key] = child
        child.parent = self
        child.is_listed = True
        child._relink()

    def move(self, parent: "Account") -> None:
        """Put this page, with its debt and what is below it, under another parent."""
        before = self.parent
        messages: i64 = self.total_messages()
        bytes_: i64 = self.total_bytes()
        if before is not None:
            before.children.pop(self.key, None)
            page = self.limited
            while page is not None:
                page.below_messages -= messages
                page.below_bytes -= bytes_
                if page.is_held:
                    self._open_gates(page.name)
                    if page._is_low():
                        page._let_go()
                page = page.limited
        parent._attach(self)
        page = self.limited
        while page is not None:
            page.below_messages += messages
            page.below_bytes += bytes_
            if page.is_held:
                self._close_gates(page)
            elif not page.is_lenient:
                page.ask()
            page = page.limited

    def close(self) -> None:
        """Nobody adds to this page on his own account any more: nobody waits on it either, and it
        leaves the ledger when its debt, its stored messages and the pages below it are gone."""
        self.is_closed = True
        self.is_plain = False
        self.gate = None
        self._vanish_if_done()

    def _vanish_if_done(self) -> None:
        if (
            self.owes_nothing()
            and self.stored_messages == 0
            and self.stored_bytes == 0
            and self.parked_messages == 0
            and self.parked_bytes == 0
            and self.parked_disk_bytes == 0
            and not self.children
            and self.is_listed
            and self.parent is not None
        ):
            self.is_listed = False
            self.parent.children.pop(self.key, None)
            if self.parent.is_closed:
                self.parent._vanish_if_done()

    def _relist(self) -> None:
        """Late work of a cause that had left the ledger: something it had scheduled has come."""
        if self.parent is not None:
            if self.parent.is_closed and not self.parent.is_listed:
                self.parent._relist()
            self.parent._attach(self)
