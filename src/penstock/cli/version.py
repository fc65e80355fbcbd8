"""`penstock version`."""

import platform

import click

import penstock


@click.command()
def version() -> None:
    """Print the version."""
    click.echo(f"penstock {penstock.__version__} · AMQP 0-9-1 · Python {platform.python_version()}")
