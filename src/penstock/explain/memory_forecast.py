"""When the memory alarm rings if what happens now goes on: how fast what is held grows, how much
room is left for it, and which queues stop growing before.

    room     limit - used. Where more was held some minutes ago, what was freed since is used again
             first, so it is room, although the system counts it as used.
    growth   of what is held, in the window, and as much more as the system counts for it
    ends     a queue grows until it pages, or until its depth mark holds its publishers; all that
             page together until they have their share of the mark
A forecast beyond a day from a window of seconds would be a guess, and is none.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.base.steps import whole
from penstock.explain.window_index import paced
from penstock.telemetry.actor_window import ActorWindow

NODE: Final = "node"
BASE: Final = "base_bytes"
"""Number of the node: what the process uses beside what it holds, see flow.watermark.Least."""
PAGING_BUDGET: Final = "paging_budget_bytes"
"""Number of the node: what queues that page may hold together."""
PAGES_ABOVE: Final = "pages_above"
"""Number of a queue that can page: bytes it holds when it begins to."""
PEAK: Final = "peak_bytes"
"""Number of the node: the most it has held in the last minutes."""
FORECAST_S: Final = 86_400.0
OVERHEAD_MAX: Final = 1.3
"""Times: memory may grow by so much more than what is held, without being for something else."""
LITTLE: Final = 0.02
"""Part of the growth that does not count once the queues that grow have stopped."""


@dataclass(frozen=True, slots=True)
class MemoryForecast:
    """growth_bytes_per_s: of what is held; alarm_in_s: at this rate, None if it will not ring
    within a day; stops_at: why the growth ends before, `paging` or `depth`, "" if it does not."""

    growth_bytes_per_s: float = 0.0
    alarm_in_s: float | None = None
    stops_at: str = ""


@dataclass(frozen=True, slots=True)
class Ramp:
    """One queue that grows. end_s: until it stops; growth: of its memory, bytes a second."""

    end_s: float
    growth: float
    why: str


def forecast(
    windows: Mapping[str, ActorWindow], before: Mapping[str, ActorWindow], span_s: float
) -> MemoryForecast:
    """before: the same actors span_s seconds earlier."""
    return whole(forecasting(windows, before, span_s))


def forecasting(
    windows: Mapping[str, ActorWindow], before: Mapping[str, ActorWindow], span_s: float
) -> Generator[float, None, MemoryForecast]:
    """The same in steps."""
    node, old = windows.get(NODE), before.get(NODE)
    if node is None or old is None or span_s <= 0:
        return MemoryForecast()
    held = node.numbers.get("memory_bytes", 0.0)
    growth = (held - old.numbers.get("memory_bytes", 0.0)) / span_s
    used = node.numbers.get("used_bytes", 0.0)
    free = _kept_free(node.numbers)
    room = node.numbers.get("limit_bytes", 0.0) - used + free
    if growth > 0 and free == 0:
        seen = (used - old.numbers.get("used_bytes", used)) / span_s / growth
        # Counted in what is held, so that queues and the rest are in one measure.
        room /= min(max(seen, 1.0), OVERHEAD_MAX)
    if growth <= 0 or room <= 0:
        return MemoryForecast(growth)
    ramps = yield from _ramps(windows, before, span_s, node.numbers.get(PAGING_BUDGET, 0.0))
    at_s, rate = 0.0, growth
    # In one go: 3 ms for 20,000 queues that grow.
    ramps.sort(key=lambda one: one.end_s)
    for ramp in paced(ramps):
        if ramp is None:
            yield 0.0
            continue
        if rate > 0 and room <= rate * (ramp.end_s - at_s):
            break
        room -= rate * (ramp.end_s - at_s)
        at_s = ramp.end_s
        rate -= ramp.growth
        if rate < growth * LITTLE:
            return MemoryForecast(growth, None, ramp.why)
    alarm_in_s = at_s + room / rate
    return MemoryForecast(growth, alarm_in_s if alarm_in_s <= FORECAST_S else None)


def _kept_free(numbers: Mapping[str, float]) -> float:
    """What was held once, and the system has not taken back."""
    held = numbers.get("memory_bytes", 0.0)
    used = numbers.get("used_bytes", 0.0)
    rest = used - held - numbers.get(BASE, used - held)
    return max(0.0, min(rest, numbers.get(PEAK, held) - held))


def _ramps(
    windows: Mapping[str, ActorWindow],
    before: Mapping[str, ActorWindow],
    span_s: float,
    budget: float,
) -> Generator[float, None, list[Ramp]]:
    """Of each queue that grows and will stop growing, in steps. budget: of all that page, 0 for
    none."""
    found: list[Ramp] = []
    paging: list[Ramp] = []
    paged_bytes = paged_growth = 0.0
    for one in paced(windows.items()):
        if one is None:
            yield 0.0
            continue
        name, window = one
        if window.kind != "queue":
            continue
        now = window.numbers
        was = before[name].numbers if name in before else {}
        memory = _memory(now)
        growth = (memory - _memory(was)) / span_s
        size_growth = (now.get("bytes", 0.0) - was.get("bytes", 0.0)) / span_s
        if PAGES_ABOVE in now:
            paged_bytes += memory
        if growth <= 0 or size_growth <= 0:
            continue
        if PAGES_ABOVE in now:
            paged_growth += growth
            end_s = max(0.0, now[PAGES_ABOVE] - now.get("bytes", 0.0)) / size_growth
            paging.append(Ramp(end_s, growth, "paging"))
        elif now.get("depth_bytes", 0.0) > 0:
            end_s = max(0.0, now["depth_bytes"] - now.get("bytes", 0.0)) / size_growth
            found.append(Ramp(end_s, growth, "depth"))
    if paged_growth > 0 and budget > 0:
        together_s = max(0.0, budget - paged_bytes) / paged_growth
        paging = [Ramp(min(one.end_s, together_s), one.growth, one.why) for one in paging]
    return found + paging


def _memory(numbers: Mapping[str, float]) -> float:
    """What a queue holds; records of before have no part of what is shared."""
    return numbers.get("memory_bytes", numbers.get("bytes", 0.0))
