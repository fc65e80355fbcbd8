"""`penstock run`: broker, real clients, one scenario, analysis, report, honest exit status."""

import asyncio
import importlib.util
import os
import platform
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from rich.console import Console

from penstock.base.errors import OperatorError
from penstock.demo.checks import traced
from penstock.demo.children import HOST, Children, choose_port
from penstock.demo.fleet import (
    QUEUE_DEPTH_BYTES,
    Fleet,
    client_versions,
    declare_queues,
    drain_deadline_ns,
)
from penstock.demo.greeting import cpu_text
from penstock.demo.scenario import (
    DRAIN,
    QUEUE_MAIL,
    SLOW,
    STATUS_SECONDS,
    STEADY,
    DemoPlan,
    phases,
)
from penstock.demo.screen import Screen, StatusLine, look
from penstock.demo.spark_act import SparkAct, SparkActResult
from penstock.server.control.control_client import control_path
from penstock.spark.job.pipeline import spark_java
from penstock.spark.report.promises import MARKS, Promise
from penstock.spark.report.summary import Summary
from penstock.spark.schema.formats import TABLES, Phase, RunDescription, write_run

EXIT_OK: Final = 0
EXIT_BROKEN_PROMISE: Final = 1
EXIT_CANNOT_RUN: Final = 2
EXIT_INTERRUPTED: Final = 130
ANALYSIS_SECONDS_MAX: Final = 600.0
CLIENTS: Final = ("pika", "aio_pika", "celery")
INSTALL: Final = 'pip install "penstock-mq[demo]"'
EVENTS: Final = "events"
MARK: Final = ".penstock-run"
MARK_TEXT: Final = f"`penstock run` was here: the next one empties {EVENTS} and {TABLES}.\n"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """port: 0..65535, 0 for any free one. duration_scale: 0.1..10, factor on the length of every
    phase. keep_events: keep events and traces beside the report. report_dir: made if missing. seed:
    of message bodies."""

    port: int = 0
    duration_scale: float = 1.0
    keep_events: bool = False
    report_dir: Path = Path("penstock-report")
    seed: int = 1


def run(options: RunOptions) -> int:
    """Do the whole job once.

    Returns the exit status: 0 every promise was kept, 1 one was broken, 2 it could not run, 130
    interrupted. Whatever was started has ended when this returns.
    """
    console = Console(highlight=False)
    screen = Screen(console)
    try:
        return asyncio.run(_Run(options, screen).whole())
    except OperatorError as fault:
        screen.say(f" ✘ {fault}")
        return EXIT_CANNOT_RUN
    except asyncio.CancelledError:
        screen.say(" ✘ interrupted; the broker and all clients have ended")
        return EXIT_INTERRUPTED


class _Run:
    """One run, from the first line to the last."""

    def __init__(self, options: RunOptions, screen: Screen) -> None:
        self._options = options
        self._screen = screen
        self._began = time.monotonic()
        self._is_interrupted = False
        self._directory = options.report_dir / EVENTS
        self._children = Children(self._directory)
        self._fleet = Fleet(self._children, self._directory)
        self._outcome: SparkActResult | None = None
        self._no_spark = ""

    async def whole(self) -> int:
        _require_clients()
        _require_scale(self._options.duration_scale)
        self._look_for_spark()
        task = asyncio.current_task()
        assert task is not None, "this coroutine runs as the main task"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # What nohup has it ignore it ignores.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, self._interrupt, task)
        _check_own(self._options.report_dir)
        _make_empty(self._directory)
        # What an earlier run has left there is of other files; the analysis adds to what it finds.
        shutil.rmtree(self._options.report_dir / TABLES, ignore_errors=True)
        try:
            url = await self._start_broker()
            timing = phases(self._options.duration_scale)
            plan = DemoPlan(url, str(self._directory), self._options.seed, timing)
            await self._start_clients(plan)
            await self._scenario(plan)
            return await self._analyse()
        finally:
            # Nothing interrupts that, not even the first Ctrl-C: what it leaves would stay.
            self._is_interrupted = True
            await self._children.stop_all()

    def _look_for_spark(self) -> None:
        """Without Spark the rest of the run is still worth seeing: say what it lacks, and go on."""
        try:
            spark_java()
        except OperatorError as fault:
            self._no_spark = str(fault)
            self._screen.say(" – spark     left out, and with it the report: see the last lines")

    def _interrupt(self, task: asyncio.Task[int]) -> None:
        # Only once: a second Ctrl-C must not interrupt the ending of the children.
        if not self._is_interrupted:
            self._is_interrupted = True
            task.cancel()

    async def _start_broker(self) -> str:
        started = time.monotonic()
        port = choose_port(self._options.port)
        await self._fleet.start_broker(port)
        url = f"amqp://guest:guest@{HOST}:{port}"
        self._screen.say(f" ✔ broker    {url}   ready in {time.monotonic() - started:.1f} s")
        return f"{url}/%2f"

    async def _start_clients(self, plan: DemoPlan) -> None:
        started = time.monotonic()
        await declare_queues(plan.url)
        await self._fleet.start_clients(plan)
        self._screen.say(
            f" ✔ clients   {client_versions()}   {len(self._fleet.clients())} processes connected "
            f"in {time.monotonic() - started:.1f} s, all unmodified"
        )
        names = " → ".join(f"{phase.name} {phase.seconds:.0f} s" for phase in plan.phases)
        self._screen.say(f" scenario    {names} → {DRAIN}\n")

    async def _scenario(self, plan: DemoPlan) -> None:
        port = urlsplit(plan.url).port
        assert port is not None, "the address is ours"
        names = self._fleet.names(port)
        start_ns = self._fleet.go()
        watch = _Watch(self._fleet, plan, start_ns, control_path(port))
        deadline_ns = drain_deadline_ns(start_ns, plan)
        publishing_ends_ns = start_ns + int(plan.seconds() * 1e9)
        self._screen.open()
        try:
            while True:
                await asyncio.sleep(STATUS_SECONDS)
                self._fleet.check()
                now_ns = time.monotonic_ns()
                self._screen.show(await watch.look(now_ns))
                is_over = now_ns > publishing_ends_ns
                if now_ns > deadline_ns or (is_over and self._fleet.is_drained()):
                    break
        finally:
            self._screen.close()
        drained_ns = time.monotonic_ns()
        await self._fleet.stop_clients()
        bounds = watch.phases(drained_ns)
        if not self._no_spark:
            act = SparkAct(self._children, self._directory, port, self._screen)
            self._outcome = await act.run(self._options.duration_scale)
            bounds += self._outcome.phases
            names.update(self._outcome.names)
        status = await self._fleet.stop_broker()
        if status != 0:
            raise OperatorError(f"the broker did not end cleanly, status {status}")
        self._run = RunDescription(
            bounds,
            QUEUE_MAIL,
            STEADY,
            SLOW,
            names,
            facts=self._facts(port),
            clients={child.name: child.counts() for child in self._fleet.clients()},
        )
        if self._outcome is not None:
            self._run = self._outcome.added_to(self._run)
        write_run(self._directory, self._run)

    def _facts(self, port: int) -> dict[str, str]:
        """What a reader of the report has to know of the run."""
        options = self._options
        return {
            "host": f"{os.uname().nodename}, {cpu_text()}, {platform.platform()}",
            "address": f"{HOST}:{port}",
            "clients": client_versions(),
            "settings": f"--duration {options.duration_scale:g}, --seed {options.seed}; the broker "
            f"in memory, with --queue-depth {QUEUE_DEPTH_BYTES}",
        }

    async def _analyse(self) -> int:
        if self._no_spark:
            return self._checked(traced(self._directory, self._run))
        started = time.monotonic()
        self._screen.say("\n analysing …")
        report, tables = self._options.report_dir, self._options.report_dir / TABLES
        for name, *arguments in (
            ("run", "--input", self._directory, "--tables", tables),
            ("report", "--tables", tables, "--output", report),
        ):
            command = ("-m", "penstock.cli.main", "pipeline", name, *map(str, arguments))
            child = await self._children.start("analysis", command)
            status = await child.wait(ANALYSIS_SECONDS_MAX)
            if status is None:
                raise OperatorError(
                    f"the analysis was not done after {ANALYSIS_SECONDS_MAX:.0f} s: this machine "
                    f"is too busy, or it hangs. Its last words:\n{child.log_tail()}"
                )
            if status not in (EXIT_OK, EXIT_BROKEN_PROMISE):
                raise OperatorError(f"the analysis failed, status {status}:\n{child.log_tail()}")
        summary = Summary.read(report / "summary.json")
        source = summary.source
        lines = [
            f" spark    {source.engine_note}",
            f"          {source.trace_count:,} trace lines + {source.event_count:,} flow events "
            f"in {time.monotonic() - started:.1f} s",
            *(f" · {sentence}" for sentence in summary.sentences),
        ]
        return self._checked(summary.promises, lines)

    def _checked(self, promises: tuple[Promise, ...], more: Sequence[str] = ()) -> int:
        """Say what was promised, and what became of it; returns the exit status. more: lines."""
        say = self._screen.say
        say(" checks")
        for promise in promises:
            say(f"   {MARKS[promise.state]} {promise.name:<40} {promise.detail}")
        for line in more:
            say(line)
        none = f"none: {self._no_spark}" if self._no_spark else ""
        say(f" report   {none or self._options.report_dir / 'index.html'}")
        if self._options.keep_events:
            say(f" events   {self._directory}")
        else:
            shutil.rmtree(self._directory)
        say(" next     keep a broker running:  penstock serve --memory")
        is_kept = all(one.state != "broken" for one in promises)
        verdict = "ok" if is_kept else "✘ a promise was broken"
        say(f"{verdict} in {time.monotonic() - self._began:.0f} s")
        return EXIT_OK if is_kept else EXIT_BROKEN_PROMISE


class _Watch:
    """Turns the numbers of the clients and of the broker into readings."""

    def __init__(self, fleet: Fleet, plan: DemoPlan, start_ns: int, control: str) -> None:
        self._fleet = fleet
        self._plan = plan
        self._start_ns = start_ns
        self._control = control
        self._last = (start_ns, 0, 0)

    def phases(self, drained_ns: int) -> tuple[Phase, ...]:
        """The phases as they were, draining included."""
        found: list[Phase] = []
        at_ns = self._start_ns
        for phase in self._plan.phases:
            end_ns = at_ns + int(phase.seconds * 1e9)
            found.append(Phase(phase.name, at_ns, end_ns))
            at_ns = end_ns
        return (*found, Phase(DRAIN, at_ns, max(drained_ns, at_ns + 1)))

    async def look(self, now_ns: int) -> StatusLine:
        """The numbers since the last look."""
        published, delivered = self._fleet.total("published"), self._fleet.total("delivered")
        last_ns, last_published, last_delivered = self._last
        self._last = (now_ns, published, delivered)
        seconds = max(1e-3, (now_ns - last_ns) / 1e9)
        held = await asyncio.to_thread(look, self._control)
        phase = next((phase.name for phase in self.phases(now_ns) if now_ns < phase.end_ns), DRAIN)
        return StatusLine(
            (now_ns - self._start_ns) / 1e9,
            phase,
            (published - last_published) / seconds,
            (delivered - last_delivered) / seconds,
            max(child.status.get("confirm_p99_ns", 0) for child in self._fleet.publishers),
            held.waiting,
            held.share,
            held.cause,
        )


def _require_clients() -> None:
    missing = [name for name in CLIENTS if importlib.util.find_spec(name) is None]
    if missing:
        raise OperatorError(f"{' and '.join(missing)} cannot be found → {INSTALL}")


def _require_scale(scale: float) -> None:
    if not 0.1 <= scale <= 10.0:
        raise OperatorError(f"the duration scale is {scale}, allowed is 0.1 to 10")


def _check_own(report_dir: Path) -> None:
    """What is emptied there was made by an earlier run, which has left its mark. Raises:
    OperatorError."""
    mark = report_dir / MARK
    try:
        if not mark.exists():
            for place in (report_dir / EVENTS, report_dir / TABLES):
                if place.exists():
                    raise OperatorError(
                        f"{place} would be emptied, and no earlier run has made it; choose another "
                        "directory with --report, or move it away"
                    )
            report_dir.mkdir(parents=True, exist_ok=True)
            mark.write_text(MARK_TEXT, encoding="utf-8")
    except OSError as fault:
        raise OperatorError(
            f"{report_dir} cannot be written: {fault.strerror}; choose another with --report"
        ) from fault


def _make_empty(directory: Path) -> None:
    """A directory without the files of an earlier run. Raises: OperatorError."""
    try:
        with suppress(FileNotFoundError):
            shutil.rmtree(directory)
        directory.mkdir(parents=True)
    except OSError as fault:
        raise OperatorError(
            f"{directory} cannot be written: {fault.strerror}; choose another with --report"
        ) from fault
