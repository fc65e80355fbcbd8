"""`penstock streams`: super streams of a running broker."""

from typing import Final

import click

from penstock.base.errors import OperatorError
from penstock.broker.admin.answers import Changed, PartitionListing, PartitionRow
from penstock.cli.asking import Listed, RunningBroker, asking, listing
from penstock.cli.tables import columns, console, say, say_more, show, table

SUPER_STREAMS: Final[dict[str, object]] = {"op": "super-streams"}
COLUMNS: Final = columns(
    "SUPER_STREAM:name VHOST:name:4 TYPE::1 PARTITION:name KEY::2 MESSAGES:number BYTES:number:3"
)
IN_VHOST: Final = click.option("--vhost", default="/", show_default=True, help="Where it is.")
PARTITIONS: Final = click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="So many, called NAME-0, NAME-1, …: the hash of the routing key chooses one.",
)
KEYS: Final = click.option(
    "--routing-keys", default="", help="Or a partition for each of these keys: eu,us is NAME-eu, …"
)


@click.group(invoke_without_command=True)
@click.pass_context
@click.option("--vhost", default="", help="Only this virtual host.")
@listing
def streams(context: click.Context, broker: RunningBroker, limit: int | None, vhost: str) -> None:
    """List super streams with their partitions, or change them."""
    if context.invoked_subcommand is None:
        _list(broker, limit, vhost)


@streams.command("list")
@click.option("--vhost", default="", help="Only this virtual host.")
@listing
def list_(broker: RunningBroker, limit: int | None, vhost: str) -> None:
    """The same."""
    _list(broker, limit, vhost)


@streams.command("add-super")
@click.argument("name")
@PARTITIONS
@KEYS
@click.option("--max-length-bytes", type=click.IntRange(min=0), help="Of each partition.")
@click.option("--max-age", default="", help="Of each partition, as in 7D or 12h.")
@click.option(
    "--stream-max-segment-size-bytes", type=click.IntRange(min=1), help="Of each partition."
)
@IN_VHOST
@asking
def add_super(
    name: str,
    partitions: int | None,
    routing_keys: str,
    max_length_bytes: int | None,
    max_age: str,
    stream_max_segment_size_bytes: int | None,
    vhost: str,
    broker: RunningBroker,
) -> None:
    """Make the super stream NAME: an exchange, and a stream for each partition.

    Publish to the exchange NAME; with --partitions every message of a routing key goes to the same
    partition, with --routing-keys the key is the partition. All of it is made, or nothing.
    """
    given = {
        "x-max-length-bytes": max_length_bytes,
        "x-max-age": max_age or None,
        "x-stream-max-segment-size-bytes": stream_max_segment_size_bytes,
    }
    request = _of(name, vhost, partitions, routing_keys)
    request["arguments"] = {key: value for key, value in given.items() if value is not None}
    _change(broker, request)


@streams.command("add-partitions")
@click.argument("name")
@PARTITIONS
@KEYS
@IN_VHOST
@asking
def add_partitions(
    name: str, partitions: int | None, routing_keys: str, vhost: str, broker: RunningBroker
) -> None:
    """More partitions for the super stream NAME.

    Where keys are hashed most keys get another partition from then on. What is there stays where it
    is. Arguments, as a retention, come from policies.
    """
    _change(broker, _of(name, vhost, partitions, routing_keys) | {"extends": True})


@streams.command("delete-super")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask whether it is meant.")
@IN_VHOST
@asking
def delete_super(name: str, yes: bool, vhost: str, broker: RunningBroker) -> None:
    """Delete the super stream NAME: its exchange, and its partitions with all their messages."""
    if not yes:
        try:
            question = f"Delete super stream '{name}' in vhost '{vhost}' with all its messages?"
            click.confirm(question, abort=True, err=True)
        except click.Abort as error:
            raise OperatorError("nothing is deleted; --yes says that it is meant") from error
    _change(broker, {"do": "delete", "name": name, "vhost": vhost})


def _of(name: str, vhost: str, partitions: int | None, routing_keys: str) -> dict[str, object]:
    if (partitions is None) == (routing_keys == ""):
        raise OperatorError("give either --partitions N or --routing-keys a,b")
    request: dict[str, object] = {"do": "add", "name": name, "vhost": vhost}
    if partitions is not None:
        return request | {"partitions": partitions}
    return request | {"routing_keys": [key.strip() for key in routing_keys.split(",")]}


def _change(broker: RunningBroker, request: dict[str, object]) -> None:
    broker.show(SUPER_STREAMS | request, Changed, lambda answer: say(console(), answer.said))


def _list(broker: RunningBroker, limit: int | None, vhost: str) -> None:
    question = SUPER_STREAMS | {"do": "list", "vhost": vhost}
    listed = Listed({"partitions": PartitionRow})
    broker.show_all(question, PartitionListing, _show, listed, limit)


def _show(answer: PartitionListing) -> None:
    screen = console()
    rows = [
        [
            row.super_stream,
            row.vhost,
            row.kind,
            row.partition,
            row.routing_key,
            str(row.messages),
            str(row.bytes),
        ]
        for row in answer.partitions
    ]
    if not rows:
        say(screen, "no super streams; `penstock streams add-super NAME --partitions 3` makes one")
        return
    show(screen, table(COLUMNS, rows))
    say_more(screen, len(rows), answer.total, "partitions")
