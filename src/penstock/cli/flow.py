"""`penstock flow`: what moves, what waits and what may be changed in a running broker."""

import sys
from collections.abc import Callable
from typing import TypeVar

import click
import msgspec

from penstock.base.errors import OperatorError
from penstock.broker.admin.flow_edges import SORTS as EDGE_SORTS
from penstock.broker.admin.flow_top import SORTS as TOP_SORTS
from penstock.cli.flow_tables import (
    show_accounts,
    show_alarms,
    show_causes,
    show_changes,
    show_edges,
    show_settings,
)
from penstock.cli.flow_top import TopOptions, run_top
from penstock.server.control.control_client import ask, control_path

F = TypeVar("F", bound=Callable[..., None])

HELD = 3
"""Exit status of a listing in which something is held."""


def asking(command: F) -> F:
    """The options every question has."""
    command = click.option(
        "--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True
    )(command)
    command = click.option("--control", default="", help="Its control socket, if elsewhere.")(
        command
    )
    return click.option("--port", default=5672, show_default=True, help="Port of the broker.")(
        command
    )


def limited(command: F) -> F:
    """`--limit`."""
    return click.option(
        "--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="Rows shown."
    )(command)


@click.group()
def flow() -> None:
    """What moves, what waits, and what may be changed while the broker runs."""


@flow.command()
@asking
@limited
@click.option("--vhost", default="", help="Only this virtual host.")
@click.option("--blocked", is_flag=True, help="Only hops over which nothing may be handed now.")
@click.option("--sort", type=click.Choice(EDGE_SORTS), default="blocked", show_default=True)
def edges(
    port: int, control: str, form: str, limit: int, vhost: str, blocked: bool, sort: str
) -> None:
    """List the hops: who hands to whom, what is left of the window, who waits, and since when.

    LEFT is what the sender may still hand over, of its window in messages; IN FLIGHT what the
    receiver has not finished; KEPT is credit it withholds because it is held itself. HELD is the
    time the hop was closed in all.

    Exit status: 0 nothing is blocked, 3 some hop is.
    """
    answer = _ask(
        port,
        control,
        {"do": "edges", "vhost": vhost, "blocked": blocked, "sort": sort, "limit": limit},
    )
    _show(answer, form, show_edges)
    sys.exit(HELD if answer["blocked"] else 0)


@flow.command()
@asking
@limited
@click.option("--vhost", default="", help="Only this virtual host.")
@click.option(
    "--of",
    "of",
    nargs=2,
    metavar="queue NAME",
    default=None,
    help="Who caused what rests in this queue.",
)
def accounts(
    port: int, control: str, form: str, limit: int, vhost: str, of: tuple[str, str] | None
) -> None:
    """Show the ledger: who has how much work outstanding, and whose messages rest in queues.

    DEBT is work under way (mailboxes, bytes that wait for sockets), STORED what rests in queues,
    both of everything this account has caused. Above its limit in debt an account is held.
    KEPT is what lies in streams because reader groups have not passed it yet.

    Exit status: 0 nobody is held, 3 somebody is.
    """
    if of is not None:
        if of[0] != "queue":
            raise click.UsageError(f"--of {of[0]}: only `--of queue NAME` is known")
        causes = _ask(port, control, {"do": "accounts", "queue": of[1], "limit": limit})
        _show(causes, form, show_causes)
        return
    answer = _ask(port, control, {"do": "accounts", "vhost": vhost, "limit": limit})
    _show(answer, form, show_accounts)
    rows = answer["accounts"]
    assert isinstance(rows, list), "the broker answers so"
    sys.exit(HELD if any(row["is_held"] or row["held_by"] for row in rows) else 0)


@flow.command()
@asking
def alarms(port: int, control: str, form: str) -> None:
    """Show the memory and disk alarms: levels, limits, and whom they stop.

    Exit status: 0 no alarm is set, 3 one is.
    """
    answer = _ask(port, control, {"do": "alarms"})
    _show(answer, form, show_alarms)
    rows = answer["alarms"]
    assert isinstance(rows, list), "the broker answers so"
    sys.exit(HELD if any(row["is_set"] for row in rows) else 0)


@flow.command("set")
@asking
@click.argument("changes", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--for", "lasting", default="", help="Take it back after 30s, 10m, 90m ...")
def set_(port: int, control: str, form: str, changes: tuple[str, ...], lasting: str) -> None:
    """List the settings, or change some of them at once: all that are given, or none.

    A change is recorded and logged, and lasts until the broker stops or --for is over.

    Exit status: 0 done, 2 refused; nothing has changed then.
    """
    if not changes:
        if lasting:
            raise click.UsageError("--for needs something to set: KEY=VALUE")
        _show(_ask(port, control, {"do": "settings"}), form, show_settings)
        return
    wanted: dict[str, str] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if equals == "" or key == "" or value == "":
            raise OperatorError(f"'{change}' is not KEY=VALUE; `penstock flow set` lists the keys")
        if key in wanted:
            raise OperatorError(f"setting '{key}' is given twice; give each key once")
        wanted[key] = value
    answer = _ask(port, control, {"do": "set", "changes": wanted, "for": lasting})
    _show(answer, form, show_changes)


@flow.command()
@asking
@click.option("--once", is_flag=True, help="Print one frame and exit.")
@click.option(
    "--interval",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.1, 60),
    help="Seconds between two frames.",
)
@click.option("--window", default=10.0, show_default=True, help="Rates and shares of so many s.")
@click.option("--sort", type=click.Choice(TOP_SORTS), default="blocked", show_default=True)
@click.option(
    "--limit", default=10, show_default=True, type=click.IntRange(1, 1000), help="Rows a table."
)
def top(
    port: int,
    control: str,
    form: str,
    once: bool,
    interval: float,
    window: float,
    sort: str,
    limit: int,
) -> None:
    """Watch publishers, queues and consumers: rates, shares of blocked time, causes.

    Keys: s sort, f freeze, q quit. With --once, --format json, or away from a terminal it prints
    one frame.
    """
    path = control or control_path(port)
    request: dict[str, object] = {"do": "top", "window_s": window, "sort": sort, "limit": limit}
    if form == "json":
        click.echo(msgspec.json.encode(_ask(port, control, request)).decode())
        return
    run_top(TopOptions(path, request, interval, once))


def _ask(port: int, control: str, request: dict[str, object]) -> dict[str, object]:
    return ask(control or control_path(port), {"op": "flow", **request})


def _show(answer: dict[str, object], form: str, show: Callable[[dict[str, object]], None]) -> None:
    if form == "json":
        click.echo(msgspec.json.encode(answer).decode())
    else:
        show(answer)
