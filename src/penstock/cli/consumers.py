"""`penstock consumers`: who takes messages out of the queues of a running broker."""

from typing import Any, Final

import click

from penstock.base.errors import OperatorError
from penstock.base.shown_names import shown_name
from penstock.cli.asking import Listed, RunningBroker, asking, listing
from penstock.cli.objects import ITEMS, OF_VHOST, list_objects, show_row
from penstock.cli.tables import Cell, columns
from penstock.telemetry.words import amount

COLUMNS: Final = columns(
    "QUEUE:name TAG:name CHANNEL:name USER:name:2 ACKS::1 PREFETCH:number UNACKED:number STATE::3"
)


@click.group(invoke_without_command=True)
@click.pass_context
@OF_VHOST
@listing
def consumers(context: click.Context, broker: RunningBroker, limit: int | None, vhost: str) -> None:
    """List consumers: their queue and channel, and how many deliveries they may have at once."""
    if context.invoked_subcommand is None:
        list_objects(broker, "consumers", {"vhost": vhost}, limit, COLUMNS, _cells)


@consumers.command("list")
@OF_VHOST
@listing
def list_(broker: RunningBroker, limit: int | None, vhost: str) -> None:
    """The same."""
    list_objects(broker, "consumers", {"vhost": vhost}, limit, COLUMNS, _cells)


@consumers.command("show")
@click.argument("tag")
@asking
def show_(tag: str, broker: RunningBroker) -> None:
    """Everything about the consumer TAG; of several with that tag, about each."""
    question: dict[str, Any] = {"op": "objects", "do": "consumers"}
    found: Any = broker.pages(question, Listed({ITEMS: dict}, is_sorted=False), None)[ITEMS]
    rows = [row for row in found if row["consumer_tag"] == tag]
    if not rows:
        raise OperatorError(f"no consumer '{tag}'; `penstock consumers` lists them")
    for row in rows:
        show_row(broker, row)


def _cells(row: dict[str, Any]) -> list[Cell | str]:
    queue, channel = row["queue"], row["channel_details"]
    connection = str(channel["connection_name"]).partition(" -> ")[0]
    return [
        shown_name(queue["vhost"], queue["name"]),
        str(row["consumer_tag"]),
        f"{connection}/{channel['number']}",
        str(channel["user"]),
        "yes" if row["ack_required"] else "no",
        str(row["prefetch_count"] or "no limit"),
        amount(row.get("messages_unacknowledged", 0)),
        str(row["activity_status"]).replace("_", " "),
    ]
