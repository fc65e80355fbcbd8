"""Commands that ask a running broker: why."""

import sys

import click
import msgspec

from penstock.server.control_client import ask, control_path

KINDS = ("connection", "channel", "queue", "consumer", "publish", "memory", "not")


@click.command()
@click.argument("kind", type=click.Choice(KINDS), default="publish")
@click.argument("name", default="")
@click.option("--port", default=5672, show_default=True, help="Port of the broker to ask.")
@click.option("--control", default="", help="Its control socket, if not at the usual place.")
@click.option("--window", default=10.0, show_default=True, help="Look back this many seconds.")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text")
def why(kind: str, name: str, port: int, control: str, window: float, form: str) -> None:
    """Why did this connection, channel, queue or consumer wait? Exit status 3: throttled."""
    answer = ask(
        control or control_path(port),
        {"op": "why", "kind": kind, "name": name, "window_s": window},
    )
    if form == "json":
        click.echo(msgspec.json.encode(answer["explanation"]).decode())
    else:
        click.echo(str(answer["text"]))
    explanation = answer["explanation"]
    if isinstance(explanation, dict) and float(explanation.get("blocked_share", 0.0)) >= 0.05:
        sys.exit(3)
