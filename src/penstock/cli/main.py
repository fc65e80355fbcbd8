"""The `penstock` command: its sub-commands by name, each loaded when it is asked for.

A broker must be ready in well under a second, so `serve` may not pay for importing the load tool
or the demo, whose libraries are optional besides.
"""

import codecs
import errno
import gc
import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Final

import click

import penstock
from penstock.base.errors import OperatorError

COMMANDS: Final = {
    "serve": "penstock.cli.serve:serve",
    "run": "penstock.cli.run:run",
    "why": "penstock.cli.status:why",
    "flow": "penstock.cli.flow:flow",
    "connections": "penstock.cli.connections:connections",
    "channels": "penstock.cli.channels:channels",
    "consumers": "penstock.cli.consumers:consumers",
    "exchanges": "penstock.cli.exchanges:exchanges",
    "queues": "penstock.cli.queues:queues",
    "streams": "penstock.cli.streams:streams",
    "bindings": "penstock.cli.bindings:bindings",
    "limits": "penstock.cli.limits:limits",
    "users": "penstock.cli.users:users",
    "vhosts": "penstock.cli.vhosts:vhosts",
    "management": "penstock.cli.management:management",
    "permissions": "penstock.cli.permissions:permissions",
    "policies": "penstock.cli.policies:policies",
    "definitions": "penstock.cli.definitions:definitions",
    "store": "penstock.cli.store:store",
    "status": "penstock.cli.status:status",
    "cluster": "penstock.cli.cluster:cluster",
    "log": "penstock.cli.log:log",
    "record": "penstock.cli.record:record",
    "replay": "penstock.cli.replay:replay",
    "pipeline": "penstock.cli.pipeline:pipeline",
    "perf": "penstock.perf.main:command",
    "lab": "penstock.cli.lab:command",
    "sweep": "penstock.cli.sweep:command",
    "whatif": "penstock.cli.whatif:whatif",
    "tls": "penstock.cli.tls:tls",
    "version": "penstock.cli.version:version",
}
FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Why standard output may not take what is printed."""
PLAINLY: Final = "penstock.plainly"
"""Name of the way to write what an encoding lacks."""
PLAIN: Final = {
    "─": "-", "–": "-", "…": "...", "→": "->", "◀": "<", "✔": "+", "✘": "!", "·": "-", "×": "x"
}  # fmt: skip


class LazyGroup(click.Group):
    """A group whose commands are imported by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        # What is imported stays: to look for garbage in it takes a sixth of the time.
        gc.disable()
        try:
            command = getattr(import_module(module), name)
        finally:
            gc.freeze()
            gc.enable()
        assert isinstance(command, click.Command), f"{place} is a command"
        return command


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(penstock.__version__, message="penstock %(version)s")
def cli() -> None:
    """Penstock: a message broker that speaks AMQP 0-9-1 and explains its flow control."""


def main() -> None:
    """Entry point: an operator's fault is one line on standard error and exit status 2."""
    _open_output()
    try:
        try:
            cli.main(prog_name="penstock")
        except OSError as error:
            if error.errno not in FULL or error.filename is not None:
                raise
            raise OperatorError(_unwritten(error)) from error
        finally:
            _flush_output()
    except OperatorError as error:
        click.echo(f"✘ {error}", err=True)
        sys.exit(2)


def _unwritten(error: OSError) -> str:
    return f"standard output cannot be written: {error.strerror or error}"


def _open_output() -> None:
    """Have a standard output, nowhere if it was closed, and have it take every character."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False)
    codecs.register_error(PLAINLY, _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=PLAINLY)


def _plain(error: UnicodeError) -> tuple[str, int]:
    """What is written for characters that the encoding lacks: plain ones for those that commands
    draw with, escapes for those of names."""
    assert isinstance(error, UnicodeEncodeError), "nothing is read so"
    lacking = error.object[error.start : error.end]
    shown = [PLAIN.get(one) or one.encode("ascii", "backslashreplace").decode() for one in lacking]
    return "".join(shown), error.end


def _flush_output() -> None:
    """Write what is left to be printed; the interpreter would do it when nothing can be said any
    more. Raises: OperatorError if it cannot be written; SystemExit 1 if nobody reads it."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        raise OperatorError(_unwritten(error)) from error


if __name__ == "__main__":
    main()
