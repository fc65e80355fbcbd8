"""`penstock users`: who may log in to a running broker."""

import secrets
from typing import Any, Final

import click

from penstock.base.errors import OperatorError
from penstock.broker.admin.answers import Changed
from penstock.broker.admin.answers_access import UserListing, UserRow
from penstock.cli.asking import Listed, RunningBroker, asking, listing
from penstock.cli.objects import one_of, show_row
from penstock.cli.prompts import secret_from
from penstock.cli.tables import columns, console, say, say_more, show, table

USERS: Final[dict[str, object]] = {"op": "users"}
COLUMNS: Final = columns("USER:name TAGS:name CONNECTIONS:number:3 LIMITS:name:2 FROM::1")
PASSWORD: Final = click.argument("password", default="")


@click.group(invoke_without_command=True)
@click.pass_context
@listing
def users(context: click.Context, broker: RunningBroker, limit: int | None) -> None:
    """List the users, or change them. Changes reach open connections, and survive a restart."""
    if context.invoked_subcommand is None:
        _list(broker, limit)


@users.command("list")
@listing
def list_(broker: RunningBroker, limit: int | None) -> None:
    """The same."""
    _list(broker, limit)


@users.command("show")
@click.argument("name")
@asking
def show_(name: str, broker: RunningBroker) -> None:
    """Everything about the user NAME, and what it may do where."""
    row = one_of(broker, USERS | {"do": "list"}, "users", f"no user '{name}'", name=name)
    may: Any = broker.ask({"op": "permissions", "do": "list", "user": name, "limit": 10_000})
    rights = {
        one["vhost"]: f"{one['configure']} {one['write']} {one['read']}"
        for one in may["permissions"]
    }
    show_row(broker, row | {"permissions": rights})


@users.command()
@click.argument("name")
@PASSWORD
@click.option("--tag", "tags", multiple=True, help="A tag, as administrator; may be repeated.")
@asking
def add(name: str, password: str, tags: tuple[str, ...], broker: RunningBroker) -> None:
    """A new user NAME. Without PASSWORD it is asked for, or read from standard input.

    It may do nothing until `penstock permissions set` says so.
    """
    _ask(broker, {"do": "add", "name": name, "tags": list(tags), **_hashed(password)})


@users.command()
@click.argument("name")
@asking
def delete(name: str, broker: RunningBroker) -> None:
    """The user NAME is no more: its connections are closed."""
    _ask(broker, {"do": "delete", "name": name})


@users.command("change-password")
@click.argument("name")
@PASSWORD
@asking
def change_password(name: str, password: str, broker: RunningBroker) -> None:
    """Another password for NAME, from the next login on."""
    _ask(broker, {"do": "change-password", "name": name, **_hashed(password)})


@users.command("set-tags")
@click.argument("name")
@click.argument("tags", nargs=-1)
@asking
def set_tags(name: str, tags: tuple[str, ...], broker: RunningBroker) -> None:
    """TAGS of the user NAME from now on, in place of those before."""
    _ask(broker, {"do": "set-tags", "name": name, "tags": list(tags)})


@users.command("hash-password")
@PASSWORD
def hash_(password: str) -> None:
    """Print the hash of PASSWORD, as `password_hash` in the configuration file takes it."""
    click.echo(_hashed(password)["password_hash"])


def _hashed(password: str) -> dict[str, str]:
    """The broker is never told a password, only its hash."""
    if password == "":
        password = secret_from("password", is_new=True)
    if password == "":
        raise OperatorError("the password is blank, which nobody could log in with")
    # Costs as much to import as the command itself, and listings do without.
    from penstock.broker.session.passwords import NEW_HASHING, hash_password, salt_bytes

    salt = secrets.token_bytes(salt_bytes(NEW_HASHING))
    hashed = hash_password(password, salt, NEW_HASHING)
    return {"password_hash": hashed, "hashing_algorithm": NEW_HASHING}


def _ask(broker: RunningBroker, request: dict[str, object]) -> None:
    broker.show(USERS | request, Changed, lambda answer: say(console(), answer.said))


def _list(broker: RunningBroker, limit: int | None) -> None:
    listed = Listed({"users": UserRow})
    broker.show_all(USERS | {"do": "list"}, UserListing, _show, listed, limit)


def _show(answer: UserListing) -> None:
    rows = [
        [
            row.name,
            ", ".join(row.tags),
            str(row.connections),
            ", ".join(f"{key} {value}" for key, value in row.limits.items()),
            "configuration" if row.is_configured else "",
        ]
        for row in answer.users
    ]
    screen = console()
    show(screen, table(COLUMNS, rows))
    say_more(screen, len(rows), answer.total, "users")
