"""One sample of the broker for all open pages, and what the last ten minutes looked like.

A question that many pages ask is asked of the broker once a second, and all of them together for a
small share of the time: on a large broker pages show what is some seconds old. History is kept only
of what somebody looks at: a point every five seconds, begun when the first page is opened and
dropped ten minutes after the last.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.base.limits import MANAGEMENT_HISTORIES, MANAGEMENT_LISTING_MS
from penstock.management import missing
from penstock.management.broker_link import BrokerLink, Row

KEPT_MAX: Final = 256
"""Answers that are kept for those who ask again."""
SHARE: Final = 0.1
"""Of the time, in which pages wait for answers that are asked for again."""
CREDIT_MAX_S: Final = 0.5
"""Of that share, what may be saved up."""
STALE_S: Final = 15.0
"""An answer that is older is asked for again, whatever the share."""
STEP_S: Final = 5.0
POINTS: Final = 120
"""Ten minutes."""
FORGET_S: Final = 600.0

BUSY: Final = 0.2
SLOWEST: Final = 30.0
PACE_S: Final = 2.0

Key = tuple[str, str, str]
"""Kind, virtual host, name."""
NODE: Final[Key] = ("node", "", "")


class Samples:
    """Answers of the broker that all pages share. Bound: KEPT_MAX, and SHARE of the time."""

    def __init__(self, link: BrokerLink, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: seconds, monotonic."""
        self.link = link
        self._clock = clock
        # When it came, and what.
        self._kept: dict[bytes, tuple[float, Row]] = {}
        self._asking: dict[bytes, asyncio.Task[Row]] = {}
        self._credit_s = CREDIT_MAX_S
        self._counted = clock()

    async def ask(self, request: Row) -> Row:
        """The answer to `request`, of a moment ago if somebody has just asked. Do not change it.

        Raises: as BrokerLink.ask."""
        key = msgspec.json.encode(request)
        kept = self._kept.get(key)
        if kept is not None:
            age_s = self._clock() - kept[0]
            is_new = age_s < MANAGEMENT_LISTING_MS.default / 1000
            if is_new or (age_s < STALE_S and not self.has_credit()):
                missing.note(missing.parts_of(kept[1]))
                return kept[1]
        asking = self._asking
        task = asking.get(key)
        if task is None:
            task = asyncio.create_task(self._ask(key, request))
            asking[key] = task
            task.add_done_callback(lambda _: asking.pop(key, None))
        answer = await asyncio.shield(task)
        missing.note(missing.parts_of(answer))
        return answer

    def has_credit(self) -> bool:
        """Whether pages have taken less than their share of the time."""
        now = self._clock()
        earned = (now - self._counted) * SHARE
        self._credit_s = min(CREDIT_MAX_S, self._credit_s + earned)
        self._counted = now
        return self._credit_s > 0

    async def _ask(self, key: bytes, request: Row) -> Row:
        began, kept = self._clock(), self._kept
        answer = await self.link.ask(request)
        now = self._clock()
        self._credit_s -= now - began
        while len(kept) >= KEPT_MAX:
            del kept[next(iter(kept))]
        kept.pop(key, None)
        kept[key] = (now, answer)
        return answer

    def forget(self) -> None:
        """Something was changed: the next page shows it, and nobody what was asked for before."""
        self._kept = {}
        self._asking = {}


@dataclass(slots=True)
class Series:
    """Points of one object: seconds, and values by name. seen: when a page last showed it."""

    seen: float
    points: deque[tuple[float, dict[str, float]]] = field(
        default_factory=lambda: deque(maxlen=POINTS)
    )


class History:
    """Bound: MANAGEMENT_HISTORIES objects; the one longest unseen is forgotten."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.link = samples.link
        self._series: dict[Key, Series] = {}
        self._task: asyncio.Task[None] | None = None

    async def of(self, key: Key) -> list[tuple[float, dict[str, float]]]:
        """The points of an object, the oldest first: seconds before now, and values. From now on
        it is looked at."""
        series = self._series.get(key)
        if series is None:
            while len(self._series) >= MANAGEMENT_HISTORIES.default:
                del self._series[min(self._series, key=lambda one: self._series[one].seen)]
            series = self._series[key] = Series(time.monotonic())
            await self._look(key, series)
        now = series.seen = time.monotonic()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return [(now - at, values) for at, values in series.points]

    async def _run(self) -> None:
        """Look at everything that is watched, until nothing is."""
        while self._series:
            await asyncio.sleep(STEP_S)
            now = time.monotonic()
            for key, series in list(self._series.items()):
                if now - series.seen > FORGET_S:
                    self._series.pop(key, None)
                elif self.samples.has_credit():
                    await self._look(key, series)

    async def _look(self, key: Key, series: Series) -> None:
        # A broker that does not answer leaves a gap.
        with suppress(OperatorError):
            values = await self._values(key)
            if values:
                series.points.append((time.monotonic(), values))

    async def _values(self, key: Key) -> dict[str, float]:
        kind, vhost, name = key
        if kind == "node":
            return node_values(await self.link.node())
        request = {"op": "objects", "do": f"{kind}s", "limit": 1, "after": "", "name": name}
        if vhost:
            request["vhost"] = vhost
        rows = (await self.samples.ask(request))["items"]
        return object_values(rows[0]) if rows else {}


def node_values(node: Row) -> dict[str, float]:
    """What is drawn of the node. held: share of its publishers that are throttled, 0..1."""
    rates, totals, publishers = node["rates"], node["totals"], node["publishers"]
    count = sum(publishers.values())
    return {
        "in": rates.get("conn:published", 0.0),
        "out": rates.get("queue:delivered", 0.0),
        "ready": float(totals["messages_ready"]),
        "unacked": float(totals["messages_unacknowledged"]),
        "held": (count - publishers["running"]) / count if count else 0.0,
    }


def object_values(row: Row) -> dict[str, float]:
    """What is drawn of a queue or a connection."""
    stats = row["message_stats"]
    return {
        "in": rate_of(stats, "publish"),
        "out": rate_of(stats, "deliver_get"),
        "ready": float(row.get("messages_ready", 0)),
        "unacked": float(row.get("messages_unacknowledged", 0)),
        "held": float(row["flow"]["blocked_share"]),
    }


def rate_of(stats: Row, name: str) -> float:
    """Messages a second of `message_stats`, 0 where it has none."""
    return float(stats.get(f"{name}_details", {}).get("rate", 0.0))


class Pace:
    """Slows open pages down so that together they take BUSY of a processor: a factor on the time
    that their script waits before it asks again."""

    def __init__(self) -> None:
        self.factor = 1.0
        self._at = time.monotonic()
        self._used = time.process_time()

    def told(self) -> str:
        """The factor now, 1 to SLOWEST."""
        now, used = time.monotonic(), time.process_time()
        if now - self._at >= PACE_S:
            busy = (used - self._used) / (now - self._at)
            wanted = self.factor * busy / BUSY
            self.factor = min(SLOWEST, max(1.0, (self.factor + wanted) / 2))
            self._at, self._used = now, used
        return f"{self.factor:.1f}"
