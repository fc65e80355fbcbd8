"""`penstock permissions`: what users of a running broker may do, by patterns of names."""

from typing import Final

import click
from msgspec import Struct

from penstock.broker.admin.answers import Changed
from penstock.broker.admin.answers_access import (
    PermissionListing,
    PermissionRow,
    TopicPermissionRow,
)
from penstock.cli.asking import Listed, RunningBroker, asking, listing
from penstock.cli.objects import one_of, show_row
from penstock.cli.tables import columns, console, say, say_more, show, table

PERMISSIONS: Final[dict[str, object]] = {"op": "permissions"}
COLUMNS: Final = columns("USER:name VHOST:name CONFIGURE:prose WRITE:prose READ:prose")
TOPICS: Final = columns("USER:name VHOST:name EXCHANGE:name WRITE_KEYS:prose READ_KEYS:prose")
VHOST: Final = click.option("--vhost", default="/", show_default=True, help="Where it applies.")


@click.group(invoke_without_command=True)
@click.pass_context
@listing
def permissions(context: click.Context, broker: RunningBroker, limit: int | None) -> None:
    """List what users may do, or change it. A pattern is searched for in names, "" is in none."""
    if context.invoked_subcommand is None:
        _list(broker, "", "", limit)


@permissions.command("list")
@click.option("--user", default="", help="Only this user.")
@click.option("--vhost", default="", help="Only this virtual host.")
@listing
def list_(user: str, vhost: str, broker: RunningBroker, limit: int | None) -> None:
    """The same, of one user or one virtual host."""
    _list(broker, user, vhost, limit)


@permissions.command("set")
@click.argument("user")
@click.argument("configure")
@click.argument("write")
@click.argument("read")
@VHOST
@asking
def set_(
    user: str, configure: str, write: str, read: str, vhost: str, broker: RunningBroker
) -> None:
    """USER may declare and delete what CONFIGURE is found in, publish to WRITE, consume READ:

    penstock permissions set app '^app\\.' '^(app\\.|amq\\.default$)' '^app\\.'
    """
    rights = {"configure": configure, "write": write, "read": read}
    _ask(broker, {"do": "set", "user": user, "vhost": vhost, **rights})


@permissions.command()
@click.argument("user")
@VHOST
@asking
def clear(user: str, vhost: str, broker: RunningBroker) -> None:
    """USER may do nothing in the virtual host any more, and not open it."""
    _ask(broker, {"do": "clear", "user": user, "vhost": vhost})


permissions.add_command(clear, "remove")


@permissions.command("show")
@click.argument("user")
@VHOST
@asking
def show_(user: str, vhost: str, broker: RunningBroker) -> None:
    """What USER may do in the virtual host."""
    missing = f"user '{user}' may do nothing in vhost '{vhost}'"
    question = PERMISSIONS | {"do": "list", "user": user, "vhost": vhost}
    show_row(broker, one_of(broker, question, "permissions", missing, user=user, vhost=vhost))


@permissions.command("set-topic")
@click.argument("user")
@click.argument("exchange")
@click.argument("write")
@click.argument("read")
@VHOST
@asking
def set_topic(
    user: str, exchange: str, write: str, read: str, vhost: str, broker: RunningBroker
) -> None:
    """Only routing keys that WRITE is found in can be published to the topic EXCHANGE by USER, and
    only those of READ bound. {username} and {vhost} stand for the names."""
    rights = {"exchange": exchange, "write": write, "read": read}
    _ask(broker, {"do": "set-topic", "user": user, "vhost": vhost, **rights})


@permissions.command("clear-topic")
@click.argument("user")
@click.argument("exchange", default="")
@VHOST
@asking
def clear_topic(user: str, exchange: str, vhost: str, broker: RunningBroker) -> None:
    """Routing keys of EXCHANGE, of all without, are not looked at any more."""
    _ask(broker, {"do": "clear-topic", "user": user, "vhost": vhost, "exchange": exchange})


def _ask(broker: RunningBroker, request: dict[str, object]) -> None:
    broker.show(PERMISSIONS | request, Changed, lambda answer: say(console(), answer.said))


def _list(broker: RunningBroker, user: str, vhost: str, limit: int | None) -> None:
    request = {"do": "list", "user": user, "vhost": vhost}
    kinds: dict[str, type[Struct]] = {
        "permissions": PermissionRow,
        "topic_permissions": TopicPermissionRow,
    }
    broker.show_all(PERMISSIONS | request, PermissionListing, _show, Listed(kinds), limit)


def _show(answer: PermissionListing) -> None:
    screen = console()
    rows = [[r.user, r.vhost, r.configure, r.write, r.read] for r in answer.permissions]
    show(screen, table(COLUMNS, rows))
    if answer.topic_permissions:
        keys = [[r.user, r.vhost, r.exchange, r.write, r.read] for r in answer.topic_permissions]
        show(screen, table(TOPICS, keys))
    shown = len(rows) + len(answer.topic_permissions)
    say_more(screen, shown, answer.total, "permissions")
