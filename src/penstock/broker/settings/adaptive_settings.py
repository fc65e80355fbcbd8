"""What the adaptive strategy aims at, changed while the broker runs."""

from collections.abc import Callable

from penstock.base.errors import OperatorError
from penstock.base.quantities import parse_duration_ns, show_duration
from penstock.broker.settings.settings import Setting, Settings
from penstock.flow.adaptive import Adaptive
from penstock.flow.strategy import Strategy

US_NS = 1_000
MINUTE_NS = 60_000_000_000


class _Aim(Setting):
    """A duration of the strategy in force. Nominal base."""

    __slots__ = ("strategy",)

    def __init__(self, strategy: Callable[[], Strategy], key: str, meaning: str) -> None:
        super().__init__(key, "duration", meaning)
        self.strategy = strategy

    def read(self) -> str:
        strategy = self.strategy()
        return show_duration(self._get(strategy)) if isinstance(strategy, Adaptive) else "off"

    def write(self, text: str) -> None:
        strategy = self.strategy()
        if not isinstance(strategy, Adaptive):
            raise OperatorError(
                f"{self.key} cannot be changed: strategy '{strategy.name}' does not adapt; start "
                "the broker with profile adaptive"
            )
        ns = parse_duration_ns(text)
        if not 10 * US_NS <= ns <= MINUTE_NS:
            raise OperatorError(f"{self.key} = {text} is not within 10us..1m")
        self._set(strategy, ns)

    def _get(self, strategy: Adaptive) -> int:
        raise NotImplementedError

    def _set(self, strategy: Adaptive, ns: int) -> None:
        raise NotImplementedError


class TargetSetting(_Aim):
    def _get(self, strategy: Adaptive) -> int:
        return int(strategy.target_ns)

    def _set(self, strategy: Adaptive, ns: int) -> None:
        strategy.target_ns = ns


class IntervalSetting(_Aim):
    def _get(self, strategy: Adaptive) -> int:
        return int(strategy.interval_ns)

    def _set(self, strategy: Adaptive, ns: int) -> None:
        strategy.interval_ns = ns


def add_adaptive_settings(settings: Settings, strategy: Callable[[], Strategy]) -> None:
    """Offer target and interval."""
    settings.add(
        TargetSetting(
            strategy, "adaptive.target", "delay that may stand in a mailbox before windows are cut"
        )
    )
    settings.add(
        IntervalSetting(strategy, "adaptive.interval", "how often a window may be changed")
    )
