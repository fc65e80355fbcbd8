"""What commands ask the person at the keyboard."""

import sys

import click

from penstock.base.errors import OperatorError


def confirmed(question: str, is_meant: bool) -> None:
    """Ask before something is lost; `is_meant` says it already. Raises: OperatorError."""
    if is_meant:
        return
    try:
        click.confirm(question, abort=True, err=True)
    except click.Abort as error:
        raise OperatorError("nothing is done; --yes says that it is meant") from error


def secret_from(question: str, is_new: bool = False) -> str:
    """A password that is typed, unseen, or the first line of standard input. Raises:
    OperatorError for what is no text."""
    if sys.stdin is not None and sys.stdin.isatty():
        return str(click.prompt(question, hide_input=True, confirmation_prompt=is_new, err=True))
    if sys.stdin is None:
        return ""
    try:
        return sys.stdin.readline().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise OperatorError(
            f"what standard input has as {question} is not {error.encoding.upper()}, as "
            "passwords are"
        ) from error
