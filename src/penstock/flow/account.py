"""The ledger page of one first cause: how much work it has outstanding, and who pays with it.

Seed S4: every piece of work is charged to the account that started it and repaid when it is done.
    debt >= 0            debt = cost of everything of this cause in mailboxes and pending tables
Accounts nest (connection within user within vhost within node); a parent's debt is the sum of its
children's and is added up when somebody asks, so a charge touches one page only.
"""

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.flow.gate import Gate


class Account(Cause):
    """One page. `high_bytes`: debt above it closes `gate` for "debt", 0 for no limit;
    it opens again at `low_bytes` (half of high). `gate` is None for pages nobody waits on."""

    __slots__ = (
        "children",
        "debt_bytes",
        "debt_messages",
        "gate",
        "high_bytes",
        "is_held",
        "low_bytes",
        "parent",
    )

    def __init__(self, name: str, parent: "Account | None", gate: Gate | None, high_bytes: int):
        super().__init__(name)
        self.parent = parent
        self.gate = gate
        self.high_bytes: i64 = high_bytes
        self.low_bytes: i64 = high_bytes // 2
        self.debt_messages: i64 = 0
        self.debt_bytes: i64 = 0
        self.is_held = False
        self.children: dict[str, Account] = {}
        if parent is not None:
            parent.children[name] = self

    def charge(self, messages: i64, bytes_: i64) -> None:
        """More work of this cause: `messages`, `bytes_` 0.. ; may pass the limit by one message."""
        self.debt_messages += messages
        self.debt_bytes += bytes_
        if self.high_bytes > 0 and self.debt_bytes > self.high_bytes and not self.is_held:
            self.is_held = True
            if self.gate is not None:
                self.gate.close(self.name, "debt")

    def repay(self, messages: i64, bytes_: i64) -> None:
        """Work done. Raises: AssertionError if more is repaid than was charged."""
        self.debt_messages -= messages
        self.debt_bytes -= bytes_
        assert self.debt_messages >= 0 and self.debt_bytes >= 0, "repaid more than was charged"
        if self.is_held and self.debt_bytes <= self.low_bytes:
            self.is_held = False
            if self.gate is not None:
                self.gate.open(self.name, "debt")

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

    def close(self) -> None:
        """The cause is gone: its page leaves the ledger, what it still owes moves to its parent."""
        parent = self.parent
        if parent is not None:
            parent.children.pop(self.name, None)
            for child in list(self.children.values()):
                child.parent = parent
                parent.children[child.name] = child
            self.children.clear()
