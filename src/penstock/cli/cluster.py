"""`penstock cluster`: how a cluster is, and what a person may do about it."""

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click
import msgspec

from penstock.base.errors import OperatorError
from penstock.broker.admin.cluster_answers import ClusterAnswer, moves_of
from penstock.cli.asking import FORM, TABLE, RunningBroker
from penstock.cli.cluster_moves import (
    await_rest,
    by_leaders,
    cluster_status,
    hand_over,
    meant,
    need_known,
    need_online,
    of_shard,
)
from penstock.cli.cluster_options import INSTALL
from penstock.cli.cluster_status import LEADER_S, of_leader, show_shards, show_status, with_leaders
from penstock.cli.numbers import NumberRange
from penstock.cli.prompts import confirmed
from penstock.cli.tables import columns, console, show, table
from penstock.server.cluster.member_files import leave
from penstock.server.control.control_client import UNKNOWN, ask, find_cluster, find_control

DAYS_MAX: Final = 3650
_NODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
MEMBER_COLUMNS: Final = columns("NODE:name VOTES NODES_REACH_IT_AT CLIENTS_AT::2 VERSION::1")
NO_LEADER: Final = 3
"""Exit status of `status` while no node leads."""
SECONDS_MAX: Final = 86_400.0
SINGLE: Final = (
    "the broker at {} is a single one and no node of a cluster; see `penstock serve --coordinator`"
)


@click.group()
def cluster() -> None:
    """Several nodes with one replicated log: how they are, and who leads."""


def of_node(command: Callable[..., None]) -> Callable[..., None]:
    """`--port` and `--control` of the node that is asked, as `path`."""

    @wraps(command)
    def asked(*args: object, port: int, control: str, **given: object) -> None:
        path = find_cluster(port, control)
        single = control or find_control(port)
        if path != single and not Path(path).exists() and Path(single).exists():
            raise OperatorError(SINGLE.format(single))
        try:
            command(*args, path=path, **given)
        except OperatorError as error:
            if UNKNOWN not in str(error):
                raise
            raise OperatorError(SINGLE.format(path)) from error

    asked = click.option("--control", default="", help="Its control socket, if elsewhere.")(asked)
    text = "Port where clients come to the node that is asked."
    return click.option("--port", default=5672, show_default=True, help=text)(asked)


@cluster.command()
@of_node
@FORM
def status(path: str, form: str) -> None:
    """Nodes, who leads, how far each is, and whether etcd answers.

    How far each node is, and which may not be stopped, the leader says; the rest is as the node
    that is asked has it.
    Exit status: 0 a node leads, 3 none does.
    """
    broker = RunningBroker(path, form)
    found = broker.ask({"op": "cluster_status"})
    answer = msgspec.convert(found, ClusterAnswer)
    is_leaders = answer.leader == answer.node
    if answer.shards:
        found = with_leaders(broker, found)
        answer = msgspec.convert(found, ClusterAnswer)
    elif answer.leader and not is_leaders:
        # When it is being replaced, or stands still, what this node knows has to do.
        with suppress(OperatorError):
            request: dict[str, object] = {"op": "cluster_status", "at_leader": True}
            found |= of_leader(broker.ask(request, LEADER_S))
            answer = msgspec.convert(found, ClusterAnswer)
            is_leaders = True
    if form != TABLE:
        broker.print(found)
    elif answer.shards:
        show_shards(answer)
    else:
        show_status(answer, is_leaders)
    if not all(one.leader for one in answer.shards or [answer]):
        sys.exit(NO_LEADER)


@cluster.command()
@of_node
@FORM
def members(path: str, form: str) -> None:
    """Nodes and their addresses, a line each."""
    RunningBroker(path, form).show({"op": "cluster_status"}, ClusterAnswer, _show_members)


def _show_members(answer: ClusterAnswer) -> None:
    rows = [
        (one.name, "yes" if one.is_voter else "no", one.address, one.clients, one.version)
        for one in answer.nodes
    ]
    show(console(), table(MEMBER_COLUMNS, rows))


@cluster.command()
@click.argument("node")
@of_node
@click.option("--shard", type=click.IntRange(0), default=None, help="Of this shard alone.")
@click.option("--vhost", default="", help="Of the shard alone that has this virtual host.")
def move(node: str, path: str, shard: int | None, vhost: str) -> None:
    """Hand leadership to NODE, where nodes have several workers of all shards, or of one.

    Clients connect again, within a second or so.
    """
    answer = cluster_status(path)
    need_known(answer, node)
    need_online(by_leaders(path), node)
    for number in meant(answer, shard, vhost):
        leader = hand_over(path, node, number=number)
        click.echo(f"node {leader} leads{of_shard(number)}")


@cluster.command()
@of_node
def rebalance(path: str) -> None:
    """Spread the leaders of shards evenly over the nodes that are online and have everything.

    Where nodes have one worker each there is one log with one leader, and nothing to spread: it is
    said who leads; `move` chooses another one."""
    broker = RunningBroker(path, TABLE)
    found = broker.ask({"op": "cluster_status"})
    answer = msgspec.convert(found, ClusterAnswer)
    if not answer.shards:
        if not answer.leader:
            raise OperatorError("no node leads now; see penstock cluster status")
        click.echo(
            f"node {answer.leader} leads all queues: there is one log, and nothing to spread"
        )
        return
    answer = msgspec.convert(with_leaders(broker, found), ClusterAnswer)
    moves = moves_of(answer.shards)
    for number, node in moves:
        leader = hand_over(path, node, number=number)
        click.echo(f"node {leader} leads shard {number}")
    if not moves:
        leads = ", ".join(f"{one.shard} by {one.leader or 'none'}" for one in answer.shards)
        click.echo(f"nothing is moved; shards are led as evenly as can be: {leads}")


@cluster.command()
@click.argument("node")
@of_node
def drain(node: str, path: str) -> None:
    """Prepare NODE for a stop: it leads no more, and others go on without it."""
    whole = cluster_status(path)
    need_known(whole, node)
    for answer in whole.shards or [whole]:
        left = [one for one in answer.nodes if one.is_voter and one.is_online and one.name != node]
        if len(left) < answer.majority:
            at = f" of shard {answer.shard}" if whole.shards else ""
            raise OperatorError(
                f"without node '{node}' {len(left)} of {len(answer.voters)} voters{at} are online, "
                f"and a majority is {answer.majority}: start another one first"
            )
    whole = await_rest(path, node)
    if whole.shards:
        # Of a cluster that has just begun, too: it is given no leader while it waits for its end.
        ask(path, {"op": "cluster_keep"})
    for answer in whole.shards or [whole]:
        number = answer.shard if whole.shards else None
        if answer.leader == node:
            leader = hand_over(path, away=node, number=number)
            click.echo(f"node {leader} leads{of_shard(number)}")
    await_rest(path, node)
    click.echo(f"node {node} may be stopped")


@cluster.command()
@click.argument("name")
@of_node
@click.option("--force", is_flag=True, help="One that runs, too: it ends.")
def forget(name: str, path: str, force: bool) -> None:
    """Take NAME out of the cluster for good; its directory may not come back.

    The node is stopped, or lost.
    """
    running = [one.name for one in cluster_status(path).nodes if one.is_online]
    if name in running and not force:
        raise OperatorError(
            f"node '{name}' runs: stop it first, or say --force and it ends; what it has stays in "
            "its directory, which is of no use to this cluster any more"
        )
    ask(path, {"op": "cluster_forget", "name": name})
    click.echo(f"node {name} is forgotten; to have it back, start it with an empty directory")


@cluster.command("force-leader")
@click.argument("name")
@of_node
@click.option("--yes", is_flag=True, help="Do not ask.")
def force_leader(name: str, path: str, yes: bool) -> None:
    """Make NAME lead alone, when a majority is gone for good.

    Run it on that node. What only the others have is given up, and they may come back with empty
    directories only.
    """
    confirmed(f"Confirmed messages that are not on node '{name}' are lost by this. Go on?", yes)
    answer = cluster_status(path)
    lost = [one.shard for one in answer.shards if not one.leader]
    for number in (lost or [0]) if answer.shards else [None]:
        which = {} if number is None else {"shard": number}
        ask(path, {"op": "cluster_force_leader", "name": name, **which})
        leader = hand_over(path, name, number=number)
        click.echo(f"node {leader} leads{of_shard(number)}")


@cluster.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1, required=True)
@click.option("--days", default=365, show_default=True, type=click.IntRange(1, DAYS_MAX))
def certificates(directory: Path, names: tuple[str, ...], days: int) -> None:
    """Make an authority in DIRECTORY and a certificate for each node of NAMES, for trying out."""
    if find_spec("cryptography") is None:
        raise OperatorError(f"the package cryptography cannot be found: {INSTALL}")
    from penstock.cli.certificates import CA_CERT, make_authority, make_node

    for name in names:
        if _NODE.fullmatch(name) is None or name == "ca":
            raise OperatorError(f"'{name}' cannot be the name of a node and of its files")
    now = datetime.now(UTC)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not (directory / CA_CERT).exists():
            make_authority(directory, days, now)
        for name in names:
            make_node(directory, name, days, now)
    except OSError as fault:
        raise OperatorError(f"{directory} cannot be written: {fault.strerror}") from fault
    click.echo(f"made for {', '.join(names)}, good for {days} days. Start each node with its own:")
    for name in names:
        click.echo(
            f"    --cluster-cert {directory / f'{name}.pem'} "
            f"--cluster-key {directory / f'{name}.key'} --cluster-ca {directory / CA_CERT}"
        )


@cluster.command("leave")
@click.argument("directory", type=click.Path(path_type=Path))
def leave_cluster(directory: Path) -> None:
    """Make DIRECTORY, of a node that is stopped, a single broker's: the way out of a cluster."""
    workers = leave(directory)
    if workers > 1:
        click.echo(
            f"{directory} belongs to no cluster now: penstock serve --cores {workers} "
            f"--data {directory}"
        )
    else:
        click.echo(f"{directory} is a single broker's now: penstock serve --data {directory}")
    click.echo(
        "on a node that is left: penstock cluster forget its name (not if this is a copy, and the "
        "node goes on)"
    )


@cluster.command("try")
@click.option(
    "--seconds",
    default=20.0,
    show_default=True,
    type=NumberRange(0.0, SECONDS_MAX),
    help="How long the clients work.",
)
@click.option("--etcd", "program", default="", help="The etcd to run.  [default: etcd in PATH]")
@click.option("--keep", default="", help="Keep directories and logs here.")
def try_out(seconds: float, program: str, keep: str) -> None:
    """Three nodes and an etcd in this terminal; the leader is killed before your eyes."""
    if find_spec("etcd3gw") is None:
        raise OperatorError(f"the package etcd3gw cannot be found, which talks to etcd: {INSTALL}")
    if find_spec("pika") is None:
        raise OperatorError(
            "pika is not installed, which publishes here: pip install 'penstock-mq[demo]'"
        )
    from penstock.demo.cluster_try import run_try

    sys.exit(run_try(seconds, program, keep, click.echo))
