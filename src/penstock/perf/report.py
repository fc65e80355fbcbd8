"""The figures of a load run, as text in PerfTest's manner or as one JSON object a line."""

import json
from dataclasses import asdict, dataclass

from penstock.perf.meter import Histogram, Tally
from penstock.perf.plan import LoadPlan

PRODUCERS_SHOWN = 10


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


@dataclass(frozen=True, slots=True)
class LoadResult:
    """How a run ended.

    figures: everything after the warm-up. sent, expected, received: messages of the whole run;
    expected: deliveries, after refused and returned ones, None when nothing can be said;
    lost: how many of them did not come; unconfirmed: publishes the broker never answered;
    producers: name and shares of each; failures: reasons of closed channels and connections.
    """

    figures: Figures | None
    sent: int
    received: int
    expected: int | None
    lost: int
    unconfirmed: int
    producers: tuple[tuple[str, Shares], ...]
    failures: tuple[str, ...]

    def exit_code(self) -> int:
        """1: something failed; 4: messages are missing; else 0."""
        if self.failures:
            return 1
        return 4 if self.lost or self.unconfirmed else 0


class LoadReport:
    """Turns figures into lines; prints nothing itself."""

    def interval(self, figures: Figures) -> str:
        """One line for one second."""
        raise NotImplementedError

    def interrupted(self) -> str:
        """The line that says that it ends before its time, by Ctrl-C."""
        raise NotImplementedError

    def summary(self, outcome: LoadResult) -> str:
        """The lines at the end."""
        raise NotImplementedError


class TextReport(LoadReport):
    """Lines for people, in PerfTest's words."""

    def __init__(self, plan: LoadPlan) -> None:
        self._plan = plan

    def interval(self, figures: Figures) -> str:
        """`time 3.000 s, sent: …, received: …, min/median/75th/95th/99th latency: …, blocked: …`"""
        parts = [f"time {figures.at_s:.3f} s"]
        if figures.is_warm_up:
            parts[0] += " (warm-up)"
        parts += self._rates(figures)
        if self._plan.consumers:
            latency = f"min/median/75th/95th/99th latency: {_five(figures.latency)} ms"
            if self._plan.rate_per_s and self._plan.producers:
                latency += f" (once sent: {_five(figures.latency_once_sent)})"
            parts.append(latency)
        elif self._plan.confirms_max:
            parts.append(
                f"min/median/75th/95th/99th confirm latency: {_five(figures.confirm_latency)} ms"
            )
        if self._plan.producers:
            parts.append(f"blocked: {_blocked(figures.shares)}")
        return ", ".join(parts)

    def interrupted(self) -> str:
        return "interrupted"

    def summary(self, outcome: LoadResult) -> str:
        """Averages, both latencies, where publishers' time went, and what is missing."""
        lines = []
        if outcome.figures is not None:
            lines += self._averages(outcome.figures)
            lines += self._held(outcome)
        line = f"total     sent {outcome.sent}, received {outcome.received}"
        if outcome.expected is not None:
            line += f" of {outcome.expected} expected, lost {outcome.lost}"
        if self._plan.confirms_max:
            line += f", unconfirmed {outcome.unconfirmed}"
        lines.append(line)
        lines += [f"failed    {text}" for text in outcome.failures]
        return "\n".join(lines)

    def _rates(self, figures: Figures) -> list[str]:
        plan = self._plan
        parts: list[str] = []
        if plan.producers:
            parts.append(f"sent: {figures.sent_per_s:.0f} msg/s")
            if figures.returned_per_s or plan.mandatory:
                parts.append(f"returned: {figures.returned_per_s:.0f} msg/s")
            if plan.confirms_max:
                parts.append(f"confirmed: {figures.confirmed_per_s:.0f} msg/s")
            if figures.nacked_per_s:
                parts.append(f"nacked: {figures.nacked_per_s:.0f} msg/s")
        if plan.consumers:
            parts.append(f"received: {figures.received_per_s:.0f} msg/s")
        return parts

    def _averages(self, figures: Figures) -> list[str]:
        plan = self._plan
        lines = [f"average   {', '.join(self._rates(figures))} over {figures.span_s:.1f} s"]
        if plan.producers:
            megabytes = figures.sent_bytes_per_s / 1e6
            lines.append(f"bodies    sent: {megabytes:.2f} MB/s")
        if plan.consumers:
            name = "intended" if plan.rate_per_s and plan.producers else "latency "
            lines.append(f"{name}  {_long(figures.latency)}")
            if plan.rate_per_s and plan.producers:
                lines.append(f"once sent {_long(figures.latency_once_sent)}")
        if plan.confirms_max:
            lines.append(f"confirm   {_long(figures.confirm_latency)}")
        if figures.redelivered or figures.foreign:
            lines.append(f"odd       redelivered {figures.redelivered}, foreign {figures.foreign}")
        return lines

    def _held(self, outcome: LoadResult) -> list[str]:
        if not outcome.producers or outcome.figures is None:
            return []
        shares = outcome.figures.shares
        lines = [
            f"blocked   {_blocked(shares)}; awaiting confirms {_percent(shares.confirms)}, "
            f"idle {_percent(shares.idle)}, busy {_percent(shares.busy)}"
        ]
        worst = sorted(outcome.producers, key=lambda named: -named[1].blocked)
        if len(worst) > 1 and worst[0][1].blocked > 0.0:
            for name, part in worst[:PRODUCERS_SHOWN]:
                confirms = _percent(part.confirms)
                lines.append(f"  {name:<14} {_blocked(part)}; awaiting confirms {confirms}")
            if len(worst) > PRODUCERS_SHOWN:
                lines.append(f"  … and {len(worst) - PRODUCERS_SHOWN} producers blocked less")
        return lines


class JsonReport(LoadReport):
    """One object a line: `{"kind": "interval", …}` each second, `{"kind": "summary", …}` last, and
    `{"kind": "interrupted"}` before that one after Ctrl-C.

    Latencies are nanoseconds, sizes bytes, shares 0..1.
    """

    def interval(self, figures: Figures) -> str:
        """One object for one second."""
        return json.dumps({"kind": "interval", **_figures(figures)})

    def interrupted(self) -> str:
        return json.dumps({"kind": "interrupted"})

    def summary(self, outcome: LoadResult) -> str:
        """One object for the run."""
        said = {
            **asdict(outcome),
            "figures": None if outcome.figures is None else _figures(outcome.figures),
            "producers": [
                {"name": name, "blocked": shares.blocked, "shares": asdict(shares)}
                for name, shares in outcome.producers
            ],
        }
        return json.dumps({"kind": "summary", **said, "exit_code": outcome.exit_code()})


def _figures(figures: Figures) -> dict[str, object]:
    return {**asdict(figures), "blocked": figures.shares.blocked}


def _ms(nanoseconds: float) -> str:
    """Milliseconds with as many digits as mean something: 0.082, 0.41, 3.2, 118."""
    value = nanoseconds / 1e6
    if value >= 9.95:
        return f"{value:.0f}"
    if value >= 0.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.0995 else f"{value:.3f}"


def _five(latency: Latency) -> str:
    if latency.count == 0:
        return "-/-/-/-/-"
    shown = (latency.lowest, latency.median, latency.p75, latency.p95, latency.p99)
    return "/".join(_ms(value) for value in shown)


def _long(latency: Latency) -> str:
    if latency.count == 0:
        return "no message measured"
    return (
        f"min/median/75th/95th/99th/99.9th/max: {_five(latency)}/{_ms(latency.p999)}/"
        f"{_ms(latency.highest)} ms, mean {_ms(latency.mean)} ms"
    )


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _blocked(shares: Shares) -> str:
    text = _percent(shares.blocked)
    if shares.alarm > 0.0:
        text += f" (socket {shares.socket * 100:.0f}, alarm {shares.alarm * 100:.0f})"
    return text
