"""Command line of the simulator: run one seed again, or sweep through seeds for some time."""

import sys
import time

import click

from penstock.simulation.faults import SimulationFailed
from penstock.simulation.scenarios import PROFILES, SCENARIOS, simulate


@click.group()
def main() -> None:
    """Run the real broker in a simulated world and check its laws after every turn."""


@main.command()
@click.argument("scenario", type=click.Choice(list(SCENARIOS)))
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--profile", type=click.Choice(PROFILES), default=PROFILES[0], show_default=True)
@click.option("--check-every", type=int, default=1, show_default=True, help="turns per check")
def run(scenario: str, seed: int, profile: str, check_every: int) -> None:
    """Run one SCENARIO with one seed."""
    try:
        click.echo(str(simulate(scenario, seed, profile, check_every)))
    except SimulationFailed as failure:
        click.echo(str(failure), err=True)
        sys.exit(1)


@main.command()
@click.option("--seconds", type=float, default=60.0, show_default=True)
@click.option("--first-seed", type=int, default=1, show_default=True)
@click.option("--check-every", type=int, default=3, show_default=True, help="turns per check")
@click.option("--scenario", type=click.Choice(list(SCENARIOS)), default=None)
@click.option("--keep-going", is_flag=True, help="do not stop at the first failure")
def sweep(
    seconds: float, first_seed: int, check_every: int, scenario: str | None, keep_going: bool
) -> None:
    """Run every scenario and profile with seed after seed for some time."""
    began = time.monotonic()
    runs = steps = failures = 0
    seed = first_seed
    names = [scenario] if scenario is not None else list(SCENARIOS)
    while time.monotonic() - began < seconds:
        for name in names:
            for profile in PROFILES:
                try:
                    steps += simulate(name, seed, profile, check_every).steps
                except SimulationFailed as failure:
                    click.echo(str(failure), err=True)
                    failures += 1
                    if not keep_going:
                        sys.exit(1)
                runs += 1
        seed += 1
    took = time.monotonic() - began
    click.echo(
        f"{runs} runs, seeds {first_seed}..{seed - 1}, {steps} steps, {steps / took:.0f} steps/s, "
        f"{failures} failures"
    )
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    main()
