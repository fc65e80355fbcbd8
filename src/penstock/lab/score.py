"""Who wins: one number for the trade-off of throughput, confirm latency and memory.

    score = (T * L * M) ** (1/3)       0..1, for each workload over all strategies that were run
    T = throughput / highest throughput
    L = lowest p99 confirm latency / p99 confirm latency      below LATENCY_FLOOR_MS all are equal
    M = lowest peak memory / peak memory                      below MEMORY_FLOOR_BYTES all are equal

A strategy under which the broker's memory was still rising when the run ended has no score and
cannot win: what it would need for longer is not known, only that it is more.

Who wins over all workloads together: the geometric mean of the scores.

    mean of a strategy     over the workloads of one run; none where its memory was still rising in
                           one of them, because there is no score to put in its place
    ratio of two           of their means over the workloads in which both have a score

A verdict for each workload lets every setting be best at what suits it, and compares ours with
another one each time. A mean asks what one setting is worth that has to serve them all. The ratio
of two strategies does not depend on who else was run, because scores are relative to one best.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean
from typing import Final

from penstock.lab.result import LIVE, SIMULATED, Result, rank_correlation

LATENCY_FLOOR_MS: Final = 2.0
MEMORY_FLOOR_BYTES: Final = 65_536
TIE: Final = 0.95
"""Scores within 5 % of the best are as good."""
UNHARMED: Final = 0.9
"""Innocent traffic that keeps this share of its rate is not worth a word."""
STATIC: Final = "static-"
OURS: Final[tuple[str, ...]] = ("penstock", "adaptive")


def scores(results: Sequence[Result]) -> dict[str, float]:
    """By profile, for the results of one workload and place; 0.0 for those still growing."""
    bounded = [one for one in results if not one.is_growing]
    if not bounded:
        return {one.profile: 0.0 for one in results}
    throughput = max(one.throughput_per_s for one in bounded) or 1.0
    latency = min(_latency(one) for one in bounded)
    memory = min(_memory(one) for one in bounded)
    found = {}
    for one in results:
        product = (
            one.throughput_per_s / throughput * (latency / _latency(one)) * (memory / _memory(one))
        )
        found[one.profile] = 0.0 if one.is_growing else round(product ** (1 / 3), 4)
    return found


def _latency(result: Result) -> float:
    return max(result.confirm.p99_ms, LATENCY_FLOOR_MS)


def _memory(result: Result) -> float:
    return float(max(result.memory_bytes_max, MEMORY_FLOOR_BYTES))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one workload. winner: "" when none has a score; best_static: "" when none was run;
    ours: per strategy of OURS that was run, its score relative to the best static setting;
    live_scores: by profile, of the live broker, for the simulator's verdict;
    innocent_shares: by profile, the innocent traffic's rate relative to running alone;
    live_winner, correlation: None unless it was run in both places."""

    workload: str
    where: str
    scores: dict[str, float]
    winner: str
    best_static: str
    ours: dict[str, float]
    innocent_shares: dict[str, float]
    live_winner: str | None = None
    live_scores: dict[str, float] = field(default_factory=dict)
    correlation: float | None = None

    def is_agreed(self) -> bool:
        """Whether both places name one winner, or in one of them the two are as good as each
        other; True where there is nothing to compare with."""
        if self.live_winner is None or self.live_winner == self.winner:
            return True
        here, there = self.scores, self.live_scores
        return here.get(self.live_winner, 0.0) >= TIE * here.get(self.winner, 0.0) or there.get(
            self.winner, 0.0
        ) >= TIE * there.get(self.live_winner, 0.0)

    def text(self) -> str:
        """One or two sentences."""
        if self.winner == "":
            return f"{self.workload} ({self.where}): memory was still rising under every strategy"
        parts = [f"{self.workload} ({self.where}): {self.winner} wins{self._harm(self.winner)}"]
        for name, share in self.ours.items():
            if share == 0:
                parts.append(f"{name} has no score, its memory was still rising")
            elif name != self.winner:
                kind = "beats" if share > 1 else "as good as" if share >= TIE else "below"
                parts.append(
                    f"{name} {kind} the best static, {self.best_static} "
                    f"({share:.2f} of its score){self._harm(name)}"
                )
        if self.live_winner is not None:
            agreed = f"the live broker says {self.live_winner or 'none'}"
            if self.live_winner == self.winner:
                agreed = "the live broker agrees"
            elif self.is_agreed():
                agreed += ", which is within 5 %"
            parts.append(f"{agreed} (rank correlation {self.correlation:.2f})")
        return "; ".join(parts)

    def _harm(self, profile: str) -> str:
        share = self.innocent_shares.get(profile, 1.0)
        return "" if share >= UNHARMED else f", but leaves innocent traffic {share * 100:.0f} %"


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    """One per workload and place; the simulator's also compares with the live broker's."""
    found = []
    for workload in dict.fromkeys(one.workload for one in results):
        mine = [one for one in results if one.workload == workload]
        simulated = [one for one in mine if one.where == SIMULATED]
        live = [one for one in mine if one.where == LIVE]
        if simulated:
            found.append(_verdict(workload, SIMULATED, simulated, scores(live)))
        if live:
            found.append(_verdict(workload, LIVE, live, {}))
    return found


def summary(found: Sequence[Verdict]) -> list[str]:
    """Lines over all workloads: how often ours hold against static windows, and whether the
    simulator and the live broker name the same winner."""
    lines = []
    for where in (SIMULATED, LIVE):
        some = [one for one in found if one.where == where]
        for name in OURS:
            rivals = [one for one in some if name in one.ours]
            good = [one.workload for one in rivals if one.ours[name] >= TIE]
            if rivals:
                short = [one.workload for one in rivals if one.workload not in good]
                beaten = f"; not in {', '.join(short)}" if short else ""
                lines.append(
                    f"{name} ({where}): as good as the best static window or better in "
                    f"{len(good)} of {len(rivals)} workloads{beaten}"
                )
    both = [one for one in found if one.live_winner is not None]
    if both:
        apart = [one.workload for one in both if not one.is_agreed()]
        but = f"; not in {', '.join(apart)}" if apart else ""
        lines.append(
            f"simulator and live broker agree on the winner in {len(both) - len(apart)} of "
            f"{len(both)} workloads{but}"
        )
    return lines


def _verdict(
    workload: str, where: str, results: Sequence[Result], live: dict[str, float]
) -> Verdict:
    by_profile = scores(results)
    shares = {one.profile: one.innocent_share for one in results if one.innocent_share is not None}
    statics = {name: score for name, score in by_profile.items() if name.startswith(STATIC)}
    best_static = _best(statics)
    best = statics.get(best_static, 0.0)
    ours = {name: by_profile[name] / best for name in OURS if name in by_profile and best > 0}
    live_winner = correlation = None
    if live:
        shared = [name for name in by_profile if name in live]
        live_winner = _best({name: live[name] for name in shared})
        correlation = rank_correlation(
            [by_profile[name] for name in shared], [live[name] for name in shared]
        )
    return Verdict(
        workload,
        where,
        by_profile,
        _best(by_profile),
        best_static,
        ours,
        shares,
        live_winner,
        live,
        correlation,
    )


def _best(by_profile: dict[str, float]) -> str:
    name = max(by_profile, key=lambda one: by_profile[one], default="")
    return name if by_profile.get(name, 0.0) > 0 else ""


@dataclass(frozen=True, slots=True)
class Ratio:
    """ours / rival: geometric mean of the ratios of scores in `workloads` workloads."""

    ours: str
    rival: str
    ratio: float
    workloads: int


@dataclass(frozen=True, slots=True)
class Overall:
    """Of one place. workloads: how many there were; means: by profile, best first, of those that
    have a score in all; rising: by profile, in how many memory was still rising; ratios: of each of
    OURS against each static window, where they have a workload in common."""

    where: str
    workloads: int
    means: dict[str, float]
    rising: dict[str, int]
    ratios: list[Ratio]

    def lines(self) -> list[str]:
        """For people; none when there was only one workload."""
        if self.workloads < 2:
            return []
        found = []
        if self.means:
            means = ", ".join(f"{name} {mean:.2f}" for name, mean in self.means.items())
            found.append(f"mean score of {self.workloads} workloads ({self.where}): {means}")
        if self.rising:
            names = ", ".join(f"{name} ({count})" for name, count in self.rising.items())
            found.append(f"no mean ({self.where}), memory was still rising in some: {names}")
        for name in OURS:
            against = [
                f"{one.rival} {one.ratio:.2f}"
                + (f" in {one.workloads}" if one.workloads < self.workloads else "")
                for one in self.ratios
                if one.ours == name
            ]
            if against:
                found.append(
                    f"{name} ({self.where}) relative to each static window: {', '.join(against)}"
                )
        return found


def overall(verdicts: Sequence[Verdict]) -> list[Overall]:
    """One for each place in which anything was run."""
    found = []
    for where in (SIMULATED, LIVE):
        scores = [one.scores for one in verdicts if one.where == where]
        if scores:
            found.append(_overall(where, scores))
    return found


def _overall(where: str, scores: Sequence[dict[str, float]]) -> Overall:
    names = [name for name in scores[0] if all(name in one for one in scores)]
    means = {}
    rising = {}
    for name in names:
        missing = sum(one[name] == 0 for one in scores)
        if missing:
            rising[name] = missing
        else:
            means[name] = round(geometric_mean([one[name] for one in scores]), 4)
    statics = [name for name in names if name.startswith(STATIC)]
    ratios = []
    for ours in OURS:
        for rival in statics if ours in names else []:
            pairs = [one[ours] / one[rival] for one in scores if one[ours] and one[rival]]
            if pairs:
                ratio = round(geometric_mean(pairs), 4)
                ratios.append(Ratio(ours, rival, ratio, len(pairs)))
    best_first = dict(sorted(means.items(), key=lambda pair: -pair[1]))
    return Overall(where, len(scores), best_first, rising, ratios)
