"""What commands that ask a running broker share: their options, and how an answer is printed."""

from collections.abc import Callable
from functools import wraps
from typing import Final, TypeVar

import click
import msgspec

from penstock.server.control.control_client import ask, control_path

T = TypeVar("T")


class RunningBroker:
    """The broker that a command asks. form: how its answers are printed, text or json."""

    def __init__(self, path: str, form: str) -> None:
        self.path = path
        self.form = form

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


def print_json(answer: object) -> None:
    """One line."""
    click.echo(msgspec.json.encode(answer).decode())


FORMS: Final = click.Choice(("text", "json"))
FORM: Final = click.option("--format", "form", type=FORMS, default="text")
"""How answers are printed, as a parameter `form`."""
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


def limited(command: Callable[..., None]) -> Callable[..., None]:
    """`--limit`."""
    return click.option(
        "--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="Rows shown."
    )(command)
