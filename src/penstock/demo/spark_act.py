"""The act with Spark: a query that takes its time slows the publisher down to its pace, loses
nothing and sees nothing twice, and `why` names it.

A payment goes through a fanout exchange to an ordinary queue, which Spark reads by leases, and to a
stream. First the sink is fast, then each batch of the leases takes longer; at last the publisher
ends, and everything it has had confirmed must be in Spark's tables, once.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from penstock.base.errors import OperatorError
from penstock.demo.children import Child, Children, connected_from
from penstock.demo.fleet import READY_SECONDS_MAX, setting_up
from penstock.demo.scenario import (
    EXCHANGE_PAYMENTS,
    LEASED,
    QUEUE_PAYMENTS,
    SLOW_SPARK,
    SPARK,
    SPARK_BATCH_ROWS,
    SPARK_DELAY_MS,
    STREAM_PAYMENTS,
    STREAMED,
)
from penstock.demo.screen import Screen
from penstock.server.control.control_client import ask, control_path
from penstock.spark.report.promises import Promise
from penstock.spark.schema.formats import Phase, RunDescription

END_SECONDS_MAX: Final = 60.0
FAST_SECONDS: Final = 4.0
SLOW_BATCHES: Final = 30
SLOW_BATCHES_MIN: Final = 15
SLOW_SECONDS_MAX: Final = 60.0
SETTLE_BATCHES: Final = 3
"""Batches of the slow phase that are not measured: the queue has to fill up first."""
PACE_TOLERANCE: Final = 0.10
LOOK_SECONDS: Final = 0.05
EXPLANATION_LINES: Final = 6
QUERIES: Final = "spark-queries"
PUBLISHER: Final = "aio-pika-payments"


@dataclass(frozen=True, slots=True)
class Sight:
    """One look. confirmed, at_ns: of the publisher; batches, began_ns: of the leases."""

    confirmed: int
    at_ns: int
    batches: int
    began_ns: int


@dataclass(frozen=True, slots=True)
class SparkActResult:
    """What the act has shown. phases: as they were; names: of clients, by address; rates: rows and
    messages a second; leased, streamed: rows, and different ones among them; clients:
    what each has counted."""

    phases: tuple[Phase, ...]
    names: dict[str, str]
    spark_rate: float
    publish_rate: float
    explanation: str
    confirmed: int
    leased: tuple[int, int]
    streamed: tuple[int, int]
    clients: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def messages(self) -> tuple[str, ...]:
        """What it has shown, and what `penstock why publish` said meanwhile."""
        lines = [" ".join(line.split()) for line in self.explanation.splitlines()]
        said = "; ".join([line for line in lines if line][:EXPLANATION_LINES])
        return (
            f"Spark took {self.spark_rate:,.0f} rows a second from its queue, and the publisher "
            f"went at {self.publish_rate:,.0f} a second.",
            f"`penstock why publish` said meanwhile: {said}",
        )

    def added_to(self, run: RunDescription) -> RunDescription:
        """With what this act has counted, checked and shown."""
        return replace(
            run,
            clients={**run.clients, **self.clients},
            checks=self.promises(),
            messages=self.messages(),
        )

    def promises(self) -> tuple[Promise, ...]:
        """Pace, exactly once, and who is named."""
        ratio = self.publish_rate / self.spark_rate if self.spark_rate else 0.0
        named = f"spark query {LEASED} "
        lines = [line.strip() for line in self.explanation.splitlines()] or [""]
        return (
            Promise(
                "publishers run at the pace of Spark",
                _state(abs(ratio - 1) <= PACE_TOLERANCE),
                f"{self.publish_rate:,.0f}/s published, B/T = {self.spark_rate:,.0f}/s",
            ),
            _once("payments leased to Spark", self.confirmed, self.leased),
            _once("payments streamed to Spark", self.confirmed, self.streamed),
            Promise(
                "`why publish` names the Spark query",
                _state(named in self.explanation.lower()),
                next((one for one in lines if named in one.lower()), lines[0]),
            ),
        )


class SparkAct:
    """children: where processes are started; folder: of the run; plan_file: for the workers."""

    def __init__(self, children: Children, folder: Path, plan_file: Path, screen: Screen) -> None:
        self._children = children
        self._folder = folder
        self._plan_file = plan_file
        self._screen = screen

    async def run(self, url: str, port: int, scale: float) -> SparkActResult:
        """The whole act. Raises: OperatorError when a process fails or does not get ready."""
        began = time.monotonic()
        await declare(url)
        queries = await self._start(QUERIES, "spark_queries")
        publisher = await self._start(PUBLISHER, "aio_pika_payments")
        self._screen.say(
            f" ✔ Spark     2 queries, by leases and from a stream, ready in "
            f"{time.monotonic() - began:.0f} s"
        )
        publisher.tell(f"go {time.monotonic_ns()}")
        start_ns = time.monotonic_ns()
        await self._children.until(
            queries, lambda: queries.status.get("batches", 0) > 0, READY_SECONDS_MAX, "reading"
        )
        await self._pass(queries, publisher, FAST_SECONDS * scale)
        self._screen.say(
            f"             now its sink takes {SPARK_DELAY_MS} ms longer for each batch of "
            f"{SPARK_BATCH_ROWS} rows"
        )
        slow_ns = time.monotonic_ns()
        queries.tell(f"delay {SPARK_DELAY_MS}")
        seen = await self._measure(
            queries, publisher, max(SLOW_BATCHES_MIN, int(SLOW_BATCHES * scale))
        )
        self._screen.say(
            f" ✔ pressure  Spark takes B/T = {pace(seen, SPARK_BATCH_ROWS):,.0f} rows/s, the "
            f"publisher goes at {published(seen):,.0f}/s"
        )
        names = dict.fromkeys(connected_from(publisher.pid, port), PUBLISHER)
        answer = ask(
            control_path(port), {"op": "why", "kind": "publish", "name": PUBLISHER, "window_s": 5.0}
        )
        queries.tell("delay 0")
        end_ns = time.monotonic_ns()
        for child, what in ((publisher, "ended"), (queries, "ended")):
            child.close_input()
            if await child.wait(END_SECONDS_MAX) != 0:
                raise OperatorError(f"{child.name} has not {what} in order:\n{child.log_tail()}")
        taken = rows(self._folder / "spark" / LEASED)
        clients = {PUBLISHER: publisher.counts(), QUERIES: {"delivered": taken[0]}}
        return SparkActResult(
            (Phase(SPARK, start_ns, slow_ns), Phase(SLOW_SPARK, slow_ns, end_ns)),
            names,
            pace(seen, SPARK_BATCH_ROWS),
            published(seen),
            str(answer["text"]),
            publisher.status["confirmed"],
            taken,
            rows(self._folder / "spark" / STREAMED),
            clients,
        )

    async def _start(self, name: str, module: str) -> Child:
        arguments = ("-m", f"penstock.demo.workers.{module}", str(self._plan_file), name)
        child = await self._children.start(name, arguments)
        await self._children.until(child, child.is_ready.is_set, READY_SECONDS_MAX, "ready")
        return child

    async def _pass(self, queries: Child, publisher: Child, seconds: float) -> None:
        """Let time pass. Raises: OperatorError when one of them ends meanwhile."""
        end = time.monotonic() + seconds
        for child in (queries, publisher):
            left = max(0.0, end - time.monotonic())
            await self._children.until(
                child, lambda: time.monotonic() >= end, left + 1.0, "still there"
            )

    async def _measure(self, queries: Child, publisher: Child, batches: int) -> list[Sight]:
        """A look at the beginning of each of so many batches, the queue being full.

        Raises: OperatorError if they take too long."""
        seen: list[Sight] = []
        end = time.monotonic() + SLOW_SECONDS_MAX
        while len(seen) < SETTLE_BATCHES + batches:
            await self._pass(queries, publisher, LOOK_SECONDS)
            told = {**publisher.status, **queries.status}
            sight = Sight(told["confirmed"], told["at_ns"], told["batches"], told["began_ns"])
            if not seen or sight.batches != seen[-1].batches:
                seen.append(sight)
            if time.monotonic() > end:
                raise OperatorError(
                    f"Spark has made {len(seen)} batches only in {SLOW_SECONDS_MAX:.0f} s"
                )
        return seen[SETTLE_BATCHES:]


def pace(seen: list[Sight], batch_rows: int) -> float:
    """B/T: rows of a batch, by the mean time from one batch to the next, in rows a second."""
    first, last = seen[0], seen[-1]
    seconds = (last.began_ns - first.began_ns) / 1e9
    return batch_rows * (last.batches - first.batches) / seconds


def published(seen: list[Sight]) -> float:
    """What the publisher has had confirmed, a second."""
    first, last = seen[0], seen[-1]
    return (last.confirmed - first.confirmed) / ((last.at_ns - first.at_ns) / 1e9)


def rows(folder: Path) -> tuple[int, int]:
    """Rows, and different payments among them, in all batches of `folder`."""
    # pyarrow comes with the extra for Spark.
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    ids = pq.read_table(str(folder), columns=["id"]).column("id")
    return len(ids), pc.count_distinct(ids).as_py()


async def declare(url: str) -> None:
    """Exchange, queue, stream and bindings of the act. Raises: OperatorError."""
    async with setting_up(url, "the queues for Spark could not be declared") as channel:
        exchange = await channel.declare_exchange(EXCHANGE_PAYMENTS, "fanout", durable=True)
        queue = await channel.declare_queue(QUEUE_PAYMENTS, durable=True)
        stream = await channel.declare_queue(
            STREAM_PAYMENTS, durable=True, arguments={"x-queue-type": "stream"}
        )
        for target in (queue, stream):
            await target.bind(exchange)


def _once(name: str, confirmed: int, found: tuple[int, int]) -> Promise:
    count, different = found
    return Promise(
        f"{name}: each once",
        _state(count == different == confirmed),
        f"{confirmed:,} confirmed, {confirmed - different:,} lost, {count - different:,} twice",
    )


def _state(is_kept: bool) -> str:
    return "kept" if is_kept else "broken"
