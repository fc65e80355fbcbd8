"""Credit windows that change while the broker runs: one setting per kind of hop and dimension.

A change reaches the hops that exist at once: a wider window gives its sender the difference, a
narrower one takes it away, and the sender waits, its balance negative, until enough was repaid
(scenario 120). What is under way is never touched, so no credit is lost and none comes from
nowhere (law 1).
"""

from collections.abc import Callable

from penstock.base.errors import OperatorError
from penstock.base.quantities import parse_window, show_window
from penstock.broker.connection.connection import Connection, hops_of
from penstock.broker.settings.settings import Setting, Settings
from penstock.flow.credit import Credit, Window
from penstock.flow.hop import KIND_NAMES
from penstock.flow.strategy import Strategy


class WindowSetting(Setting):
    """`credit.KIND` in messages, or `credit.KIND_bytes`. strategy: the one in force."""

    __slots__ = ("connections", "is_bytes", "kind", "strategy")

    def __init__(
        self,
        connections: dict[str, Connection],
        strategy: Callable[[], Strategy],
        kind: int,
        is_bytes: bool,
    ) -> None:
        name = KIND_NAMES[kind]
        super().__init__(
            f"credit.{name}_bytes" if is_bytes else f"credit.{name}",
            f"{'bytes' if is_bytes else 'messages'}, INITIAL/MORE_AFTER or off",
            f"how much may be under way on every hop from {name.replace('_', ' to ')}, and after "
            "how much of it is done more is granted",
        )
        self.connections = connections
        self.strategy = strategy
        self.kind = kind
        self.is_bytes = is_bytes

    def read(self) -> str:
        strategy = self.strategy()
        if not isinstance(strategy, Credit):
            return "off"
        windows = strategy.bytes_windows if self.is_bytes else strategy.windows
        window = windows[self.kind]
        return show_window(window.initial, window.more_after)

    def write(self, text: str) -> None:
        initial, more_after = parse_window(text)
        window = Window(initial, more_after, "bytes" if self.is_bytes else "messages")
        strategy = self.strategy()
        if not isinstance(strategy, Credit):
            raise OperatorError(
                f"{self.key} cannot be changed: strategy '{strategy.name}' has no credit; start "
                "the broker with a profile that has"
            )
        if self.is_bytes:
            strategy.set_windows(self.kind, strategy.windows[self.kind], window)
        else:
            strategy.set_windows(self.kind, window, strategy.bytes_windows[self.kind])
        for hop in hops_of(self.connections):
            if hop.kind == self.kind:
                strategy.resize(hop)


def add_credit_settings(
    settings: Settings, connections: dict[str, Connection], strategy: Callable[[], Strategy]
) -> None:
    """Offer the windows of every kind of hop."""
    for kind in range(len(KIND_NAMES)):
        settings.add(WindowSetting(connections, strategy, kind, False))
        settings.add(WindowSetting(connections, strategy, kind, True))
