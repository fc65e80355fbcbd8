"""Rate limits that change while the broker runs: `rate.SCOPE.UNIT`, and `:NAME` for one alone.

rate.connection.messages=1000/s        every connection
rate.user.bytes=5MB/s                  every user, all connections together
rate.user.bytes:app=20MB/s             user app
rate.queue.messages:/orders=off        queue orders in vhost / (queue q in vhost v: v/q)
"""

from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.limits import RATE_BURST_MS, RATE_CONNECTION_MESSAGES
from penstock.base.quantities import parse_duration_ns, parse_rate, show_duration, show_rate
from penstock.broker.settings.rates import NS_PER_MS, SCOPES, UNITS, Rates
from penstock.broker.settings.settings import Setting, Settings

_OF: Final = {
    "connection": "each connection may publish",
    "user": "all connections of one user may publish together",
    "vhost": "all connections to one virtual host may publish together",
    "queue": "one queue may be given",
}


class RateSetting(Setting):
    """A limit; rates: where it is kept. name: "" for all without a limit of their own."""

    __slots__ = ("measure", "name", "rates", "scope")

    def __init__(self, rates: Rates, scope: str, name: str, unit: str) -> None:
        key = f"rate.{scope}.{unit}"
        by_name = "" if scope == "connection" or name != "" else f"; {key}:NAME for one alone"
        super().__init__(
            key if name == "" else f"{key}:{name}",
            f"{unit}/s or off",
            f"how many {unit} a second {_OF[scope]}{by_name}",
        )
        self.rates = rates
        self.scope = scope
        self.name = name
        self.measure = unit

    def read(self) -> str:
        limit = self.rates.limit_of(self.scope, self.name)
        return show_rate(limit.messages if self.measure == "messages" else limit.bytes)

    def write(self, text: str) -> None:
        highest = RATE_CONNECTION_MESSAGES.highest
        is_off = text.strip().lower() in ("off", "0", "0/s")
        try:
            per_second = parse_rate(text)
        except OperatorError:
            per_second = -1.0
        if not is_off and not 1 <= per_second <= highest:
            raise OperatorError(
                f"{self.key}={text}: write a rate of 1/s..{highest}/s, as 500/s, 5MB/s, or off"
            )
        self.rates.set_limit(self.scope, self.name, self.measure, int(per_second))

    def of(self, name: str) -> Setting:
        if self.scope == "connection" or self.name != "":
            return super().of(name)
        if self.scope == "queue" and "/" not in name:
            raise OperatorError(
                f"{self.key}:{name}: write VHOST/QUEUE, or /{name} for queue {name} in vhost /"
            )
        return RateSetting(self.rates, self.scope, name, self.measure)

    def named(self) -> list[str]:
        return self.rates.named(self.scope) if self.name == "" else []


class BurstSetting(Setting):
    """`rate.burst`."""

    __slots__ = ("rates",)

    def __init__(self, rates: Rates) -> None:
        super().__init__(
            "rate.burst",
            "duration",
            "how much of its rate a limit lets pass at once after a pause",
        )
        self.rates = rates

    def read(self) -> str:
        return show_duration(self.rates.burst_ns)

    def write(self, text: str) -> None:
        burst_ns = parse_duration_ns(text)
        lowest, highest = RATE_BURST_MS.lowest, RATE_BURST_MS.highest
        if not lowest * NS_PER_MS <= burst_ns <= highest * NS_PER_MS:
            raise OperatorError(f"rate.burst={text}: {lowest}ms..{highest}ms")
        self.rates.set_burst(burst_ns)


def add_rate_settings(settings: Settings, rates: Rates) -> None:
    """Offer every limit."""
    settings.add(BurstSetting(rates))
    for scope in SCOPES:
        for unit in UNITS:
            settings.add(RateSetting(rates, scope, "", unit))
