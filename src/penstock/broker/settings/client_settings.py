"""Settings of what clients are told and allowed, changeable while the broker runs: `consumer.*`,
`notify.*`."""

from collections.abc import Callable

from penstock.base.errors import OperatorError
from penstock.base.limits import CONSUMER_TIMEOUT_MS, NOTIFY_BLOCKED_MS, Limit
from penstock.base.quantities import parse_duration_ns, show_duration
from penstock.broker.connection.client_notifier import NotifierRules
from penstock.broker.connection.consumer_timeout import ConsumerTimeout
from penstock.broker.settings.settings import Setting, Settings

NS_PER_MS = 1_000_000
OFF = "off"


def add_client_settings(
    settings: Settings,
    timeout: ConsumerTimeout,
    rules: NotifierRules,
    look_at_clients: Callable[[], None],
) -> None:
    """Offer them to those who change settings."""
    settings.add(ConsumerTimeoutSetting(timeout))
    settings.add(NotifyBlocked(rules, look_at_clients))


class ConsumerTimeoutSetting(Setting):
    """How long a delivery may stay unanswered."""

    __slots__ = ("timeout",)

    def __init__(self, timeout: ConsumerTimeout) -> None:
        super().__init__(
            "consumer.timeout",
            "duration or off",
            "a channel with an older unanswered delivery is closed; looked at once a minute",
        )
        self.timeout = timeout

    def read(self) -> str:
        return _shown(self.timeout.timeout_ms)

    def write(self, text: str) -> None:
        self.timeout.timeout_ms = _parsed(self.key, text, CONSUMER_TIMEOUT_MS)


class NotifyBlocked(Setting):
    """How long publishes are held before the client hears why."""

    __slots__ = ("look_at_clients", "rules")

    def __init__(self, rules: NotifierRules, look_at_clients: Callable[[], None]) -> None:
        super().__init__(
            "notify.blocked",
            "duration or off",
            "connection.blocked names the queue when publishes have been held for longer",
        )
        self.rules = rules
        self.look_at_clients = look_at_clients

    def read(self) -> str:
        return _shown(self.rules.notify_ns // NS_PER_MS)

    def write(self, text: str) -> None:
        ms = _parsed(self.key, text, NOTIFY_BLOCKED_MS)
        self.rules.notify_ns = ms * NS_PER_MS
        if ms == 0:
            # No client is looked at any more, so those who have been told must hear of it now.
            self.look_at_clients()


def _shown(ms: int) -> str:
    return OFF if ms == 0 else show_duration(ms * NS_PER_MS)


def _parsed(key: str, text: str, limit: Limit) -> int:
    if text.strip().lower() == OFF:
        return 0
    ms = parse_duration_ns(text) // NS_PER_MS
    if not limit.lowest <= ms <= limit.highest:
        raise OperatorError(
            f"{key} = {text} is {ms} ms, which is not within {limit.lowest}..{limit.highest} ms; "
            f"{OFF} switches it off"
        )
    return ms
