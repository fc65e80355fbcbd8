"""The figures of a stretch of time, ready to be printed: rates, percentiles, shares."""

from dataclasses import dataclass

from penstock.perf.histogram import Histogram
from penstock.perf.meter import Tally


@dataclass(frozen=True, slots=True)
class Latency:
    """Nanoseconds. count: how many were measured; all figures are 0 when none were."""

    count: int
    lowest: int
    median: int
    p75: int
    p95: int
    p99: int
    p999: int
    highest: int
    mean: float


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares (0..1) of publishers' time; they add up to 1. See `held`."""

    busy: float
    idle: float
    socket: float
    alarm: float
    confirms: float

    @property
    def blocked(self) -> float:
        """The share in which a publisher could not send: its socket was full, or an alarm."""
        return self.socket + self.alarm


@dataclass(frozen=True, slots=True)
class Figures:
    """One stretch. at_s: when it ended; span_s: its length; rates are messages a second."""

    at_s: float
    span_s: float
    is_warm_up: bool
    sent_per_s: float
    confirmed_per_s: float
    nacked_per_s: float
    returned_per_s: float
    received_per_s: float
    sent_bytes_per_s: float
    received_bytes_per_s: float
    redelivered: int
    foreign: int
    latency: Latency
    latency_once_sent: Latency
    confirm_latency: Latency
    shares: Shares


def latency_of(histogram: Histogram) -> Latency:
    """The percentiles of `histogram`."""
    at = histogram.percentile
    return Latency(
        histogram.count, histogram.lowest, at(0.5), at(0.75), at(0.95), at(0.99), at(0.999),
        histogram.highest, histogram.mean(),
    )  # fmt: skip


def shares_of(spent: tuple[int, ...]) -> Shares:
    """Shares from nanoseconds per Reason; all idle when there was no time or no publisher."""
    total = sum(spent)
    if total == 0:
        return Shares(0.0, 1.0, 0.0, 0.0, 0.0)
    return Shares(*(part / total for part in spent))


def figures_of(
    tally: Tally, spent: tuple[int, ...], at_s: float, span_s: float, is_warm_up: bool
) -> Figures:
    """Everything about a stretch of `span_s` seconds, more than 0."""
    return Figures(
        at_s=at_s,
        span_s=span_s,
        is_warm_up=is_warm_up,
        sent_per_s=tally.sent / span_s,
        confirmed_per_s=tally.confirmed / span_s,
        nacked_per_s=tally.nacked / span_s,
        returned_per_s=tally.returned / span_s,
        received_per_s=tally.received / span_s,
        sent_bytes_per_s=tally.sent_bytes / span_s,
        received_bytes_per_s=tally.received_bytes / span_s,
        redelivered=tally.redelivered,
        foreign=tally.foreign,
        latency=latency_of(tally.intended_latency),
        latency_once_sent=latency_of(tally.sent_latency),
        confirm_latency=latency_of(tally.confirm_latency),
        shares=shares_of(spent),
    )
