"""`penstock channels`: the channels of connections to a running broker."""

from typing import Any, Final

import click

from penstock.base.errors import OperatorError
from penstock.cli.asking import RunningBroker, asking, listing
from penstock.cli.objects import ITEMS, OF_VHOST, list_objects, rate_of, show_row
from penstock.cli.tables import Cell, columns
from penstock.telemetry.words import amount, rate

COLUMNS: Final = columns(
    "CHANNEL:name USER:name:3 VHOST:name:4 STATE MODE::5 PREFETCH:number:2 UNACKED:number "
    "UNCONFIRMED:number:6 CONSUMERS:number:1 IN:number:7 OUT:number:7"
)
OF: Final = click.option("--connection", default="", help="Only those of this connection.")


@click.group(invoke_without_command=True)
@click.pass_context
@OF_VHOST
@OF
@listing
def channels(
    context: click.Context, broker: RunningBroker, limit: int | None, vhost: str, connection: str
) -> None:
    """List channels: state, confirms, prefetch, and what is under way on them."""
    if context.invoked_subcommand is None:
        _list(broker, limit, vhost, connection)


@channels.command("list")
@OF_VHOST
@OF
@listing
def list_(broker: RunningBroker, limit: int | None, vhost: str, connection: str) -> None:
    """The same."""
    _list(broker, limit, vhost, connection)


@channels.command("show")
@click.argument("name")
@asking
def show_(name: str, broker: RunningBroker) -> None:
    """Everything about the channel NAME, web-7/1 or 10.0.0.7:51344/1: of the connection's name or
    address its number."""
    connection, slash, number = name.rpartition("/")
    if not slash or not number.isdecimal():
        raise OperatorError(f"'{name}' is no channel; write CONNECTION/NUMBER, as web-7/1")
    rows: Any = broker.ask({"op": "objects", "do": "channels", "name": connection})[ITEMS]
    for row in rows:
        if row["number"] == int(number):
            show_row(broker, row)
            return
    raise OperatorError(f"connection '{connection}' has no channel {number}")


def _list(broker: RunningBroker, limit: int | None, vhost: str, connection: str) -> None:
    request: dict[str, Any] = {"vhost": vhost} | ({"name": connection} if connection else {})
    list_objects(broker, "channels", request, limit, COLUMNS, _cells)


def _cells(row: dict[str, Any]) -> list[Cell | str]:
    mode = "transaction" if row["transactional"] else "confirm" if row["confirm"] else ""
    published, delivered = rate_of(row, "publish"), rate_of(row, "deliver_get")
    unconfirmed = row["messages_unconfirmed"]
    return [
        f"{str(row['connection_details']['name']).partition(' -> ')[0]}/{row['number']}",
        str(row["user"]),
        str(row["vhost"]),
        str(row["state"]),
        mode,
        str(row["global_prefetch_count"] or row["prefetch_count"] or ""),
        amount(row["messages_unacknowledged"]),
        amount(unconfirmed) if unconfirmed else "",
        str(row["consumer_count"]),
        rate(published) if published else "",
        rate(delivered) if delivered else "",
    ]
