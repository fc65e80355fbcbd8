"""`penstock sweep`: a grid of settings over workloads, as Spark tasks or in this process."""

from pathlib import Path

import click

from penstock.cli.asking import FORM
from penstock.cli.numbers import NumberRange
from penstock.sweep.choices import AUTO, BOTH, DEFAULT_CONNECTIONS, DELTA, ENGINES, EVENTS, PARQUET


@click.command()
@click.option(
    "--workloads",
    default="slow-consumer,chain-consumer",
    show_default=True,
    help="Of the lab, or chain-consumer, chain-queue.",
)
@click.option("--profiles", default="penstock", show_default=True, help="Names, also static-N.")
@click.option("--credit", default="", help="Windows as INITIAL/MORE_AFTER; without, the profile's.")
@click.option("--depth", default="", help="Depth marks of queues, as 64KiB,256KiB.")
@click.option("--memory-high", default="", help="Memory marks, as 512KiB,4MiB.")
@click.option("--load", default="1", show_default=True, help="Factors on the publishers' rates.")
@click.option(
    "--connections",
    default=str(DEFAULT_CONNECTIONS),
    show_default=True,
    help="Publishers of chains; above 100 only the fluid model runs them.",
)
@click.option("--seeds", default="1", show_default=True, help="As 1-5,9.")
@click.option("--seconds", type=NumberRange(0.2, 600), help="Length of each run.")
@click.option(
    "--engine", default=EVENTS, show_default=True, type=click.Choice((*ENGINES, BOTH)),
    help="The real broker on a virtual clock, the fluid model, or both and how far they differ.",
)  # fmt: skip
@click.option(
    "--out", default="sweep", show_default=True, type=click.Path(path_type=Path, file_okay=False),
    help="Directory of the table and the plots; what is there already is not run again.",
)  # fmt: skip
@click.option("--table", default=AUTO, type=click.Choice((AUTO, DELTA, PARQUET)))
@click.option("--no-spark", is_flag=True, help="Run in this process, one point at a time.")
@click.option("--master", default="", help="Where Spark runs: local[*], or the URL of a cluster.")
@click.option("--no-plots", is_flag=True, help="Only the table.")
@click.option("--dry-run", is_flag=True, help="Say how many points there are and are left.")
@FORM
def command(
    workloads: str, profiles: str, credit: str, depth: str, memory_high: str, load: str,
    connections: str, seeds: str, seconds: float | None, engine: str, out: Path, table: str,
    no_spark: bool, master: str, no_plots: bool, dry_run: bool, form: str,
) -> None:  # fmt: skip
    """Run a grid of settings in the simulator: response surfaces and the Pareto front."""
    from penstock.cli.sweep_run import run_sweep

    run_sweep(
        workloads, profiles, credit, depth, memory_high, load, connections, seeds, seconds, engine,
        out, table, no_spark, master, no_plots, dry_run, form,
    )  # fmt: skip
