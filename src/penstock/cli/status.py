"""Commands that ask a running broker: why, status."""

import sys
from collections import Counter

import click

from penstock.base.printable import printable
from penstock.base.quantities import parse_duration_ns
from penstock.broker.admin.answers import Status
from penstock.cli.asking import FORM, RunningBroker, placed, print_json
from penstock.explain.kinds import WHY_KINDS
from penstock.server.control.control_client import ask
from penstock.telemetry.words import size

NS_PER_S = 1_000_000_000


@click.command()
@click.argument("kind", type=click.Choice(WHY_KINDS), default="publish")
@click.argument("name", default="")
@placed()
@click.option("--window", default=10.0, show_default=True, help="Look back this many seconds.")
@click.option("--ago", default="0s", show_default=True, help="End so long ago, up to 10m.")
@FORM
def why(kind: str, name: str, path: str, window: float, ago: str, form: str) -> None:
    """Why did this connection, channel, queue or consumer wait?

    NAME is what the client calls itself, or its address: web-7, web-7/1 for a channel, TAG or
    TAG@web-7 for a consumer. `publish` is the worst publisher, `memory` who holds it.

    Exit status: 0 not throttled, 2 nobody of that name, 3 throttled (blocked 5 % or more).
    """
    answer = ask(
        path,
        {
            "op": "why",
            "kind": kind,
            "name": name,
            "window_s": window,
            "ago_s": parse_duration_ns(ago) / NS_PER_S,
        },
    )
    if form == "json":
        print_json(answer["explanation"])
    else:
        click.echo(str(answer["text"]))
    sys.exit(int(str(answer["exit_status"])))


@click.command()
@placed()
@FORM
def status(path: str, form: str) -> None:
    """How the broker is: version, profile, memory, alarms, what it holds, and when it syncs."""
    RunningBroker(path, form).show({"op": "status"}, Status, _show_status)


def _show_status(answer: Status) -> None:
    states = Counter(answer.connections.values())
    held = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    queues = answer.queues.values()
    ready = sum(one.messages_ready for one in queues)
    unacknowledged = sum(one.messages_unacknowledged for one in queues)
    lines = [
        ("version", f"penstock {answer.version}, {answer.build}"),
        ("profile", answer.profile),
        ("memory", f"{size(answer.memory_bytes)}, alarm above {size(answer.memory_high_bytes)}"),
        ("connections", f"{len(answer.connections)}" + (f": {held}" if held else "")),
        ("queues", f"{len(queues)}, {ready:,} messages ready, {unacknowledged:,} unacknowledged"),
        ("sync", answer.sync or "nothing is kept on disk"),
    ]
    lines += [("alarm", f"{name}: {text}") for name, text in answer.alarms.items()]
    if answer.certificate:
        lines.append(("tls", answer.certificate))
    if answer.failure:
        lines.append(("failure", answer.failure))
    for name, said in lines:
        click.echo(f"{name:<12} {printable(said)}")
