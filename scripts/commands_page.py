"""Prints docs/commands.md from the commands themselves, as click knows them."""

import inspect
import re
import sys

import click

from penstock.cli.main import COMMANDS, cli

HEADER = """\
# Commands

Printed by `make docs` from the commands; `penstock COMMAND -h` says the same. `penstock
--version` names the version, and [install.md](install.md) says how a shell completes all of this.

## Which broker is asked, and how

Commands that ask a running broker find the control socket of the one on port 5672; `--port` names
another one, `--control` a socket elsewhere. The broker makes its socket in `$RUNTIME_DIRECTORY`,
`$XDG_RUNTIME_DIR` or `/tmp/penstock-UID`, the first of these that there is, and commands look in
all of them and in `/run/penstock`; root looks in those of every user besides. The socket is its
user's alone: whoever may not open it is told so, and whose it is. Over it an operator may do
everything.

`--url https://HOST:15672` asks over [HTTP](http-api.md) instead, with the same words, as a user
of the broker whose tags and permissions count. The user is `--login`, `$PENSTOCK_USER` or what
the file says, the password `$PENSTOCK_PASSWORD`, the file's, or it is typed; on the command line
everybody on the machine could read it, so it is refused there. `$PENSTOCK_URL` saves typing the
address. The file is `~/.config/penstock/client.toml`, which must be readable by its owner alone:

```toml
["https://broker.example:15672"]
user = "anna"
password = "..."
ca = "/etc/ssl/company.pem"
```

What AMQP has a method for (declare, delete, purge, bind, publish, get) is done by AMQP, over the
control socket or by the management process: its checks and texts are those that clients meet.
`record`, `store`, `definitions`, `cluster`, `streams`, `management`, `policies export`,
`queues readers`, `queues release` and `why --ago` are for the control socket alone.

## What they print

`--format table` is for people: on a terminal the columns that matter least are left out first,
and named; names are cut in their middle. Away from a terminal everything is written in full,
without colour. Listings show 50 rows and how many more there are. `--format json` and `csv` print
all rows, unless there is a `--limit`. Sizes are decimal (1 kB is 1,000 bytes); numbers have
groups of three. `NO_COLOR` turns colour off. Exit status: 0 done, 2 refused or not possible, in
one line on standard error; `why` and `flow` have 3 for "something is held".

"""


WIDTH = 10_000
ASKING = frozenset(("port", "control", "url", "login", "ca", "form"))
"""Options that every command has which asks a broker; said once."""


def first_of(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").split("\n\n")[0].split())


def section(words: tuple[str, ...], command: click.Command) -> list[str]:
    # So wide that nothing is wrapped, which would part a word.
    context = click.Context(
        command,
        info_name="penstock " + " ".join(words),
        terminal_width=WIDTH,
        max_content_width=WIDTH,
    )
    usage = command.get_usage(context).removeprefix("Usage: ")
    level = "#" * (1 + len(words))
    lines = [f"{level} `penstock {' '.join(words)}`", "", "```", " ".join(usage.split()), "```", ""]
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        lines += [" ".join(escaped(paragraph).split()), ""]
    given = [one for one in command.get_params(context) if isinstance(one, click.Option)]
    is_asking = any(one.name == "url" for one in given)
    options = [
        record
        for one in given
        if "--help" not in one.opts
        and not (is_asking and one.name in ASKING)
        and (record := one.get_help_record(context)) is not None
    ]
    if is_asking:
        lines += ["Asks a running broker: `--port`, `--control`, `--url`, `--format` as above.", ""]
    if options:
        lines += ["| option | |", "| --- | --- |"]
        lines += [f"| `{cell(name)}` | {cell(escaped(said))} |" for name, said in options]
        lines.append("")
    if isinstance(command, click.Group):
        for verb in command.list_commands(context):
            found = command.get_command(context, verb)
            assert found is not None, "it is listed"
            lines += section((*words, verb), found)
    return lines


def cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def escaped(text: str) -> str:
    """Signs that would be markup of Markdown; between backticks none is."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        one if one.startswith("`") else re.sub(r"([*_<>\[\]])", r"\\\1", one) for one in parts
    )


def page() -> str:
    """The whole page; the same commands give the same text."""
    lines: list[str] = ["| command | |", "| --- | --- |"]
    found: list[tuple[str, click.Command]] = []
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None, f"{name} is a command"
        found.append((name, command))
        lines.append(f"| [`{name}`](#penstock-{name}) | {cell(escaped(first_of(command.help)))} |")
    lines.append("")
    for name, command in found:
        lines += section((name,), command)
    return HEADER + "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
