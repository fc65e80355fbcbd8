"""`penstock version`."""

import platform

import click

import penstock
from penstock.server.machine.build import build_words


@click.command()
def version() -> None:
    """Print the version, and whether it is compiled or plain Python."""
    click.echo(
        f"penstock {penstock.__version__} · AMQP 0-9-1 · Python {platform.python_version()} · "
        f"{build_words()}"
    )
