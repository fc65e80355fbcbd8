"""`penstock connections`: who is connected to a running broker."""

from typing import Final

import click

from penstock.broker.admin.answers import ConnectionListing, ConnectionRow
from penstock.cli.asking import Listed, RunningBroker, listing
from penstock.cli.tables import columns, console, say, say_more, show, table

COLUMNS: Final = columns("CONNECTION:name CALLED:name USER:name VHOST:name STATE CHANNELS:number")


@click.command()
@click.option("--vhost", default="", help="Only those to this virtual host.")
@listing
def connections(broker: RunningBroker, limit: int | None, vhost: str) -> None:
    """List connections: address, what the client calls itself, user, and whether it is held."""
    request: dict[str, object] = {"op": "connections", "do": "list", "vhost": vhost}
    listed = Listed({"connections": ConnectionRow})
    broker.show_all(request, ConnectionListing, _show_connections, listed, limit)


def _show_connections(answer: ConnectionListing) -> None:
    screen = console()
    if not answer.connections:
        say(screen, "no connections")
        return
    rows = [
        [row.name, row.called, row.user, row.vhost, row.state, str(row.channels)]
        for row in answer.connections
    ]
    show(screen, table(COLUMNS, rows))
    say_more(screen, len(rows), answer.total, "connections")
