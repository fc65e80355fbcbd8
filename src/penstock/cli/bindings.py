"""`penstock bindings`: which exchange hands what to which queue or exchange of a running broker."""

from typing import Any, Final

import click

from penstock.base.errors import OperatorError
from penstock.cli.asking import RunningBroker, asking, listing
from penstock.cli.objects import ARGUMENTS, IN_VHOST, ITEMS, arguments_of, list_objects
from penstock.cli.tables import Cell, columns
from penstock.cli.way import DEFAULT

COLUMNS: Final = columns("SOURCE:name DESTINATION:name TO KEY:name VHOST:name:2 ARGUMENTS:prose:1")
TO: Final = click.option(
    "--to", "kind", type=click.Choice(("queue", "exchange")), default="queue", show_default=True
)
KEY: Final = click.option("--key", default="", help="The routing key, or a pattern of them.")


def filtered(command: Any) -> Any:
    """The options by which bindings are picked."""
    for option in (
        click.option("--destination", default=None, help="Only those to this queue or exchange."),
        click.option("--source", default=None, help="Only those of this exchange."),
        click.option("--vhost", default="", help="Only this virtual host."),
    ):
        command = option(command)
    return command


@click.group(invoke_without_command=True)
@click.pass_context
@filtered
@listing
def bindings(
    context: click.Context,
    broker: RunningBroker,
    limit: int | None,
    vhost: str,
    source: str | None,
    destination: str | None,
) -> None:
    """List bindings, or change them. Every queue is bound to the default exchange by its name."""
    if context.invoked_subcommand is None:
        _list(broker, limit, vhost, source, destination)


@bindings.command("list")
@filtered
@listing
def list_(
    broker: RunningBroker,
    limit: int | None,
    vhost: str,
    source: str | None,
    destination: str | None,
) -> None:
    """The same."""
    _list(broker, limit, vhost, source, destination)


@bindings.command()
@click.argument("source")
@click.argument("destination")
@TO
@KEY
@ARGUMENTS
@IN_VHOST
@asking
def bind(
    source: str,
    destination: str,
    kind: str,
    key: str,
    arguments: tuple[str, ...],
    vhost: str,
    broker: RunningBroker,
) -> None:
    """Have the exchange SOURCE hand what fits to the queue (or exchange) DESTINATION.

    penstock bindings bind amq.topic orders --key 'orders.*.new'
    """
    broker.change(_request("bind", vhost, source, destination, kind, key, arguments))


@bindings.command()
@click.argument("source")
@click.argument("destination")
@TO
@KEY
@ARGUMENTS
@IN_VHOST
@asking
def unbind(
    source: str,
    destination: str,
    kind: str,
    key: str,
    arguments: tuple[str, ...],
    vhost: str,
    broker: RunningBroker,
) -> None:
    """Undo the binding with this key and these arguments."""
    request = _request("unbind", vhost, source, destination, kind, key, arguments)
    question: dict[str, Any] = {"op": "objects", "do": "bindings", "vhost": vhost, "source": source}
    question |= {"destination": destination, "destination_type": kind, "limit": 10_000}
    rows: Any = broker.ask(question)[ITEMS]
    wanted = (key, request["arguments"])
    found = [row for row in rows if (row["routing_key"], row["arguments"]) == wanted]
    if not found:
        keys = ", ".join(sorted({f"'{row['routing_key']}'" for row in rows})[:10]) or "none"
        raise OperatorError(
            f"{kind} '{destination}' is not bound to exchange '{source}' by '{key}' in vhost "
            f"'{vhost}'; its keys there: {keys}"
        )
    broker.change(request | {"properties_key": found[0]["properties_key"]})


def _request(
    do: str,
    vhost: str,
    source: str,
    destination: str,
    kind: str,
    key: str,
    arguments: tuple[str, ...],
) -> dict[str, Any]:
    return {
        "op": "bindings",
        "do": do,
        "vhost": vhost,
        "source": "" if source == DEFAULT else source,
        "destination": destination,
        "destination_type": kind,
        "routing_key": key,
        "arguments": arguments_of(arguments),
    }


def _list(
    broker: RunningBroker,
    limit: int | None,
    vhost: str,
    source: str | None,
    destination: str | None,
) -> None:
    request: dict[str, Any] = {"vhost": vhost}
    if source is not None:
        request["source"] = "" if source == DEFAULT else source
    if destination is not None:
        request["destination"] = destination
    list_objects(broker, "bindings", request, limit, COLUMNS, _cells)


def _cells(row: dict[str, Any]) -> list[Cell | str]:
    return [
        str(row["source"]) or DEFAULT,
        str(row["destination"]),
        str(row["destination_type"]),
        str(row["routing_key"]),
        str(row["vhost"]),
        ", ".join(f"{key} {value}" for key, value in row["arguments"].items()),
    ]
