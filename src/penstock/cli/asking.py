"""What commands that ask a running broker share: their options, and how an answer is printed."""

from collections.abc import Callable
from csv import DictWriter
from dataclasses import dataclass
from functools import wraps
from io import StringIO
from typing import Any, Final, TypeVar

import click
import msgspec

from penstock.server.control.control_client import ask, control_path

T = TypeVar("T")
SHOWN: Final = 50
"""Rows of a listing that people are shown unless they ask for more."""
PAGE_ROWS: Final = 10_000


class RunningBroker:
    """The broker that a command asks. form: how its answers are printed: text,
    json, or a listing as csv; page_rows: of a listing that are asked for at a time."""

    def __init__(self, path: str, form: str, page_rows: int = PAGE_ROWS) -> None:
        self.path = path
        self.form = form
        self.page_rows = page_rows

    def ask(self, request: dict[str, object]) -> dict[str, object]:
        """The broker's answer, for a command that goes on with it. Raises: OperatorError."""
        return ask(self.path, request)

    def show(self, request: dict[str, object], shape: type[T], text: Callable[[T], None]) -> T:
        """Ask, and print the answer as JSON, or with `text` for people. The answer."""
        found = ask(self.path, request)
        answer = msgspec.convert(found, shape)
        if self.form == "json":
            print_json(found)
        else:
            text(answer)
        return answer

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
        if self.form == "text":
            answer = msgspec.convert(ask(self.path, request | {"limit": limit or SHOWN}), shape)
            text(answer)
            return answer
        found = self.pages(request, listed, limit)
        if self.form == "json":
            print_json(found)
        else:
            print_csv(found, listed)
        return msgspec.convert(found, shape)

    def pages(
        self, request: dict[str, object], listed: "Listed", limit: int | None
    ) -> dict[str, object]:
        """Every page in one answer. By name no row can be missed because others come and go."""
        if limit is None:
            request = request | {"sort": "name"}
        found = ask(self.path, request | {"limit": min(limit or self.page_rows, self.page_rows)})
        count = _count(found, listed)
        while found["next"] and (limit is None or count < limit):
            rest = self.page_rows if limit is None else min(limit - count, self.page_rows)
            page = ask(self.path, request | {"after": found["next"], "limit": rest})
            for name in listed.rows:
                _rows(found, name).extend(_rows(page, name))
            found["next"] = page["next"]
            count = _count(found, listed)
        order = listed.order
        if limit is None and order is not None:
            (name,) = listed.rows
            kind = listed.rows[name]
            _rows(found, name).sort(key=lambda row: order(msgspec.convert(row, kind)))
        return found


@dataclass(frozen=True, slots=True)
class Listed:
    """What a listing lists. rows: the fields of its answer that hold rows, with their kinds; order:
    a row's place, smallest first, for one that is not to be printed by name."""

    rows: dict[str, type[msgspec.Struct]]
    order: Callable[[Any], Any] | None = None


def _rows(answer: dict[str, object], name: str) -> list[object]:
    rows = answer[name]
    assert isinstance(rows, list), "a listing has lists"
    return rows


def _count(answer: dict[str, object], listed: Listed) -> int:
    return sum(len(_rows(answer, name)) for name in listed.rows)


def print_csv(answer: dict[str, object], listed: Listed) -> None:
    """A line with the names of the columns, and one for each row. What is a list or an object is
    JSON, and what a row does not have is empty."""
    columns = dict.fromkeys(key for kind in listed.rows.values() for key in kind.__struct_fields__)
    text = StringIO()
    writer = DictWriter(text, list(columns), restval="", lineterminator="\n")
    writer.writeheader()
    for name in listed.rows:
        for row in _rows(answer, name):
            assert isinstance(row, dict), "rows are objects"
            writer.writerow({key: _cell(value) for key, value in row.items()})
    click.echo(text.getvalue(), nl=False)


def _cell(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def print_json(answer: object) -> None:
    """One line."""
    click.echo(msgspec.json.encode(answer).decode())


FORMS: Final = click.Choice(("text", "json"))
FORM: Final = click.option("--format", "form", type=FORMS, default="text")
"""How answers are printed, as a parameter `form`."""
LISTING_FORMS: Final = click.Choice(("text", "json", "csv"))
LISTING_FORM: Final = click.option(
    "--format", "form", type=LISTING_FORMS, default="text", show_default=True
)
FORM_SHOWN: Final = click.option("--format", "form", type=FORMS, default="text", show_default=True)
"""The same, and the help names the default."""


def placed(
    port_help: str = "Port of the broker to ask.",
    control_help: str = "Its control socket, if not at the usual place.",
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command `--port` and `--control`, as `path`: that of the control socket."""

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def asked(*args: object, port: int, control: str, **given: object) -> None:
            command(*args, path=control or control_path(port), **given)

        asked = click.option("--control", default="", help=control_help)(asked)
        return click.option("--port", default=5672, show_default=True, help=port_help)(asked)

    return wrap


THE_BROKER: Final = placed("Port of the broker.", "Its control socket, if elsewhere.")


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """Gives `command` the options every question has, as a RunningBroker called `broker`."""

    @wraps(command)
    def asked(*args: object, path: str, form: str, **given: object) -> None:
        command(*args, broker=RunningBroker(path, form), **given)

    return THE_BROKER(FORM_SHOWN(asked))


def listing(command: Callable[..., None]) -> Callable[..., None]:
    """The same for a listing, with `limit`: how many rows are wanted, None where nobody said."""

    @wraps(command)
    def asked(*args: object, path: str, form: str, **given: object) -> None:
        command(*args, broker=RunningBroker(path, form), **given)

    asked = click.option(
        "--limit",
        default=None,
        type=click.IntRange(min=1),
        help=f"Rows shown.  [default: {SHOWN}; all of them as json or csv]",
    )(asked)
    return THE_BROKER(LISTING_FORM(asked))
