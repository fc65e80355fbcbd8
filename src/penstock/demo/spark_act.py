"""The act with Spark: the pipeline of examples/orders, in a virtual host of its own.

Every program of it is started as docs/orders.md says. First a brake is on: Spark takes BATCH_ROWS
orders a second, so the queue fills, the shop goes at that pace, and `why` names the query. Then
Spark is killed, and started anew without the brake; the shop changes the form of its orders
meanwhile. At last every order that the shop has had confirmed must be in the tables once, and on an
invoice or among the dead letters once. What is measured is read from the tables themselves.
"""

import asyncio
import re
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

import penstock
from penstock.base.errors import OperatorError
from penstock.broker.admin.answers_flow import Frame
from penstock.demo.children import HOST, Child, Children, connected_from
from penstock.demo.scenario import SLOW_SPARK, SPARK
from penstock.demo.screen import LOOK_S, Screen, look
from penstock.demo.shop_tables import Batch, batches_of, number_before, pace, sold_a_second
from penstock.server.control.control_client import ask, control_path
from penstock.spark.report.promises import Promise
from penstock.spark.schema.formats import Phase, RunDescription

VHOST: Final = "shop"
SHOP: Final = "shop-sell"
"""As shop.py names its connection."""
QUERY: Final = "orders-bronze"
WAITING_MOST: Final = 1000
"""Orders that wait in the queue before the shop waits, as shop.py declares it."""
BATCH_ROWS: Final = 100
EVERY: Final = "1 second"
BATCHES: Final = 10
BATCHES_MIN: Final = 6
SETTLE_BATCHES: Final = 2
"""Batches with the brake that are not measured: the queue has just filled."""
MORE_BATCHES: Final = 10
"""Orders for so many batches more, that the shop is still held when Spark is killed."""
REST: Final = 400
"""Orders in the other form."""
REST_MIN: Final = 100
PACE_TOLERANCE: Final = 0.10
EDGE_BATCHES: Final = 2
"""The shop sells in bursts of a batch, of which one at either end of the time may be counted or
not: so much more may be between the two rates, of the batches that were measured."""
STEP_SECONDS_MAX: Final = 300.0
"""For each step, which takes some seconds where the machine has little else to do."""
STEP_SECONDS: Final = 0.25
HELD_SHARE: Final = 0.5
"""Of a second: the queue takes a batch's worth of orders when Spark has taken one, then nothing."""
IDLE_SECONDS: Final = 3600
"""The accountant waits for invoices until he is told to go."""
EXPLANATION_LINES: Final = 6
CHECKS: Final = 4
"""That `stream.py --check` makes when there is a book."""


@dataclass(frozen=True, slots=True)
class SparkActResult:
    """What the act has shown. phases: as they were; names: of clients, by address; rates: rows and
    orders a second while the brake was on; batches: of Spark in that time, 1..; explanation: of
    `why`; sold: orders that the shop has had confirmed; back_s: from the kill until Spark ran
    again; checked, dead: what `stream.py --check` and `shop.py dead` have printed."""

    phases: tuple[Phase, ...]
    names: dict[str, str]
    spark_rate: float
    publish_rate: float
    batches: int
    explanation: str
    sold: int
    back_s: float
    checked: tuple[str, ...]
    dead: tuple[str, ...]

    def messages(self) -> tuple[str, ...]:
        """What it has shown, and what `penstock why publish` said meanwhile."""
        lines = [" ".join(line.split()) for line in self.explanation.splitlines()]
        said = "; ".join([line for line in lines if line][:EXPLANATION_LINES])
        reasons = "; ".join(line.strip() for line in self.dead)
        return (
            f"Spark took {self.spark_rate:,.0f} orders a second from the shop's queue, and the "
            f"shop went at {self.publish_rate:,.0f} a second.",
            f"`penstock why publish` said meanwhile: {said}",
            f"Spark was killed (kill -9, driver and Java) while the shop waited, and ran again "
            f"after {self.back_s:.0f} s; the shop has sold {self.sold:,} orders, the last of them "
            "in another form.",
            f"Dead letters, by reason: {reasons}",
        )

    def added_to(self, run: RunDescription) -> RunDescription:
        """With what this act has checked and shown."""
        return replace(run, checks=self.promises(), messages=self.messages())

    def promises(self) -> tuple[Promise, ...]:
        """Pace, who is named, every order once through tables and exchanges."""
        ratio = self.publish_rate / self.spark_rate if self.spark_rate else 0.0
        named = f"spark query {QUERY} "
        lines = [line.strip() for line in self.explanation.splitlines()] or [""]
        return (
            Promise(
                "publishers run at the pace of Spark",
                _state(abs(ratio - 1) <= PACE_TOLERANCE + EDGE_BATCHES / self.batches),
                f"{self.publish_rate:,.0f}/s published, B/T = {self.spark_rate:,.0f}/s",
            ),
            Promise(
                "`why publish` names the Spark query",
                _state(named in self.explanation.lower()),
                next((one for one in lines if named in one.lower()), lines[0]),
            ),
            *self._tables(),
        )

    def _tables(self) -> tuple[Promise, ...]:
        """As the pipeline has found them itself, and by what the shop says."""
        marks = [line.partition(" ") for line in self.checked if line[:1] in ("✔", "✘")]
        counted = next((line for line in self.checked if "orders came" in line), "")
        came, _, bad = (int(one) for one in re.findall(r"\d+", counted)[:3] or (0, 0, 0))
        letters = number_before("dead letters", self.dead)
        refused = number_before("refused by the accountant", self.dead)
        return (
            Promise(
                "every order of the shop is in the tables",
                _state(came == self.sold),
                f"{self.sold:,} confirmed, {came:,} in bronze; Spark was killed meanwhile",
            ),
            *(Promise(what, _state(mark == "✔"), counted) for mark, _, what in marks),
            Promise(
                "every bad order is a dead letter once",
                _state(letters == bad + refused),
                f"{bad:,} in quarantine, {refused:,} refused by the accountant, "
                f"{letters:,} dead letters",
            ),
        )


class SparkAct:
    """children: where processes are started; folder: of the run; port: of the broker."""

    def __init__(self, children: Children, folder: Path, port: int, screen: Screen) -> None:
        self._children = children
        self._place = example()
        self._tables = folder / "orders"
        self._port = port
        self._control = control_path(port)
        self._screen = screen

    async def run(self, scale: float) -> SparkActResult:
        """The whole act. Raises: OperatorError when a process fails or takes too long."""
        began = time.monotonic()
        ask(self._control, {"op": "vhosts", "do": "add", "name": VHOST})
        await self._done("shop-open", "shop.py", "open")
        brake = ("--rows", str(BATCH_ROWS), "--every", EVERY)
        spark = await self._spark("spark-orders", *brake)
        book = str(self._tables / "book.txt")
        accountant = await self._start(
            "accountant", "shop.py", "bill", book, "--idle", str(IDLE_SECONDS)
        )
        self._screen.say(
            f" ✔ Spark     examples/orders: 6 queries ready in {time.monotonic() - began:.0f} s, "
            f"with a brake: {BATCH_ROWS} orders each {EVERY}"
        )
        batches = max(BATCHES_MIN, int(BATCHES * scale))
        many = WAITING_MOST + BATCH_ROWS * (SETTLE_BATCHES + batches + MORE_BATCHES)
        start_ns = time.monotonic_ns()
        shop = await self._start("shop", "shop.py", "sell", str(many))
        seen = await self._measure(spark, shop, batches)
        names = dict.fromkeys(connected_from(shop.pid, self._port), SHOP)
        answer = ask(self._control, {"op": "why", "kind": "publish", "name": "", "window_s": 5.0})
        kill_ns = time.monotonic_ns()
        await spark.kill_all()
        spark = await self._spark("spark-orders-again")
        back_s = (time.monotonic_ns() - kill_ns) / 1e9
        self._screen.say(
            f" ✔ pressure  Spark takes B/T = {pace(seen):,.0f} orders/s, and the shop waits; "
            f"killed (kill -9), it runs again after {back_s:.0f} s"
        )
        await self._end(shop)
        rest = max(REST_MIN, int(REST * scale))
        more = await self._done("shop-2", "shop.py", "sell", str(rest), "--form", "2")
        # What is in the queue goes through all of its queries before it ends.
        spark.send_signal(signal.SIGINT)
        await self._end(spark)
        await self._until_billed(accountant)
        await accountant.stop()
        end_ns = time.monotonic_ns()
        dead = await self._done("shop-dead", "shop.py", "dead")
        checked = await self._checked()
        return SparkActResult(
            (Phase(SLOW_SPARK, start_ns, kill_ns), Phase(SPARK, kill_ns, end_ns)),
            names,
            pace(seen),
            sold_a_second(self._tables / "bronze", seen[0].at_ms, seen[-1].at_ms),
            len(seen) - 1,
            str(answer["text"]),
            sum(number_before("orders in", [line]) for line in (*shop.said, *more)),
            back_s,
            tuple(checked),
            tuple(dead),
        )

    async def _start(self, name: str, program: str, *arguments: str) -> Child:
        where = f"amqp://guest:guest@{HOST}:{self._port}/{VHOST}"
        environment = {"ORDERS_URL": where, "PYTHONUNBUFFERED": "1"}
        given = (str(self._place / program), *arguments)
        return await self._children.start(name, given, environment)

    async def _spark(self, name: str, *brake: str) -> Child:
        child = await self._start(name, "stream.py", str(self._tables), *brake)
        await self._children.until(
            child, lambda: "running" in child.said, STEP_SECONDS_MAX, "running"
        )
        return child

    async def _done(self, name: str, program: str, *arguments: str) -> list[str]:
        """What the program has printed when it is done. Raises: OperatorError."""
        child = await self._start(name, program, *arguments)
        await self._end(child)
        return list(child.said)

    async def _end(self, child: Child) -> None:
        """Raises: OperatorError unless it ends well."""
        if await child.wait(STEP_SECONDS_MAX) != 0:
            raise OperatorError(f"{child.name} has not ended in order:\n{child.log_tail()}")

    async def _checked(self) -> list[str]:
        """What the pipeline says of its tables, right or not. Raises: OperatorError."""
        child = await self._start("spark-check", "stream.py", str(self._tables), "--check")
        await child.wait(STEP_SECONDS_MAX)
        if sum(line[:1] in ("✔", "✘") for line in child.said) != CHECKS:
            raise OperatorError(f"the tables could not be checked:\n{child.log_tail()}")
        return list(child.said)

    async def _measure(self, spark: Child, shop: Child, batches: int) -> list[Batch]:
        """So many batches of Spark while the shop is held. Raises: OperatorError if it takes too
        long."""
        end = time.monotonic() + STEP_SECONDS_MAX
        table = self._tables / "bronze"
        while (await asyncio.to_thread(look, self._control)).share < HELD_SHARE:
            await self._pass(spark, shop, end)
        first = len(batches_of(table)) + SETTLE_BATCHES
        while len(seen := batches_of(table)) <= first + batches:
            await self._pass(spark, shop, end)
        return seen[first:]

    async def _pass(self, spark: Child, shop: Child, end: float) -> None:
        """A little time. Raises: OperatorError behind `end`, or when a process is gone."""
        await asyncio.sleep(STEP_SECONDS)
        for child in (spark, shop):
            if child.exit_status is not None:
                raise OperatorError(
                    f"{child.name} ended with status {child.exit_status} before its time:\n"
                    f"{child.log_tail()}"
                )
        if time.monotonic() > end:
            raise OperatorError(
                f"Spark did not hold the shop for {BATCHES_MIN} batches within "
                f"{STEP_SECONDS_MAX:.0f} s"
            )

    async def _until_billed(self, accountant: Child) -> None:
        """Raises: OperatorError when the invoices do not end."""

        def is_empty() -> bool:
            asked: dict[str, object] = {"op": "flow", "do": "top", "window_s": LOOK_S}
            queues = msgspec.convert(ask(self._control, asked), Frame).queues
            return all(
                one.ready + one.unacked == 0 for one in queues if one.name.endswith("/invoices")
            )

        await self._children.until(accountant, is_empty, STEP_SECONDS_MAX, "done with the invoices")


def example() -> Path:
    """Where examples/orders is: in the package when that is installed, else beside its sources.
    Raises: OperatorError."""
    package = Path(penstock.__file__).resolve().parent
    for place in (package, package.parents[1]):
        if (place / "examples" / "orders").is_dir():
            return place / "examples" / "orders"
    raise OperatorError(f"examples/orders is neither in {package} nor beside its sources")


def _state(is_kept: bool) -> str:
    return "kept" if is_kept else "broken"
