"""What `penstock lab` does, apart from its options, so that help need not load it."""

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from penstock.base.errors import OperatorError
from penstock.cli.asking import TABLE
from penstock.cli.folders import make_folder, told_where
from penstock.cli.interrupts import ended_as_by_hand
from penstock.flow.profile import PROFILES, STATIC, profile_named
from penstock.lab.live import measure, measure_alone
from penstock.lab.live_child import begin_child
from penstock.lab.peers import PeerFailed
from penstock.lab.plots import write_plots
from penstock.lab.result import LIVE, SIMULATED, Result
from penstock.lab.run import simulate, simulate_alone
from penstock.lab.score import Verdict, overall, summary, verdicts
from penstock.lab.table import LEGEND, about, document, show, write_files
from penstock.lab.workload import WORKLOADS, Workload
from penstock.simulation.machine.faults import LawBroken

STATIC_WINDOWS: Final = (50, 100, 200, 400, 800, 1600, 3200, 6400)
QUICK_WINDOWS: Final = (50, 200, 800, 3200)


@dataclass(frozen=True, slots=True)
class Options:
    """What is run. places: of SIMULATED and LIVE; jobs: simulations at a time."""

    workloads: tuple[Workload, ...]
    profiles: tuple[str, ...]
    places: tuple[str, ...]
    seed: int
    jobs: int


def run_lab(
    only: str, strategies: str, is_simulated: bool, is_live: bool, quick: bool,
    seconds: float | None, seed: int, jobs: int, form: str, out: Path | None, is_list: bool,
) -> None:  # fmt: skip
    """What the command does; its words are those of the options. Raises: OperatorError."""
    profiles = chosen_profiles(strategies, quick)
    workloads = chosen_workloads(only, quick, seconds)
    if is_list:
        for one in workloads:
            click.echo(f"{one.name:14} {one.title}")
        click.echo(f"strategies     {', '.join(profiles)}")
        return
    if out is not None:
        make_folder(out, "--out")
    both = is_simulated == is_live
    places = tuple(
        place
        for place, is_wanted in ((SIMULATED, both or is_simulated), (LIVE, both or is_live))
        if is_wanted and not (place == LIVE and quick and not is_live)
    )
    options = Options(workloads, profiles, places, seed, jobs)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    began_s = time.monotonic()
    results: list[Result] = []
    try:
        with ended_as_by_hand():
            for workload, some in run_all(options):
                results += some
                if form == TABLE:
                    show_all(console, workload, some)
    finally:
        # What has been measured is kept, even if a later run fails or is interrupted.
        judged = verdicts(results)
        facts = about(time.monotonic() - began_s)
        if out is not None and results:
            write_out(out, workloads, results, judged, facts)
    if form == "json":
        click.echo(json.dumps(document(results, judged, facts)))
        return
    means = [line for one in overall(judged) for line in one.lines()]
    for line in (*summary(judged), *means, "", LEGEND):
        console.print(line, soft_wrap=True)


def show_all(console: Console, workload: Workload, results: list[Result]) -> None:
    """The tables of one workload, simulated and live."""
    for verdict in verdicts(results):
        here = [one for one in results if one.where == verdict.where]
        show(console, workload, here, verdict)


def chosen_profiles(text: str, quick: bool) -> tuple[str, ...]:
    """Every profile there is, and static windows; or those named, each once.
    Raises: OperatorError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names:
        return tuple(dict.fromkeys(profile_named(name).name for name in names))
    windows = QUICK_WINDOWS if quick else STATIC_WINDOWS
    return (*PROFILES, *(f"{STATIC}{window}" for window in windows))


def chosen_workloads(text: str, quick: bool, seconds: float | None) -> tuple[Workload, ...]:
    """All, or those named, each once. Raises: OperatorError."""
    names = [name.strip() for name in text.split(",") if name.strip()] or list(WORKLOADS)
    for name in names:
        if name not in WORKLOADS:
            raise OperatorError(f"workload '{name}' is unknown; one of: {', '.join(WORKLOADS)}")
    found = [WORKLOADS[name].quick() if quick else WORKLOADS[name] for name in dict.fromkeys(names)]
    return tuple(one if seconds is None else one.lasting(seconds) for one in found)


def run_all(options: Options) -> Iterator[tuple[Workload, list[Result]]]:
    """Workload after workload, all its runs. Raises: what a failed run raises."""
    with simulators(options.jobs) as pool:
        for workload in options.workloads:
            results: list[Result] = []
            if SIMULATED in options.places:
                alone = simulate_alone(workload, options.seed)
                waiting = [
                    pool.submit(simulate, workload, profile, options.seed, alone)
                    for profile in options.profiles
                ]
                results += [result_from(one, workload) for one in waiting]
            if LIVE in options.places:
                # One after the other: two at a time would measure each other.
                live_alone = measure_alone(workload, options.seed)
                for profile in options.profiles:
                    results.append(measure(workload, profile, options.seed, live_alone))
            yield workload, results


@contextmanager
def simulators(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that simulate, so many. Where the block ends before its time they do, too, instead
    of working off what is left."""
    others = set(active_children())
    pool = ProcessPoolExecutor(jobs, initializer=begin_child)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown()


def result_from(waiting: Future[Result], workload: Workload) -> Result:
    """What a simulation has found. Raises: OperatorError when it went wrong."""
    try:
        return waiting.result()
    except (LawBroken, PeerFailed) as error:
        raise OperatorError(f"lab: {workload.name} went wrong: {error}") from error
    except BrokenProcessPool as error:
        raise OperatorError(
            f"lab: a process that simulated {workload.name} was killed, perhaps for "
            "want of memory; fewer --jobs need less"
        ) from error


def write_out(
    folder: Path,
    workloads: tuple[Workload, ...],
    results: list[Result],
    judged: list[Verdict],
    facts: dict[str, object],
) -> None:
    """Files and plots; says what was written. Raises: OperatorError when they cannot be."""
    with told_where(folder):
        paths = write_files(folder, results, judged, facts)
        try:
            paths += write_plots(folder, workloads, results, judged)
        except OperatorError as error:
            click.echo(f"! {error}", err=True)
    click.echo(f"written: {', '.join(path.name for path in paths)} in {folder}", err=True)
