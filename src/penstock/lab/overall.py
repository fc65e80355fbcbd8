"""Who wins over all workloads together: the geometric mean of the scores.

    mean of a strategy     over the workloads of one run; none where its memory was still rising in
                           one of them, because there is no score to put in its place
    ratio of two           of their means over the workloads in which both have a score

A verdict for each workload lets every setting be best at what suits it, and compares ours with
another one each time. A mean asks what one setting is worth that has to serve them all. The ratio
of two strategies does not depend on who else was run, because scores are relative to one best.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from penstock.lab.result import LIVE, SIMULATED
from penstock.lab.score import OURS, STATIC, Verdict


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


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive numbers, at least one."""
    return exp(sum(log(value) for value in values) / len(values))


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
