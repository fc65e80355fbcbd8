"""`penstock connections`: who is connected to a running broker, and closing connections."""

from typing import Any, Final

import click

from penstock.cli.asking import RunningBroker, asking, listing
from penstock.cli.objects import OF_VHOST, find, list_objects, rate_of, show_row
from penstock.cli.tables import RED, Cell, columns
from penstock.telemetry.words import percent, rate

COLUMNS: Final = columns(
    "CONNECTION:name CALLED:name USER:name:3 VHOST:name:4 STATE CHANNELS:number:2 IN:number:5 "
    "HELD:number:6 TLS::1"
)
HELD: Final = 0.05


@click.group(invoke_without_command=True)
@click.pass_context
@OF_VHOST
@listing
def connections(
    context: click.Context, broker: RunningBroker, limit: int | None, vhost: str
) -> None:
    """List connections: address, what the client calls itself, user, and whether it is held.

    IN is what it publishes, HELD the share of the last ten seconds in which it was held.
    """
    if context.invoked_subcommand is None:
        list_objects(broker, "connections", {"vhost": vhost}, limit, COLUMNS, _cells)


@connections.command("list")
@OF_VHOST
@click.option("--user", default="", help="Only those of this user.")
@listing
def list_(broker: RunningBroker, limit: int | None, vhost: str, user: str) -> None:
    """The same; with --user those of one user."""
    request: dict[str, Any] = {"vhost": vhost} | ({"user": user} if user else {})
    list_objects(broker, "connections", request, limit, COLUMNS, _cells)


@connections.command("show")
@click.argument("name")
@asking
def show_(name: str, broker: RunningBroker) -> None:
    """Everything about the connection NAME: its address, or what its client calls itself."""
    missing = f"no connection '{name}'; `penstock connections` lists them"
    show_row(broker, find(broker, "connections", missing, name=name))


@connections.command()
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--reason", default="closed by an operator", show_default=True, help="What its client is told."
)
@asking
def close(names: tuple[str, ...], reason: str, broker: RunningBroker) -> None:
    """Close the connections NAMES: their clients are told 320 CONNECTION_FORCED and the reason."""
    for name in names:
        question: dict[str, Any] = {"op": "connections", "do": "close", "name": name}
        broker.say(broker.ask(question | {"reason": reason}))


def _cells(row: dict[str, Any]) -> list[Cell | str]:
    held = float(row["flow"]["blocked_share"])
    published = rate_of(row, "publish")
    return [
        str(row["name"]).partition(" -> ")[0],
        str(row.get("user_provided_name", "")),
        str(row["user"]),
        str(row["vhost"]),
        str(row["state"]),
        str(row["channels"]),
        rate(published) if published else "",
        Cell(percent(held), RED) if held >= HELD else percent(held) if held else "",
        "yes" if row["ssl"] else "",
    ]
