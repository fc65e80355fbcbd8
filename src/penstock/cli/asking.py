"""What commands that ask a running broker share: their options, and how an answer is printed.

A broker is asked over its control socket, or over HTTP with --url; cli/ways says how each question
is asked over either. Passwords come from the environment, a file, or a prompt, and not from the
command line, where everybody on the machine could read them. What takes long to be imported is
imported where it is needed: a command answers while somebody waits for it.
"""

import os
from collections.abc import Callable
from csv import DictWriter
from dataclasses import dataclass
from functools import wraps
from io import StringIO
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from penstock.base.errors import OperatorError
from penstock.server.control.control_client import ask, find_control

if TYPE_CHECKING:
    from penstock.cli.http_way import HttpWay

T = TypeVar("T")
SHOWN: Final = 50
"""Rows of a listing that people are shown unless they ask for more."""
PAGE_ROWS: Final = 10_000
TABLE: Final = "table"
PORT: Final = 5672
MISSING: Final = "missing"
"""In an answer of a broker with several workers: those that do not answer, a sentence each."""
WHICH: Final = ("port", "control", "url")
"""Options that say which broker is asked."""
PLACE: Final = (*WHICH, "login", "ca")


class RunningBroker:
    """The broker that a command asks. path: of its control socket; form: how its answers are
    printed: table, json or csv; page_rows: of a listing that are asked for at a time; http: the way
    to it instead of the socket, None for the socket. missing: workers whose part was not there."""

    def __init__(
        self, path: str, form: str, page_rows: int = PAGE_ROWS, http: "HttpWay | None" = None
    ) -> None:
        self.path = path
        self.form = form
        self.page_rows = page_rows
        self.http = http
        self.missing: list[object] = []

    def ask(self, request: dict[str, object], timeout_s: float = 60.0) -> dict[str, object]:
        """The broker's answer, for a command that goes on with it. What is not in it is said beside
        it. Raises: OperatorError."""
        if self.http is None:
            answer = ask(self.path, request, timeout_s)
        else:
            from penstock.cli.ways import over_http

            answer = over_http(self.http, request)
        missing = answer.get(MISSING)
        for one in missing if isinstance(missing, list) else ():
            if one not in self.missing:
                self.missing.append(one)
                click.echo(f" ! not all of it is there: {one}", err=True)
        return answer

    def do(self, request: dict[str, object]) -> dict[str, object]:
        """Have it do what AMQP has a method for, as declaring, purging or publishing: with the
        checks and the texts that clients meet. Raises: OperatorError."""
        if self.http is not None:
            return self.ask(request)
        from penstock.cli.amqp_way import over_amqp

        return over_amqp(self.path, request)

    def show(self, request: dict[str, object], shape: type[T], text: Callable[[T], None]) -> T:
        """Ask, and print the answer as JSON or CSV, or with `text` for people. The answer."""
        from penstock.cli.shapes import converted

        found = self.ask(request)
        answer = converted(found, shape)
        if self.form == TABLE:
            text(answer)
        else:
            self.print(found)
        return answer

    def change(self, request: dict[str, object]) -> None:
        """Have it do something, and print what it says of it."""
        self.say(self.do(request))

    def say(self, answer: dict[str, object]) -> None:
        """Print what the broker says of a change."""
        if self.form != TABLE:
            self.print(answer)
            return
        from penstock.cli.tables import console, say

        say(console(), str(answer["said"]))

    def print(self, answer: dict[str, object]) -> None:
        """An answer that is one object, as JSON or as CSV with one row."""
        if self.form == "json":
            print_json(answer)
        else:
            print_rows([answer], list(answer))

    def show_all(
        self,
        request: dict[str, object],
        shape: type[T],
        text: Callable[[T], None],
        listed: "Listed",
        limit: int | None,
    ) -> T:
        """The same for a listing: people are shown its first rows, and as JSON or CSV it is printed
        to the last one, unless there is a `limit`. The answer."""
        from penstock.cli.shapes import converted

        if self.form == TABLE:
            answer = converted(self.pages(request, listed, limit or SHOWN), shape)
            text(answer)
            return answer
        found = self.pages(request, listed, limit)
        if self.form == "json":
            print_json(found)
        else:
            print_csv(found, listed)
        return converted(found, shape)

    def pages(
        self, request: dict[str, object], listed: "Listed", limit: int | None
    ) -> dict[str, object]:
        """Every page in one answer. By name no row can be missed because others come and go."""
        from penstock.cli.shapes import converted

        if limit is None and listed.is_sorted:
            request = request | {"sort": "name"}
        found = self.ask(request | {"limit": min(limit or self.page_rows, self.page_rows)})
        count = _count(found, listed)
        while found.get("next") and (limit is None or count < limit):
            rest = self.page_rows if limit is None else min(limit - count, self.page_rows)
            page = self.ask(request | {"after": found["next"], "limit": rest})
            for name in listed.rows:
                _rows(found, name).extend(_rows(page, name))
            found["next"] = page.get("next")
            count = _count(found, listed)
        order = listed.order
        if limit is None and order is not None:
            (name,) = listed.rows
            kind = listed.rows[name]
            _rows(found, name).sort(key=lambda row: order(converted(row, kind)))
        return found


@dataclass(frozen=True, slots=True)
class Listed:
    """What a listing lists. rows: the fields of its answer that hold rows, with their kinds; order:
    a row's place, smallest first, for one that is not to be printed by name; is_sorted: it can be
    asked for by name."""

    rows: dict[str, type[Any]]
    order: Callable[[Any], Any] | None = None
    is_sorted: bool = True


def _rows(answer: dict[str, object], name: str) -> list[Any]:
    """Raises: OperatorError for an answer that is no listing."""
    rows = answer.get(name)
    if not isinstance(rows, list):
        raise OperatorError(
            f"the answer has no list of {name}, as every Penstock's has: is another broker there?"
        )
    return rows


def _count(answer: dict[str, object], listed: Listed) -> int:
    return sum(len(_rows(answer, name)) for name in listed.rows)


def print_csv(answer: dict[str, object], listed: Listed) -> None:
    """A line with the names of the columns, and one for each row."""
    names = [key for kind in listed.rows.values() for key in getattr(kind, "__struct_fields__", ())]
    rows = [row for name in listed.rows for row in _rows(answer, name)]
    print_rows(rows, names or [key for row in rows for key in row])


def print_rows(rows: list[dict[str, object]], names: list[str], *, with_head: bool = True) -> None:
    """CSV. names: of the columns, each once or more; with_head: their line comes first. What is a
    list or an object is JSON, and what a row does not have is empty."""
    text = StringIO()
    writer = DictWriter(text, list(dict.fromkeys(names)), restval="", lineterminator="\n")
    if with_head:
        writer.writeheader()
    for row in rows:
        writer.writerow({key: _cell(value) for key, value in row.items()})
    click.echo(text.getvalue(), nl=False)


def _cell(value: object) -> str:
    from penstock.cli.shapes import as_json

    return value if isinstance(value, str) else as_json(value)


def print_json(answer: object) -> None:
    """One line."""
    from penstock.cli.shapes import as_json

    click.echo(as_json(answer))


class _Form(click.Choice[str]):
    """`text` was the name of `table`, and is still understood."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(TABLE if value == "text" else value, param, ctx)


FORM: Final = click.option(
    "--format",
    "form",
    type=_Form((TABLE, "json")),
    default=TABLE,
    show_default=True,
    help="How to print it.",
)
"""How answers are printed, as a parameter `form`."""
ANY_FORM: Final = click.option(
    "--format",
    "form",
    type=_Form((TABLE, "json", "csv")),
    default=TABLE,
    show_default=True,
    help="How to print it.",
)
"""The same, of what can be rows."""


def placed(
    port_help: str = "Port of the broker to ask.",
    control_help: str = "Its control socket, if not at the usual place.",
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command `--port` and `--control`, as `path`: that of the control socket."""

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def asked(*args: object, port: int, control: str, **given: object) -> None:
            command(*args, path=control or find_control(port), **given)

        asked = click.option("--control", default="", help=control_help)(asked)
        return click.option("--port", default=5672, show_default=True, help=port_help)(asked)

    return wrap


THE_BROKER: Final = placed("Port of the broker.", "Its control socket, if elsewhere.")


def _anywhere(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which broker is asked, and how, as a RunningBroker called `broker`."""

    @wraps(command)
    def asked(
        *args: object,
        port: int,
        control: str,
        url: str,
        login: str,
        ca: str,
        form: str,
        **given: object,
    ) -> None:
        context = click.get_current_context()
        if context.invoked_subcommand is not None:
            _hand_down(context)
            # Whoever is asked, and with which password, is for the verb to find out.
            command(*args, broker=RunningBroker("", form), **given)
            return
        here = {"port": port, "control": control, "url": url, "login": login, "ca": ca}
        command(*args, broker=_broker(context, here | {"form": form}), **given)

    for option in (
        click.option("--ca", default="", help="PEM file with the authorities of its certificate."),
        click.option("--login", default="", help="Log in there as this user; see docs/commands.md"),
        click.option("--url", default="", help="Ask over HTTP instead: https://HOST:15672"),
        click.option("--control", default="", help="Its control socket, if elsewhere."),
        click.option("--port", default=PORT, show_default=True, help="Port of the broker."),
    ):
        asked = option(asked)
    return asked


def _hand_down(context: click.Context) -> None:
    """What stands before the verb counts for the verb: `penstock queues --vhost a purge orders`.
    Raises: UsageError for an option that the verb does not have."""
    said = {name: value for name, value in context.params.items() if _is_said(context, name)}
    context.obj = {name: said.pop(name) for name in (*PLACE, "form") if name in said}
    group, verb = context.command, context.invoked_subcommand
    assert isinstance(group, click.Group) and verb is not None, "it has a verb"
    command = group.get_command(context, verb)
    assert command is not None, "click has found it"
    known = {one.name for one in command.params if isinstance(one, click.Option)}
    for name in said:
        if name not in known:
            raise click.UsageError(f"--{name} stands before '{verb}', which has no such option")
    context.default_map = {verb: said}


def _broker(context: click.Context, here: dict[str, Any]) -> RunningBroker:
    """The one that is meant. here: the options of the verb; those before the verb count where it
    has none of its own. Raises: UsageError, OperatorError."""
    above: dict[str, Any] = context.obj or {}
    said = {name: value for name, value in here.items() if _is_said(context, name)}
    if any(name in said for name in WHICH):
        above = {name: value for name, value in above.items() if name not in PLACE}
    meant = here | above | said
    control, url, form = meant["control"], meant["url"], meant["form"]
    if control and url:
        raise click.UsageError("--control and --url exclude each other")
    if not any(name in said or name in above for name in WHICH):
        url = os.environ.get("PENSTOCK_URL", "")
    if not url:
        if meant["login"] or meant["ca"]:
            raise click.UsageError("--login and --ca go with --url")
        return RunningBroker(control or find_control(meant["port"]), form)
    from penstock.cli.http_way import way_to

    return RunningBroker("", form, http=way_to(url, meant["login"], meant["ca"]))


def _is_said(context: click.Context, name: str) -> bool:
    """Whether an option stands on the command line."""
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """Gives `command` the options every question has, as a RunningBroker called `broker`."""
    return _anywhere(ANY_FORM(command))


def listing(command: Callable[..., None]) -> Callable[..., None]:
    """The same for a listing, with `limit`: how many rows are wanted, None where nobody said."""
    limited = click.option(
        "--limit",
        default=None,
        type=click.IntRange(min=1),
        help=f"Rows shown.  [default: {SHOWN}; all of them as json or csv]",
    )(command)
    return _anywhere(ANY_FORM(limited))
