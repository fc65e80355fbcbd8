"""Model beside observation, and what follows for a prediction.

    error      model / observed - 1, of each measure that a record has
    expected   observed * (model changed / model as it was)
    band       expected * (1 -+ the largest error of that measure, LOWEST_BAND at least)
Shares of time are compared by difference, in percent points. Latency and peak memory are in no
record, so they have no observed value: what the model says is told, with the error of what is held
as its band, because waiting is what is held divided by what leaves.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.whatif.model import ModelledRun
from penstock.whatif.observe import Observed, QueueSeen

LOWEST_BAND: Final = 0.05
SMALL: Final[dict[str, float]] = {"in": 1.0, "out": 1.0, "held": 10.0}
"""Messages, or messages a second, below which two values count as equal."""
SHOWN_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Check:
    """One measure of one queue. error: a share, or percent points / 100 for `held time`."""

    queue: str
    measure: str
    observed: float
    model: float
    error: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """expected, low, high: None where nothing was observed."""

    queue: str
    measure: str
    before: float
    after: float
    expected: float | None
    low: float
    high: float


MEASURES: Final[tuple[tuple[str, Callable[[QueueSeen], float]], ...]] = (
    ("in", lambda one: one.in_per_s),
    ("out", lambda one: one.out_per_s),
    ("held", lambda one: one.held),
    ("held time", lambda one: one.blocked_share),
)


def checks(observed: Observed, model: ModelledRun) -> list[Check]:
    """For the busiest queues, in the order of the record."""
    found = []
    for one in observed.queues[:SHOWN_MAX]:
        twin = _of(model.seen, one.name)
        for measure, read in _measures_of(one):
            seen, said = read(one), 0.0 if twin is None else read(twin)
            found.append(Check(one.name, measure, seen, said, _error(measure, seen, said)))
    return found


def errors(found: list[Check]) -> dict[str, float]:
    """By measure: the largest, without its sign."""
    return {
        measure: max((abs(one.error) for one in found if one.measure == measure), default=0.0)
        for measure, _ in MEASURES
    }


def predictions(
    observed: Observed, before: ModelledRun, after: ModelledRun, found: list[Check]
) -> list[Prediction]:
    """What to expect of each queue, and of latency and memory in all."""
    worst = errors(found)
    made = []
    for one in observed.queues[:SHOWN_MAX]:
        was, will = _of(before.seen, one.name), _of(after.seen, one.name)
        for measure, read in _measures_of(one):
            first, second = (0.0 if twin is None else read(twin) for twin in (was, will))
            made.append(_prediction(one.name, measure, read(one), first, second, worst[measure]))
    band = max(worst["held"], LOWEST_BAND)
    for measure, first, second in (
        ("confirm p50, ms", before.result.confirm.p50_ms, after.result.confirm.p50_ms),
        ("confirm p99, ms", before.result.confirm.p99_ms, after.result.confirm.p99_ms),
        ("delivery p99, ms", before.result.delivery.p99_ms, after.result.delivery.p99_ms),
        ("peak memory, KiB", before.peak_bytes() / 1024, after.peak_bytes() / 1024),
    ):
        if first > 0 or second > 0:
            low, high = second * (1 - min(band, 1.0)), second * (1 + band)
            made.append(Prediction("", measure, first, second, None, low, high))
    return made


def _measures_of(queue: QueueSeen) -> list[tuple[str, Callable[[QueueSeen], float]]]:
    """What a queue holds is a measure only while it is steady."""
    return [pair for pair in MEASURES if pair[0] != "held" or queue.is_steady()]


def _prediction(
    queue: str, measure: str, seen: float, first: float, second: float, error: float
) -> Prediction:
    band = max(error, LOWEST_BAND)
    if measure == "held time":
        expected = min(1.0, max(0.0, seen + second - first))
        low, high = max(0.0, expected - band), min(1.0, expected + band)
        return Prediction(queue, measure, first, second, expected, low, high)
    expected = seen * second / first if first > SMALL[measure] else second
    low, high = expected * (1 - min(band, 1.0)), expected * (1 + band)
    return Prediction(queue, measure, first, second, expected, low, high)


def _error(measure: str, seen: float, said: float) -> float:
    if measure == "held time":
        return said - seen
    floor = SMALL[measure]
    return max(said, floor) / max(seen, floor) - 1


def _of(seen: Observed, queue: str) -> QueueSeen | None:
    return next((one for one in seen.queues if one.name == queue), None)
