"""Limits of the ledger that change while the broker runs: `account.LEVEL.high` and the like.

`account.user.high=64MiB` limits every user, `account.user.high:app@/=64MiB` that one alone. What
is owed when a limit is set counts at once: the page is held or let go in the same moment.
"""

from penstock.base.errors import OperatorError
from penstock.broker.settings.ledger import LEVELS, NODE, Ledger, parse_mark
from penstock.broker.settings.settings import Setting, Settings


class MarkSetting(Setting):
    """`account.LEVEL.high` in bytes, or `account.LEVEL.high_messages`; name: "" for all of them."""

    __slots__ = ("is_bytes", "ledger", "level", "name")

    def __init__(self, ledger: Ledger, level: str, is_bytes: bool, name: str = "") -> None:
        key = f"account.{level}.high" if is_bytes else f"account.{level}.high_messages"
        super().__init__(
            key + (f":{name}" if name != "" else ""),
            f"{'bytes' if is_bytes else 'messages'}, HIGH, HIGH/LOW or off",
            f"work in progress above which {'the node' if level == NODE else 'a ' + level} is held "
            "until it has come down to LOW",
        )
        self.ledger = ledger
        self.level = level
        self.is_bytes = is_bytes
        self.name = name

    def read(self) -> str:
        return self.ledger.marks_of(self.level, self.name).mark(self.is_bytes).show()

    def write(self, text: str) -> None:
        mark = parse_mark(text, self.ledger.strategy)
        marks = self.ledger.marks_of(self.level, self.name).with_mark(self.is_bytes, mark)
        self.ledger.set_marks(self.level, self.name, marks)

    def named(self) -> list[str]:
        return self.ledger.named(self.level) if self.name == "" else []

    def of(self, name: str) -> Setting:
        if self.level == NODE or self.name != "" or name == "":
            raise OperatorError(f"{self.key} cannot be set for '{name}' alone; set {self.key}")
        one = MarkSetting(self.ledger, self.level, self.is_bytes, name)
        # Said now, and not when it is written, whether there is such a one.
        one.read()
        return one


def add_ledger_settings(settings: Settings, ledger: Ledger) -> None:
    """Offer the limits of every level."""
    for level in LEVELS:
        settings.add(MarkSetting(ledger, level, True))
        settings.add(MarkSetting(ledger, level, False))
