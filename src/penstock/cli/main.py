"""The `penstock` command and its groups."""

import sys

import click

import penstock
from penstock.base.errors import OperatorError
from penstock.cli.serve import serve
from penstock.cli.status import why


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Penstock: a message broker that speaks AMQP 0-9-1 and explains its flow control."""


@cli.command()
def version() -> None:
    """Print the version."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    click.echo(f"penstock {penstock.__version__} · AMQP 0-9-1 · Python {python}")


cli.add_command(serve)
cli.add_command(why)


def main() -> None:
    """Entry point: an operator's fault is one line on standard error and exit status 2."""
    try:
        cli.main(standalone_mode=True)
    except OperatorError as error:
        click.echo(f"✘ {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
