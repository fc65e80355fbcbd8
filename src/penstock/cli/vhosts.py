"""`penstock vhosts`: virtual hosts of a running broker."""

from typing import Final

import click

from penstock.broker.admin.answers import Changed
from penstock.broker.admin.answers_access import VhostListing, VhostRow
from penstock.cli.asking import Listed, RunningBroker, asking, listing
from penstock.cli.objects import one_of, show_row
from penstock.cli.prompts import confirmed
from penstock.cli.tables import columns, console, say, say_more, show, table
from penstock.telemetry.words import amount

VHOSTS: Final[dict[str, object]] = {"op": "vhosts"}
COLUMNS: Final = columns(
    "VHOST:name QUEUES:number MESSAGES:number CONNECTIONS:number LIMITS:prose:2 FROM::1"
)


@click.group(invoke_without_command=True)
@click.pass_context
@listing
def vhosts(context: click.Context, broker: RunningBroker, limit: int | None) -> None:
    """List the virtual hosts, or change them. What is made here survives a restart."""
    if context.invoked_subcommand is None:
        _list(broker, limit)


@vhosts.command("list")
@listing
def list_(broker: RunningBroker, limit: int | None) -> None:
    """The same."""
    _list(broker, limit)


@vhosts.command("show")
@click.argument("name")
@asking
def show_(name: str, broker: RunningBroker) -> None:
    """Everything about the virtual host NAME."""
    question = VHOSTS | {"do": "list"}
    show_row(broker, one_of(broker, question, "vhosts", f"no vhost '{name}'", name=name))


@vhosts.command()
@click.argument("name")
@asking
def add(name: str, broker: RunningBroker) -> None:
    """A new virtual host NAME. Who may do what in it is said by `penstock permissions set`."""
    _ask(broker, {"do": "add", "name": name})


@vhosts.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask whether it is meant.")
@asking
def delete(name: str, yes: bool, broker: RunningBroker) -> None:
    """The virtual host NAME is no more, nor are its queues and their messages, its exchanges,
    policies, limits and permissions. Its connections are closed."""
    confirmed(f"Delete vhost '{name}' with all its messages?", yes)
    _ask(broker, {"do": "delete", "name": name})


def _ask(broker: RunningBroker, request: dict[str, object]) -> None:
    broker.show(VHOSTS | request, Changed, lambda answer: say(console(), answer.said))


def _list(broker: RunningBroker, limit: int | None) -> None:
    listed = Listed({"vhosts": VhostRow})
    broker.show_all(VHOSTS | {"do": "list"}, VhostListing, _show, listed, limit)


def _show(answer: VhostListing) -> None:
    screen = console()
    rows = [
        [
            row.name,
            amount(row.queues),
            amount(row.messages),
            amount(row.connections),
            ", ".join(f"{key} {value}" for key, value in row.limits.items()),
            "configuration" if row.is_configured else "",
        ]
        for row in answer.vhosts
    ]
    show(screen, table(COLUMNS, rows))
    say_more(screen, len(rows), answer.total, "virtual hosts")
