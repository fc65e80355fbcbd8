"""`penstock flow`: what moves, what waits and what may be changed in a running broker."""

import sys
from typing import Final

import click

from penstock.base.errors import OperatorError
from penstock.broker.admin.answers import Accounts, Alarms, Changes, QueueCauses, SettingRows
from penstock.broker.admin.flow_edges import SORTS as EDGE_SORTS
from penstock.broker.admin.flow_edges import Edges
from penstock.broker.admin.flow_top import SORTS as TOP_SORTS
from penstock.cli.asking import RunningBroker, asking, limited, print_json
from penstock.cli.flow_tables import (
    show_accounts,
    show_alarms,
    show_causes,
    show_changes,
    show_edges,
    show_settings,
)
from penstock.cli.flow_top import TopOptions, run_top
from penstock.server.control.control_client import ask

FLOW: Final[dict[str, object]] = {"op": "flow"}
HELD: Final = 3
"""Exit status of a listing in which something is held."""


@click.group()
def flow() -> None:
    """What moves, what waits, and what may be changed while the broker runs."""


@flow.command()
@asking
@limited
@click.option("--vhost", default="", help="Only this virtual host.")
@click.option("--blocked", is_flag=True, help="Only hops over which nothing may be handed now.")
@click.option("--sort", type=click.Choice(EDGE_SORTS), default="blocked", show_default=True)
def edges(broker: RunningBroker, limit: int, vhost: str, blocked: bool, sort: str) -> None:
    """List the hops: who hands to whom, what is left of the window, who waits, and since when.

    LEFT is what the sender may still hand over, of its window in messages; IN FLIGHT what the
    receiver has not finished; KEPT is credit it withholds because it is held itself. HELD is the
    time the hop was closed in all.

    Exit status: 0 nothing is blocked, 3 some hop is.
    """
    request = {"do": "edges", "vhost": vhost, "blocked": blocked, "sort": sort, "limit": limit}
    answer = broker.show(FLOW | request, Edges, show_edges)
    sys.exit(HELD if answer.blocked else 0)


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
def accounts(broker: RunningBroker, limit: int, vhost: str, of: tuple[str, str] | None) -> None:
    """Show the ledger: who has how much work outstanding, and whose messages rest in queues.

    DEBT is work under way (mailboxes, bytes that wait for sockets), STORED what rests in queues,
    both of everything this account has caused. Above its limit in debt an account is held.
    KEPT is what lies in streams because reader groups have not passed it yet.

    Exit status: 0 nobody is held, 3 somebody is.
    """
    if of is not None:
        if of[0] != "queue":
            raise click.UsageError(f"--of {of[0]}: only `--of queue NAME` is known")
        causes = {"do": "accounts", "queue": of[1], "limit": limit}
        broker.show(FLOW | causes, QueueCauses, show_causes)
        return
    request = {"do": "accounts", "vhost": vhost, "limit": limit}
    answer = broker.show(FLOW | request, Accounts, show_accounts)
    sys.exit(HELD if any(row.is_held or row.held_by for row in answer.accounts) else 0)


@flow.command()
@asking
def alarms(broker: RunningBroker) -> None:
    """Show the memory and disk alarms: levels, limits, and whom they stop.

    Exit status: 0 no alarm is set, 3 one is.
    """
    answer = broker.show(FLOW | {"do": "alarms"}, Alarms, show_alarms)
    sys.exit(HELD if any(row.is_set for row in answer.alarms) else 0)


@flow.command("set")
@asking
@click.argument("changes", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--for", "lasting", default="", help="Take it back after 30s, 10m, 90m ...")
def set_(broker: RunningBroker, changes: tuple[str, ...], lasting: str) -> None:
    """List the settings, or change some of them at once: all that are given, or none.

    A change is recorded and logged, and lasts until the broker stops or --for is over.

    Exit status: 0 done, 2 refused; nothing has changed then.
    """
    if not changes:
        if lasting:
            raise click.UsageError("--for needs something to set: KEY=VALUE")
        broker.show(FLOW | {"do": "settings"}, SettingRows, show_settings)
        return
    wanted: dict[str, str] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if equals == "" or key == "" or value == "":
            raise OperatorError(f"'{change}' is not KEY=VALUE; `penstock flow set` lists the keys")
        if key in wanted:
            raise OperatorError(f"setting '{key}' is given twice; give each key once")
        wanted[key] = value
    request = {"do": "set", "changes": wanted, "for": lasting}
    broker.show(FLOW | request, Changes, show_changes)


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
    broker: RunningBroker,
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
    request = FLOW | {"do": "top", "window_s": window, "sort": sort, "limit": limit}
    if broker.form == "json":
        print_json(ask(broker.path, request))
        return
    run_top(TopOptions(broker.path, request, interval, once))
