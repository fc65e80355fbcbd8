"""What the commands about connections, channels, consumers, exchanges and bindings share: listing
and showing rows, which are those of the HTTP API whichever way the broker is asked."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import click

from penstock.base.errors import OperatorError
from penstock.base.shown_names import plain_name, vhost_and_name
from penstock.cli.asking import SHOWN, TABLE, Listed, RunningBroker, print_csv
from penstock.cli.tables import FAINT, Cell, Column, console, say, say_more, show, styled, table
from penstock.telemetry.words import amount, size

Row = dict[str, Any]
ITEMS: Final = "items"
IN_VHOST: Final = click.option("--vhost", default="/", show_default=True, help="Where it is.")
OF_VHOST: Final = click.option("--vhost", default="", help="Only this virtual host.")
WHERE: Final = click.option(
    "--vhost", default="", help="Where it is; NAME is then what clients call it."
)
YES: Final = click.option("--yes", is_flag=True, help="Do not ask whether it is meant.")
ARGUMENTS: Final = click.option(
    "--argument",
    "-a",
    "arguments",
    multiple=True,
    metavar="KEY=VALUE",
    help="An argument, as x-max-length=1000; numbers, true, false and JSON are read as such.",
)


def list_objects(
    broker: RunningBroker,
    kind: str,
    request: Row,
    limit: int | None,
    columns: Sequence[Column],
    cells: Callable[[Row], Sequence[Cell | str]],
) -> None:
    """Print the rows of `kind` that `request` asks for. cells: of a row, as people see it."""
    question: Row = {"op": "objects", "do": kind, **request}
    listed = Listed({ITEMS: dict}, is_sorted=False)
    if broker.form != TABLE:
        found: Row = broker.pages(question, listed, limit)
        if broker.form == "csv":
            print_csv(found, listed)
        else:
            broker.print({kind: found[ITEMS], "total": found["total"], "next": found["next"]})
        return
    answer: Row = broker.pages(question, listed, limit or SHOWN)
    rows = answer[ITEMS]
    screen = console()
    if not rows:
        say(screen, f"no {kind}")
        return
    show(screen, table(columns, [cells(row) for row in rows]))
    say_more(screen, len(rows), answer["total"], kind)


def find(broker: RunningBroker, kind: str, missing: str, **of: str) -> Row:
    """The one row of `kind` that is asked for. Raises: OperatorError, which says `missing`."""
    rows: Any = broker.ask({"op": "objects", "do": kind, **of})[ITEMS]
    if not rows:
        raise OperatorError(missing)
    found: Row = rows[0]
    return found


def one_of(broker: RunningBroker, request: Row, key: str, missing: str, **wanted: str) -> Row:
    """The row of a listing whose fields are `wanted`. key: where its answers have rows. Raises:
    OperatorError, which says `missing`."""
    rows: Any = broker.pages(request, Listed({key: dict}, is_sorted=False), None)[key]
    for row in rows:
        if all(row[name] == value for name, value in wanted.items()):
            found: Row = row
            return found
    raise OperatorError(missing)


def show_row(broker: RunningBroker, row: Row) -> None:
    """Print everything that is known of one object, a line each."""
    if broker.form != TABLE:
        broker.print(row)
        return
    screen = console()
    lines = list(_flat("", row))
    width = max((len(key) for key, _ in lines), default=0)
    for key, value in lines:
        name = key.ljust(width)
        name = styled(name, FAINT) if screen.has_colour else name
        screen.write(f"{name}  {value}")


def _flat(before: str, row: Row) -> Iterator[tuple[str, str]]:
    for key, value in row.items():
        name = f"{before}{key}"
        if isinstance(value, dict):
            yield from _flat(f"{name}.", value)
        elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            for index, one in enumerate(value):
                yield from _flat(f"{name}[{index}].", one)
        elif value not in (None, "", [], {}):
            yield name, _shown(key, value)


def _shown(key: str, value: object) -> str:
    from penstock.base.printable import printable

    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and ("bytes" in key or key.endswith("_oct") or key == "memory"):
        return size(value)
    if isinstance(value, int) and key not in ("port", "peer_port", "connected_at"):
        return amount(value)
    if isinstance(value, list):
        return printable(", ".join(str(one) for one in value))
    return printable(str(value))


def arguments_of(texts: tuple[str, ...]) -> Row:
    """`x-max-length=1000` and the like as a table. Raises: OperatorError."""
    found: Row = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise OperatorError(f"'{text}' is no argument; write it as x-max-length=1000")
        found[key] = _read(value)
    return found


def _read(value: str) -> object:
    """As JSON where it is JSON, and as it is otherwise."""
    try:
        return json.loads(value, parse_constant=_constant)
    except (RecursionError, ValueError):
        return value


def _constant(name: str) -> object:
    """NaN and Infinity are words: JSON does not have them. Raises: ValueError."""
    raise ValueError(name)


def place_of(broker: RunningBroker, name: str, vhost: str) -> tuple[str, str]:
    """Virtual host and name of the queue that listings call `name`, `/orders` or `tenant/orders`;
    in `vhost` where one is given, by its bare name or that one. Raises: OperatorError if there is
    none."""
    if vhost:
        place = vhost_and_name(name)
        names = (name, place[1]) if place is not None and place[0] == vhost else (name,)
        for one in names:
            question: Row = {"op": "objects", "do": "queues", "vhost": vhost, "name": one}
            if one and broker.ask(question)[ITEMS]:
                return vhost, one
        raise OperatorError(f"no queue '{name}' in vhost '{vhost}'; `penstock queues` lists them")
    if broker.http is not None:
        from penstock.cli.http_listings import place_of as over_http

        return over_http(broker.http, name)
    row: Any = broker.ask({"op": "queues", "do": "list", "name": name, "limit": 1})
    found = row["queues"][0]
    return vhost_and_name(str(found["name"])) or (str(found["vhost"]), str(found["name"]))


def new_place(broker: RunningBroker, name: str, vhost: str) -> tuple[str, str]:
    """The same of a queue that need not be there: without `vhost`, `/orders` is `orders` in `/`.
    Raises: OperatorError for `tenant/orders` where there is a vhost of that name."""
    if vhost:
        return vhost, name
    if "/" in name and not name.startswith("/"):
        question: Row = {"op": "vhosts", "do": "list"}
        rows: Any = broker.pages(question, Listed({"vhosts": dict}), None)["vhosts"]
        for row in rows:
            before = f"{row['name']}/"
            if name.startswith(before):
                raise OperatorError(
                    f"'{name}' is what listings call queue '{name.removeprefix(before)}' of vhost "
                    f"'{row['name']}': give it with --vhost {row['name']}, or write /{name} for "
                    "one of that name in vhost /"
                )
    return "/", plain_name(name[1:]) if name.startswith("/") else name


def rate_of(row: Row, *names: str) -> float:
    """The first of the rates of `message_stats` that the row has."""
    stats = row.get("message_stats") or {}
    for name in names:
        details = stats.get(f"{name}_details")
        if details:
            return float(details["rate"])
    return 0.0
