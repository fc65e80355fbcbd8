"""One sample of the broker for all open pages, and what the last ten minutes looked like.

A question that many pages ask is asked of the broker once a second, and less often where the answer
took long. History is kept only of what somebody looks at: a point every five seconds, begun when
the first page is opened and dropped ten minutes after the last.
"""

import asyncio
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.base.limits import MANAGEMENT_HISTORIES, MANAGEMENT_LISTING_MS
from penstock.management.broker_link import BrokerLink, Row

KEPT_MAX: Final = 256
"""Answers that are kept for those who ask again."""
SLOW_FACTOR: Final = 5
"""An answer is kept at least this many times as long as it took."""
STEP_S: Final = 5.0
POINTS: Final = 120
"""Ten minutes."""
FORGET_S: Final = 600.0

Key = tuple[str, str, str]
"""Kind, virtual host, name."""
NODE: Final[Key] = ("node", "", "")


class Samples:
    """Answers of the broker that all pages share. Bound: KEPT_MAX."""

    def __init__(self, link: BrokerLink) -> None:
        self.link = link
        self._kept: dict[bytes, tuple[float, Row]] = {}
        self._asking: dict[bytes, asyncio.Task[Row]] = {}

    async def ask(self, request: Row) -> Row:
        """The answer to `request`, of a moment ago if somebody has just asked. Do not change it.

        Raises: as BrokerLink.ask."""
        key = msgspec.json.encode(request)
        kept = self._kept.get(key)
        if kept is not None and time.monotonic() < kept[0]:
            return kept[1]
        task = self._asking.get(key)
        if task is None:
            task = asyncio.create_task(self._ask(key, request))
            self._asking[key] = task
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        return await asyncio.shield(task)

    async def _ask(self, key: bytes, request: Row) -> Row:
        began = time.monotonic()
        answer = await self.link.ask(request)
        now = time.monotonic()
        while len(self._kept) >= KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        keep_s = max(MANAGEMENT_LISTING_MS.default / 1000, (now - began) * SLOW_FACTOR)
        self._kept.pop(key, None)
        self._kept[key] = (now + keep_s, answer)
        return answer

    def forget(self) -> None:
        """Something was changed: the next page shows it."""
        self._kept.clear()


@dataclass(slots=True)
class Series:
    """Points of one object: seconds, and values by name. seen: when a page last showed it."""

    seen: float
    points: deque[tuple[float, dict[str, float]]] = field(
        default_factory=lambda: deque(maxlen=POINTS)
    )


class History:
    """Bound: MANAGEMENT_HISTORIES objects; the one longest unseen is forgotten."""

    def __init__(self, link: BrokerLink) -> None:
        self.link = link
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
                else:
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
        if kind == "queue":
            rows = await self.link.listing("queues", vhost=vhost, name=name)
        else:
            rows = await self.link.listing("connections", name=name)
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
