"""`penstock whatif KEY=VALUE`: the recent load of a running broker, simulated with another
setting."""

from pathlib import Path

import click

from penstock.cli.asking import FORM, placed


@click.command()
@click.argument("changes", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--last", default="1m", show_default=True, help="The load of how long, up to 10m.")
@click.option(
    "--file", "file", type=click.Path(path_type=Path, dir_okay=False),
    help="A saved flight record instead of a running broker.",
)  # fmt: skip
@placed()
@FORM
def whatif(changes: tuple[str, ...], last: str, file: Path | None, path: str, form: str) -> None:
    """Replay the recent load in the simulator, as it was and with KEY=VALUE.

    Keys: profile, credit.channel_queue, credit.connection_channel (and their _bytes), queue_depth,
    memory_high; load and consumers (factors on rates), prefetch. Without any, only model and
    observation are compared.
    """
    from penstock.cli.whatif_run import run_whatif

    run_whatif(changes, last, file, path, form)
