"""What commands that ask a running broker share: their options, and how an answer is printed."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import click
import msgspec

from penstock.server.control.control_client import ask, control_path

T = TypeVar("T")


class RunningBroker:
    """The broker that a command asks. form: how its answers are printed, text or json."""

    def __init__(self, port: int, control: str, form: str) -> None:
        self.path = control or control_path(port)
        self.form = form

    def show(self, request: dict[str, object], shape: type[T], text: Callable[[T], None]) -> T:
        """Ask, and print the answer as JSON, or with `text` for people. The answer."""
        found = ask(self.path, request)
        answer = msgspec.convert(found, shape)
        if self.form == "json":
            print_json(found)
        else:
            text(answer)
        return answer


def print_json(answer: object) -> None:
    """One line."""
    click.echo(msgspec.json.encode(answer).decode())


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """Gives `command` the options every question has, as a RunningBroker called `broker`."""

    @wraps(command)
    def asked(*args: object, port: int, control: str, form: str, **given: object) -> None:
        command(*args, broker=RunningBroker(port, control, form), **given)

    for option in (
        click.option(
            "--format",
            "form",
            type=click.Choice(("text", "json")),
            default="text",
            show_default=True,
        ),
        click.option("--control", default="", help="Its control socket, if elsewhere."),
        click.option("--port", default=5672, show_default=True, help="Port of the broker."),
    ):
        asked = option(asked)
    return asked


def limited(command: Callable[..., None]) -> Callable[..., None]:
    """`--limit`."""
    return click.option(
        "--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="Rows shown."
    )(command)
