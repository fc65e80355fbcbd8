"""Model beside observation, and what follows for a prediction.

    error      model / observed - 1, of each measure that a record has
    expected   observed * (model changed / model as it was)
    band       expected * (1 -+ the error of that measure and queue, LEAST of that measure at least)
What comes and what leaves are one figure where a queue is steady: what leaves. Shares of time are
compared by difference, in percent points. Latency and peak memory are in no record, so they have no
observed value: what the model says is told. How long a confirm takes on average does follow, by
Little's law: what is unconfirmed divided by the rate. The model's error in that widens the band of
latencies.

LEAST is what was measured on running brokers (bench/outside/whatif_truth.py), not what would be
nice. Where a record does not show what a figure depends on (doubt.py) it is not sure, and says why.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.whatif.doubt import Doubts, of_queue
from penstock.whatif.model import ModelledRun
from penstock.whatif.observe import Observed, QueueSeen, confirm_mean_ms

LEAST: Final[dict[str, float]] = {
    "in": 0.05, "out": 0.05, "held": 0.15, "held time": 0.05, "confirm mean, ms": 0.25,
}  # fmt: skip
"""Lowest band of each measure; of latencies that of `confirm mean, ms`."""
SMALL: Final[dict[str, float]] = {"in": 1.0, "out": 1.0, "held": 10.0, "confirm mean, ms": 5.0}
"""Messages, messages a second, or milliseconds, below which two values count as equal."""
OFF: Final = 0.5
"""A model that is further from what was observed knows nothing about a change either."""
SHOWN_MAX: Final = 10
CHANGED: Final = 1.25
UNCHANGED: Final = 1.1
"""Times: a latency that changes by more goes up or down; by less, it stays; between, who knows."""
MACHINE_MS: Final = 50.0
"""Up to here a latency is made by the machine and by what else it does as much as by the broker,
and a record shows neither: a model's figure below may really be anything up to this."""
RISES: Final = "rises"
FALLS: Final = "falls"
SAME: Final = "same"
UNSURE: Final = "unsure"
NO_DOUBTS: Final = Doubts({}, {}, {}, "")


@dataclass(frozen=True, slots=True)
class Check:
    """One measure of one queue, or of all of them, "". error: a share, or percent points / 100 for
    `held time`."""

    queue: str
    measure: str
    observed: float
    model: float
    error: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """expected, low, high: None where nothing was observed. trend: of a latency, RISES, FALLS, SAME
    or UNSURE; is_sure: else `why` says what the record does not show."""

    queue: str
    measure: str
    before: float
    after: float
    expected: float | None
    low: float
    high: float
    trend: str = ""
    is_sure: bool = True
    why: str = ""


MEASURES: Final[tuple[tuple[str, Callable[[QueueSeen], float]], ...]] = (
    ("in", lambda one: one.in_per_s),
    ("out", lambda one: one.out_per_s),
    ("held", lambda one: one.held),
    ("held time", lambda one: one.blocked_share),
)
CONFIRM_MEAN: Final = "confirm mean, ms"


def checks(observed: Observed, model: ModelledRun) -> list[Check]:
    """For the busiest queues, in the order of the record, then of all."""
    found = []
    for one in observed.queues[:SHOWN_MAX]:
        twin = of_queue(model.seen, one.name)
        for measure, read in _measures_of(one):
            seen, said = read(one), 0.0 if twin is None else read(twin)
            found.append(Check(one.name, measure, seen, said, _error(measure, seen, said)))
    seen_ms, said_ms = confirm_mean_ms(observed), confirm_mean_ms(model.seen)
    if seen_ms > 0:
        error = _error(CONFIRM_MEAN, seen_ms, said_ms)
        found.append(Check("", CONFIRM_MEAN, seen_ms, said_ms, error))
    return found


def errors(found: list[Check]) -> dict[str, float]:
    """By measure: the largest, without its sign."""
    return {
        measure: max((abs(one.error) for one in found if one.measure == measure), default=0.0)
        for measure in LEAST
    }


def predictions(
    observed: Observed,
    before: ModelledRun,
    after: ModelledRun,
    found: list[Check],
    doubts: Doubts = NO_DOUBTS,
) -> list[Prediction]:
    """What to expect of each queue, and of latency and memory in all."""
    made = []
    for one in observed.queues[:SHOWN_MAX]:
        was, will = of_queue(before.seen, one.name), of_queue(after.seen, one.name)
        own = {check.measure: check.error for check in found if check.queue == one.name}
        is_steady = will is not None and will.is_steady() and one.is_steady()
        for measure, read in _measures_of(one):
            # What comes in for a while beside what leaves is what lies at the ends of a run.
            source = MEASURES[1][1] if measure == "in" and is_steady else read
            first, second = (0.0 if twin is None else source(twin) for twin in (was, will))
            why = doubts.of(one.name, measure) or _of_error(measure, own[measure])
            made.append(
                _prediction(one.name, measure, source(one), first, second, abs(own[measure]), why)
            )
    return made + _latencies(before, after, found, doubts) + _memory(before, after, found, doubts)


def _latencies(
    before: ModelledRun, after: ModelledRun, found: list[Check], doubts: Doubts
) -> list[Prediction]:
    error = next((one.error for one in found if one.measure == CONFIRM_MEAN), 0.0)
    of_confirms = doubts.latency or _of_error(CONFIRM_MEAN, error)
    # What nobody confirms still waits in the queues.
    of_all = of_confirms or _any_queue(doubts)
    band = max(abs(error), LEAST[CONFIRM_MEAN])
    made = []
    for measure, first, second, why in (
        (
            "confirm p50, ms",
            before.result.confirm.p50_ms,
            after.result.confirm.p50_ms,
            of_confirms,
        ),
        (
            "confirm p99, ms",
            before.result.confirm.p99_ms,
            after.result.confirm.p99_ms,
            of_confirms,
        ),
        ("delivery p99, ms", before.result.delivery.p99_ms, after.result.delivery.p99_ms, of_all),
    ):
        if first > 0 or second > 0:
            low = max(0.0, second * (1 - min(band, 1.0)) - SMALL[CONFIRM_MEAN])
            high = second * (1 + band) + SMALL[CONFIRM_MEAN]
            trend = trend_of(first, second, doubts)
            if why and not doubts.latency:
                trend = UNSURE
            made.append(
                Prediction("", measure, first, second, None, low, high, trend, not why, why)
            )
    return made


def trend_of(first_ms: float, second_ms: float, doubts: Doubts) -> str:
    """Where a latency goes, as far as the model decides that: what it may have been and what it may
    become must not overlap (MACHINE_MS). With a doubt it goes up where even the least it can become
    is more than it was, and elsewhere where however much more unconfirmed there is makes no
    difference."""
    if doubts.latency:
        if doubts.least_ms > CHANGED * max(first_ms, MACHINE_MS):
            return RISES
        if doubts.if_more == 0:
            return UNSURE
        ways = {trend_of(first_ms, second_ms, NO_DOUBTS)}
        for factor in (doubts.if_less, doubts.if_more):
            ways.add(trend_of(1000.0, 1000 * factor, NO_DOUBTS))
        return ways.pop() if len(ways) == 1 else UNSURE
    if second_ms >= CHANGED * max(first_ms, MACHINE_MS):
        return RISES
    if first_ms >= CHANGED * max(second_ms, MACHINE_MS):
        return FALLS
    low, high = min(first_ms, second_ms), max(first_ms, second_ms)
    is_same = high <= max(UNCHANGED * low, low + SMALL[CONFIRM_MEAN])
    return SAME if low >= MACHINE_MS and is_same else UNSURE


def _memory(
    before: ModelledRun, after: ModelledRun, found: list[Check], doubts: Doubts
) -> list[Prediction]:
    first, second = before.peak_bytes() / 1024, after.peak_bytes() / 1024
    if first == 0 and second == 0:
        return []
    band = max(errors(found)["held"], LEAST["held"])
    why = _any_queue(doubts)
    low, high = second * (1 - min(band, 1.0)), second * (1 + band)
    return [Prediction("", "peak memory, KiB", first, second, None, low, high, "", not why, why)]


def _any_queue(doubts: Doubts) -> str:
    return next(iter((doubts.queues | doubts.levels).values()), "")


def _measures_of(queue: QueueSeen) -> list[tuple[str, Callable[[QueueSeen], float]]]:
    """What a queue holds is a measure only while it is steady."""
    return [pair for pair in MEASURES if pair[0] != "held" or queue.is_steady()]


def _of_error(measure: str, error: float) -> str:
    if abs(error) <= OFF:
        return ""
    return f"the model of what was recorded is {error * 100:+.0f} % off in this"


def _prediction(
    queue: str, measure: str, seen: float, first: float, second: float, error: float, why: str
) -> Prediction:
    band = max(error, LEAST[measure])
    if measure == "held time":
        expected = min(1.0, max(0.0, seen + second - first))
        low, high = max(0.0, expected - band), min(1.0, expected + band)
    else:
        expected = seen * second / first if first > SMALL[measure] else second
        low, high = expected * (1 - min(band, 1.0)), expected * (1 + band)
        low, high = max(0.0, low - SMALL[measure]), high + SMALL[measure]
    return Prediction(queue, measure, first, second, expected, low, high, "", not why, why)


def _error(measure: str, seen: float, said: float) -> float:
    if measure == "held time":
        return said - seen
    floor = SMALL[measure]
    return max(said, floor) / max(seen, floor) - 1
