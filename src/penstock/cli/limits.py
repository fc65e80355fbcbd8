"""`penstock limits`: how many connections, channels and queues a vhost or a user may have."""

import json
from typing import Final

import click

from penstock.base.errors import OperatorError
from penstock.broker.admin.answers import LimitListing, LimitRow, LimitsOf
from penstock.cli.asking import Listed, RunningBroker, asking, listing
from penstock.cli.objects import one_of, show_row
from penstock.cli.tables import RED, Cell, columns, console, say, say_more, show, table
from penstock.telemetry.words import amount

KINDS: Final = ("vhost", "user")
LIMITS: Final[dict[str, object]] = {"op": "limits"}
COLUMNS: Final = columns("OF NAME:name LIMIT USED:number ALLOWED:number")


@click.group(invoke_without_command=True)
@click.pass_context
@listing
def limits(context: click.Context, broker: RunningBroker, limit: int | None) -> None:
    """List the virtual hosts and users that have a limit, and how much of it is used."""
    if context.invoked_subcommand is None:
        _list(broker, limit)


@limits.command("list")
@listing
def list_(broker: RunningBroker, limit: int | None) -> None:
    """The same."""
    _list(broker, limit)


@limits.command("set")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.argument("wanted", nargs=-1, required=True)
@asking
def set_(kind: str, name: str, wanted: tuple[str, ...], broker: RunningBroker) -> None:
    """Limit the vhost or user NAME from now on; nobody who is in is put out.

    A vhost has max-connections and max-queues, a user max-connections and max-channels. 0 lets
    nobody in, -1 takes the limit away. WANTED is KEY=NUMBER, or a JSON object as RabbitMQ's:
    penstock limits set vhost / max-queues=1000 max-connections=200
    """
    request = {"do": "set", "kind": kind, "name": name, "limits": _wanted(wanted)}
    broker.show(LIMITS | request, LimitsOf, _say)


@limits.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.argument("keys", nargs=-1)
@asking
def clear(kind: str, name: str, keys: tuple[str, ...], broker: RunningBroker) -> None:
    """Take the limits KEYS of the vhost or user NAME away, all of them if none is named."""
    request = {"do": "clear", "kind": kind, "name": name, "keys": list(keys)}
    broker.show(LIMITS | request, LimitsOf, _say)


limits.add_command(clear, "remove")


@limits.command("show")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@asking
def show_(kind: str, name: str, broker: RunningBroker) -> None:
    """The limits of the vhost or user NAME, and how much of them is used."""
    question = LIMITS | {"do": "list"}
    missing = f"{kind} '{name}' has no limits"
    show_row(broker, one_of(broker, question, "limits", missing, kind=kind, name=name))


def _wanted(texts: tuple[str, ...]) -> dict[str, object]:
    if len(texts) == 1 and texts[0].lstrip().startswith("{"):
        try:
            table = json.loads(texts[0])
        except ValueError as error:
            raise OperatorError(f"the limits are not JSON: {error}") from error
        assert isinstance(table, dict), "because it begins with a brace"
        return table
    found: dict[str, object] = {}
    for text in texts:
        key, equals, number = text.partition("=")
        try:
            found[key] = int(number)
        except ValueError:
            equals = ""
        if equals == "":
            raise OperatorError(f"'{text}' is no limit; write it as max-connections=100")
    return found


def _say(answer: LimitsOf) -> None:
    said = ", ".join(f"{key} {value}" for key, value in answer.limits.items()) or "no limits"
    say(console(), f"{answer.kind} '{answer.name}': {said}")


def _list(broker: RunningBroker, limit: int | None) -> None:
    listed = Listed({"limits": LimitRow})
    broker.show_all(LIMITS | {"do": "list"}, LimitListing, _show, listed, limit)


def _show(answer: LimitListing) -> None:
    screen = console()
    if not answer.limits:
        say(screen, "no limits")
        return
    cells: list[list[Cell | str]] = []
    for row in answer.limits:
        for key, allowed in row.limits.items():
            used = row.used.get(key)
            style = RED if used is not None and used >= allowed else ""
            shown = "" if used is None else amount(used)
            cells.append([row.kind, row.name, key, Cell(shown, style), amount(allowed)])
    show(screen, table(COLUMNS, cells))
    say_more(screen, len(answer.limits), answer.total, "virtual hosts and users")
