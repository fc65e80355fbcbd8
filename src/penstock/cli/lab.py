"""`penstock lab`: the same workloads over every strategy, simulated and live; tables and plots."""

from pathlib import Path

import click

from penstock.cli.asking import FORM
from penstock.cli.numbers import NumberRange


@click.command()
@click.option("--only", default="", help="Workloads, by name and separated by commas.")
@click.option("--strategies", default="", help="Profiles, as: penstock,adaptive,static-400.")
@click.option("--sim", "is_simulated", is_flag=True, help="Only the simulator.")
@click.option("--live", "is_live", is_flag=True, help="Only live brokers, started here.")
@click.option("--quick", is_flag=True, help="Short runs, fewer static windows; simulator only.")
@click.option("--seconds", type=NumberRange(0.2, 600), help="Length of each run.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
@click.option(
    "--jobs",
    default=2,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Simulations at a time.",
)
@FORM
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory for results.json, results.csv and plots.",
)
@click.option("--list", "is_list", is_flag=True, help="Name workloads and strategies, run nothing.")
def command(
    only: str, strategies: str, is_simulated: bool, is_live: bool, quick: bool,
    seconds: float | None, seed: int, jobs: int, form: str, out: Path | None, is_list: bool,
) -> None:  # fmt: skip
    """Run the same WORKLOADS over every flow strategy and say which is best at what."""
    from penstock.cli.lab_run import run_lab

    run_lab(only, strategies, is_simulated, is_live, quick, seconds, seed, jobs, form, out, is_list)
