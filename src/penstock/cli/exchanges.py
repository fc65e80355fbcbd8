"""`penstock exchanges`: exchanges of a running broker, and publishing to them."""

from typing import Any, Final

import click

from penstock.cli.asking import RunningBroker, asking, listing
from penstock.cli.messages import publish_to
from penstock.cli.objects import (
    ARGUMENTS,
    IN_VHOST,
    OF_VHOST,
    YES,
    arguments_of,
    find,
    list_objects,
    show_row,
)
from penstock.cli.prompts import confirmed
from penstock.cli.tables import Cell, columns
from penstock.cli.way import DEFAULT

COLUMNS: Final = columns(
    "EXCHANGE:name VHOST:name TYPE DURABLE::3 AUTO_DELETE::1 INTERNAL::2 ARGUMENTS:prose:4"
)


@click.group(invoke_without_command=True)
@click.pass_context
@OF_VHOST
@listing
def exchanges(context: click.Context, broker: RunningBroker, limit: int | None, vhost: str) -> None:
    """List exchanges, or change them. amq.default is the default exchange, which has no name."""
    if context.invoked_subcommand is None:
        list_objects(broker, "exchanges", {"vhost": vhost}, limit, COLUMNS, _cells)


@exchanges.command("list")
@OF_VHOST
@listing
def list_(broker: RunningBroker, limit: int | None, vhost: str) -> None:
    """The same."""
    list_objects(broker, "exchanges", {"vhost": vhost}, limit, COLUMNS, _cells)


@exchanges.command("show")
@click.argument("name")
@IN_VHOST
@asking
def show_(name: str, vhost: str, broker: RunningBroker) -> None:
    """Everything about the exchange NAME."""
    show_row(broker, _found(broker, vhost, name))


@exchanges.command()
@click.argument("name")
@click.option("--type", "kind", default="direct", show_default=True, help="direct, topic, …")
@click.option("--durable/--transient", default=True, show_default=True, help="Survives a restart.")
@click.option("--auto-delete", is_flag=True, help="Goes with the last of its bindings.")
@click.option("--internal", is_flag=True, help="Clients may not publish to it.")
@ARGUMENTS
@IN_VHOST
@asking
def declare(
    name: str,
    kind: str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: tuple[str, ...],
    vhost: str,
    broker: RunningBroker,
) -> None:
    """Make the exchange NAME; an equal one that is there already is as good."""
    broker.change(
        {
            "op": "exchanges",
            "do": "declare",
            "vhost": vhost,
            "name": name,
            "type": kind,
            "durable": durable,
            "auto_delete": auto_delete,
            "internal": internal,
            "arguments": arguments_of(arguments),
        }
    )


@exchanges.command()
@click.argument("name")
@click.option("--if-unused", is_flag=True, help="Only without bindings.")
@YES
@IN_VHOST
@asking
def delete(name: str, if_unused: bool, yes: bool, vhost: str, broker: RunningBroker) -> None:
    """Delete the exchange NAME with its bindings."""
    _found(broker, vhost, name)
    confirmed(f"Delete exchange '{name}' in vhost '{vhost}'?", yes)
    question = {"op": "exchanges", "do": "delete", "vhost": vhost, "name": name}
    broker.change(question | {"if_unused": if_unused})


@exchanges.command()
@click.argument("exchange")
@click.argument("key")
@click.argument("body", default="-")
@click.option("--persistent/--transient", default=True, show_default=True, help="Kept on disk.")
@click.option(
    "--property", "-p", "properties", multiple=True, metavar="KEY=VALUE", help="A property."
)
@click.option("--header", "-H", "headers", multiple=True, metavar="KEY=VALUE", help="A header.")
@IN_VHOST
@asking
def publish(
    exchange: str,
    key: str,
    body: str,
    persistent: bool,
    properties: tuple[str, ...],
    headers: tuple[str, ...],
    vhost: str,
    broker: RunningBroker,
) -> None:
    """Publish BODY, or what comes on standard input, to EXCHANGE by the routing KEY.

    It is confirmed before this ends. A message that goes to no queue is an error.
    """
    publish_to(broker, (vhost, exchange, key), body, persistent, properties, headers)


def _found(broker: RunningBroker, vhost: str, name: str) -> dict[str, Any]:
    missing = f"no exchange '{name}' in vhost '{vhost}'; `penstock exchanges` lists them"
    bare = "" if name == DEFAULT and broker.http is None else name
    return find(broker, "exchanges", missing, vhost=vhost, name=bare)


def _cells(row: dict[str, Any]) -> list[Cell | str]:
    return [
        str(row["name"]) or DEFAULT,
        str(row["vhost"]),
        str(row["type"]),
        "yes" if row["durable"] else "no",
        "yes" if row["auto_delete"] else "",
        "yes" if row["internal"] else "",
        ", ".join(f"{key} {value}" for key, value in row["arguments"].items()),
    ]
