"""`python -m penstock.simulation`: run one seed again, or sweep through seeds for some time."""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import click

from penstock.simulation.cluster.total import ClusterTotal
from penstock.simulation.cluster.world import ClusterFailed, ClusterSetting, simulate_cluster
from penstock.simulation.machine.faults import SimulationFailed
from penstock.simulation.scenario.plan import shrunk
from penstock.simulation.scenario.scenarios import PROFILES, SCENARIOS, simulate

RANDOM = "random_graph"
AT_LEAST_ONE = click.IntRange(1)
GRAPHS_PER_SCRIPT = 12
"""Random graphs run between two runs of scripted scenarios."""


@dataclass(frozen=True, slots=True)
class SimulationRun:
    """One run."""

    scenario: str
    seed: int
    profile: str
    check_every: int


def carry_out(job: SimulationRun) -> tuple[int, str]:
    """Run: how many steps, and what to print, "" if all is well. A random world that fails is made
    as small as it will go."""
    try:
        report = simulate(job.scenario, job.seed, job.profile, job.check_every)
    except SimulationFailed as failure:
        return failure.step, explained(failure, job.check_every)
    return report.steps, ""


def explained(failure: SimulationFailed, check_every: int) -> str:
    """The failure, and for a random world the smallest one that fails."""
    if failure.scenario != RANDOM or failure.without:
        return str(failure)

    def fails(without: frozenset[int]) -> SimulationFailed | None:
        try:
            simulate(RANDOM, failure.seed, failure.profile, check_every, None, without)
        except SimulationFailed as found:
            return found
        return None

    return f"{failure}\n{shrunk(failure, fails)}"


def jobs_from(first_seed: int, check_every: int, scenario: str | None) -> Iterator[SimulationRun]:
    """Without end: random graphs under each profile in turn, and scripted scenarios in between."""
    scripts = [
        (name, profile)
        for name in ([scenario] if scenario is not None else SCENARIOS)
        for profile in PROFILES
        if name != RANDOM
    ]
    seed = first_seed
    rounds = 0
    while True:
        if scenario in (None, RANDOM):
            yield SimulationRun(RANDOM, seed, PROFILES[seed % len(PROFILES)], check_every)
        if scenario != RANDOM and (scenario is not None or seed % GRAPHS_PER_SCRIPT == 0):
            name, profile = scripts[rounds % len(scripts)]
            yield SimulationRun(name, first_seed + rounds // len(scripts), profile, check_every)
            rounds += 1
        seed += 1


@click.group()
def main() -> None:
    """Run the real broker in a simulated world and check its laws after every turn."""


@main.command()
@click.argument("scenario", type=click.Choice(list(SCENARIOS)))
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--profile", type=click.Choice(PROFILES), default=PROFILES[0], show_default=True)
@click.option(
    "--check-every", type=AT_LEAST_ONE, default=1, show_default=True, help="turns per check"
)
@click.option("--without", default="", help="parts of a random graph to leave out: 3,8,11")
def run(scenario: str, seed: int, profile: str, check_every: int, without: str) -> None:
    """Run one SCENARIO with one seed."""
    parts = [number.strip() for number in without.split(",") if number.strip()]
    if not all(number.isdecimal() for number in parts):
        raise click.BadParameter(f"{without!r} is no list of numbers", param_hint="--without")
    left_out = frozenset(map(int, parts))
    try:
        click.echo(str(simulate(scenario, seed, profile, check_every, None, left_out)))
    except SimulationFailed as failure:
        click.echo(explained(failure, check_every), err=True)
        sys.exit(1)


@main.command()
@click.option("--seconds", type=float, default=60.0, show_default=True)
@click.option(
    "--graphs", type=int, default=1000, show_default=True,
    help="random graphs to run at least, however long it takes",
)  # fmt: skip
@click.option("--first-seed", type=int, default=1, show_default=True)
@click.option(
    "--check-every", type=AT_LEAST_ONE, default=3, show_default=True, help="turns per check"
)
@click.option("--scenario", type=click.Choice(list(SCENARIOS)), default=None)
@click.option("--keep-going", is_flag=True, help="do not stop at the first failure")
def sweep(
    seconds: float,
    graphs: int,
    first_seed: int,
    check_every: int,
    scenario: str | None,
    keep_going: bool,
) -> None:
    """Run random graphs and every scenario with seed after seed for some time."""
    began = time.monotonic()
    least = graphs if scenario in (None, RANDOM) else 0
    runs = steps = failures = seeds = 0
    for job in jobs_from(first_seed, check_every, scenario):
        done, fault = carry_out(job)
        runs += 1
        seeds += job.scenario == RANDOM
        steps += done
        if fault:
            click.echo(fault, err=True)
            failures += 1
        if failures and not keep_going:
            break
        # Not by what is no number, which no time reaches.
        if not time.monotonic() - began < seconds and seeds >= least:
            break
    took = time.monotonic() - began
    click.echo(
        f"{runs} runs, {seeds} of them random graphs, in {took:.0f} s; {steps} steps, "
        f"{steps / took:.0f} steps/s, {failures} failures"
    )
    if failures:
        sys.exit(1)


@main.command()
@click.option("--seeds", type=AT_LEAST_ONE, default=2000, show_default=True, help="clusters to run")
@click.option("--first-seed", type=int, default=1, show_default=True)
@click.option("--mode", type=click.Choice(("majority", "all")), default=None, help="not drawn")
@click.option("--keep-going", is_flag=True, help="do not stop at the first failure")
def cluster(seeds: int, first_seed: int, mode: str | None, keep_going: bool) -> None:
    """Run clusters of 3 or 5 members, seed after seed, and print what happened in them."""
    began = time.monotonic()
    total = ClusterTotal()
    for seed in range(first_seed, first_seed + seeds):
        try:
            total.add(simulate_cluster(seed, ClusterSetting(mode=mode or "")))
        except ClusterFailed as failure:
            click.echo(str(failure), err=True)
            total.failures += 1
            if not keep_going:
                break
    click.echo(total.text(time.monotonic() - began))
    if total.failures:
        sys.exit(1)


if __name__ == "__main__":
    main()
