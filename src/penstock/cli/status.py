"""Commands that ask a running broker: why, status."""

import sys
from collections import Counter

import click
import msgspec

from penstock.base.quantities import parse_duration_ns
from penstock.explain.asking import WHY_KINDS
from penstock.server.boot.log_lines import printable
from penstock.server.control.control_client import ask, control_path
from penstock.telemetry.words import size

NS_PER_S = 1_000_000_000


@click.command()
@click.argument("kind", type=click.Choice(WHY_KINDS), default="publish")
@click.argument("name", default="")
@click.option("--port", default=5672, show_default=True, help="Port of the broker to ask.")
@click.option("--control", default="", help="Its control socket, if not at the usual place.")
@click.option("--window", default=10.0, show_default=True, help="Look back this many seconds.")
@click.option("--ago", default="0s", show_default=True, help="End so long ago, up to 10m.")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text")
def why(kind: str, name: str, port: int, control: str, window: float, ago: str, form: str) -> None:
    """Why did this connection, channel, queue or consumer wait?

    NAME is what the client calls itself, or its address: web-7, web-7/1 for a channel, TAG or
    TAG@web-7 for a consumer. `publish` is the worst publisher, `memory` who holds it.

    Exit status: 0 not throttled, 2 nobody of that name, 3 throttled (blocked 5 % or more).
    """
    answer = ask(
        control or control_path(port),
        {
            "op": "why",
            "kind": kind,
            "name": name,
            "window_s": window,
            "ago_s": parse_duration_ns(ago) / NS_PER_S,
        },
    )
    if form == "json":
        click.echo(msgspec.json.encode(answer["explanation"]).decode())
    else:
        click.echo(str(answer["text"]))
    sys.exit(int(str(answer["exit_status"])))


@click.command()
@click.option("--port", default=5672, show_default=True, help="Port of the broker to ask.")
@click.option("--control", default="", help="Its control socket, if not at the usual place.")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text")
def status(port: int, control: str, form: str) -> None:
    """How the broker is: version, profile, memory, alarms, what it holds, and when it syncs."""
    answer = ask(control or control_path(port), {"op": "status"})
    if form == "json":
        click.echo(msgspec.json.encode(answer).decode())
        return
    for name, said in _status_lines(answer):
        click.echo(f"{name:<12} {printable(said)}")


def _status_lines(answer: dict[str, object]) -> list[tuple[str, str]]:
    """What is said, a name and a text each."""
    connections, queues, alarms = answer["connections"], answer["queues"], answer["alarms"]
    assert isinstance(connections, dict) and isinstance(queues, dict) and isinstance(alarms, dict)
    states = Counter(str(state) for state in connections.values())
    held = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    ready = sum(int(one["ready"]) for one in queues.values())
    unacked = sum(int(one["unacked"]) for one in queues.values())
    used, mark = int(str(answer["memory_bytes"])), int(str(answer["memory_high_bytes"]))
    lines = [
        ("version", f"penstock {answer['version']}, {answer['build']}"),
        ("profile", str(answer["profile"])),
        ("memory", f"{size(used)}, alarm above {size(mark)}"),
        ("connections", f"{len(connections)}" + (f": {held}" if held else "")),
        ("queues", f"{len(queues)}, {ready:,} messages ready, {unacked:,} unacknowledged"),
        ("sync", str(answer["sync"]) or "nothing is kept on disk"),
    ]
    lines += [("alarm", f"{name}: {text}") for name, text in alarms.items()]
    if answer["failure"]:
        lines.append(("failure", str(answer["failure"])))
    return lines
