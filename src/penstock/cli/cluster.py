"""`penstock cluster`: how a cluster is, and what a person may do about it."""

import re
import sys
import time
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
from penstock.base.printable import printable
from penstock.broker.admin.cluster_answers import ClusterAnswer, NodeRow
from penstock.cli.asking import FORM, TABLE, RunningBroker
from penstock.cli.cluster_options import INSTALL
from penstock.cli.numbers import NumberRange
from penstock.cli.prompts import confirmed
from penstock.cli.tables import columns, console, show, table
from penstock.server.cluster.member_files import leave
from penstock.server.control.control_client import ask, find_cluster, find_control
from penstock.telemetry.words import size

DAYS_MAX: Final = 3650
_NODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
STATUS_COLUMNS: Final = columns(
    "NODE:name ONLINE ROLE POSITION:number:1 LAG:number WHOLE::3 CLIENTS_AT::2"
)
MEMBER_COLUMNS: Final = columns("NODE:name VOTES NODES_REACH_IT_AT CLIENTS_AT::2 VERSION::1")
NO_LEADER: Final = 3
"""Exit status of `status` while no node leads."""
LEADER_S: Final = 3.0
"""For how long `status` waits for the leader's word, which it can do without."""
SECONDS_MAX: Final = 86_400.0
SINGLE: Final = (
    "the broker at {} is a single one and no node of a cluster; see `penstock serve --coordinator`"
)
HAND_OVER_S: Final = 60.0
"""For an election or two, on a machine with much else to do."""


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
            if "unknown question" not in str(error):
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

    All but the nodes' rows is as the node that is asked has it; how far each is the leader says.
    Exit status: 0 a node leads, 3 none does.
    """
    broker = RunningBroker(path, form)
    found = broker.ask({"op": "cluster_status"})
    answer = msgspec.convert(found, ClusterAnswer)
    is_leaders = answer.leader == answer.node
    if answer.leader and not is_leaders:
        # When it is being replaced, or stands still, what this node knows has to do.
        with suppress(OperatorError):
            request: dict[str, object] = {"op": "cluster_status", "at_leader": True}
            found |= {"nodes": broker.ask(request, LEADER_S)["nodes"]}
            answer = msgspec.convert(found, ClusterAnswer)
            is_leaders = True
    if form == TABLE:
        _show_status(answer, is_leaders)
    else:
        broker.print(found)
    if not answer.leader:
        sys.exit(NO_LEADER)


@cluster.command()
@of_node
@FORM
def members(path: str, form: str) -> None:
    """Nodes and their addresses, a line each."""
    RunningBroker(path, form).show({"op": "cluster_status"}, ClusterAnswer, _show_members)


def _show_status(answer: ClusterAnswer, is_leaders: bool) -> None:
    """is_leaders: the nodes' rows are by the one that leads."""
    leads = f"node {answer.leader} leads" if answer.leader else f"none leads ({answer.phase})"
    click.echo(f"cluster {answer.cluster}   epoch {answer.epoch}   {leads}")
    reach = "answers" if answer.is_etcd_reachable else "does not answer"
    click.echo(f"etcd    {reach}: {printable(answer.etcd)}")
    click.echo("")
    rows = [_status_row(answer, one, is_leaders) for one in answer.nodes]
    show(console(), table(STATUS_COLUMNS, rows))
    if answer.is_mirrored:
        synced = [one.name for one in answer.nodes if one.is_in_sync]
        late = [one.name for one in answer.nodes if one.is_voter and not one.is_in_sync]
        without = f"; without {', '.join(late)}" if late else ""
        click.echo(f"mirrored queues are in sync on {', '.join(synced)}{without}")
    for one in answer.nodes:
        if not one.is_online and one.fault:
            click.echo(f" ! node {one.name}: {printable(one.fault)}")
    if answer.role == "refused" or (answer.words and not answer.leader):
        click.echo(f" ! node {answer.node}: {printable(answer.words)}")
    if answer.quorum_critical:
        click.echo(
            f" ! node-is-quorum-critical: {', '.join(answer.quorum_critical)}; if one of these "
            "stops, nothing is confirmed until it is back"
        )


def _status_row(answer: ClusterAnswer, one: NodeRow, is_leaders: bool) -> tuple[str, ...]:
    role = one.role if one.is_voter or one.is_leader else f"{one.role}, does not vote"
    lag = "-"
    if one.is_leader:
        lag = "0"
    elif one.lag_entries >= 0:
        lag = f"{one.lag_entries:,} ({size(max(one.lag_bytes, 0))})"
    whole = "yes" if one.is_whole else "being copied" if one.is_copied else "no"
    if not is_leaders and one.name != answer.node:
        # Only the leader knows of others.
        whole = "-"
    position = f"{one.persisted_seq:,}" if one.persisted_seq >= 0 else "-"
    online = "yes" if one.is_online else "no"
    return one.name, online, role, position, lag, whole, one.clients


def _show_members(answer: ClusterAnswer) -> None:
    rows = [
        (one.name, "yes" if one.is_voter else "no", one.address, one.clients, one.version)
        for one in answer.nodes
    ]
    show(console(), table(MEMBER_COLUMNS, rows))


@cluster.command()
@click.argument("node")
@of_node
def move(node: str, path: str) -> None:
    """Hand leadership to NODE. Clients connect again, within a second or so."""
    names = [one.name for one in _status(path).nodes]
    if node not in names:
        raise OperatorError(f"there is no node '{node}'; there are {', '.join(names)}")
    click.echo(f"node {_hand_over(path, lambda leader: leader == node, node)} leads")


@cluster.command()
@of_node
def rebalance(path: str) -> None:
    """Say who leads: one node leads all queues, so there is nothing to spread.

    RabbitMQ spreads the leaders of its queues here. A cluster of Penstock has one log with one
    leader; `move` chooses another one."""
    leader = _status(path).leader
    if not leader:
        raise OperatorError("no node leads now; see penstock cluster status")
    click.echo(f"node {leader} leads all queues: there is one log, and nothing to spread")


@cluster.command()
@click.argument("node")
@of_node
def drain(node: str, path: str) -> None:
    """Prepare NODE for a stop: it leads no more, and others go on without it."""
    answer = _status(path)
    left = [one for one in answer.nodes if one.is_voter and one.is_online and one.name != node]
    if len(left) < answer.majority:
        raise OperatorError(
            f"without node '{node}' {len(left)} of {len(answer.voters)} voters are online, and a "
            f"majority is {answer.majority}: start another one first"
        )
    if answer.leader in ("", node):
        click.echo(f"node {_hand_over(path, lambda leader: leader != node, '')} leads")
    click.echo(f"node {node} may be stopped")


@cluster.command()
@click.argument("name")
@of_node
@click.option("--force", is_flag=True, help="One that runs, too: it ends.")
def forget(name: str, path: str, force: bool) -> None:
    """Take NAME out of the cluster for good; its directory may not come back.

    The node is stopped, or lost.
    """
    running = [one.name for one in _status(path).nodes if one.is_online]
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
    ask(path, {"op": "cluster_force_leader", "name": name})
    click.echo(f"node {_hand_over(path, lambda leader: leader == name, name)} leads")


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
    leave(directory)
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


def _status(path: str) -> ClusterAnswer:
    return msgspec.convert(ask(path, {"op": "cluster_status"}), ClusterAnswer)


def _hand_over(path: str, is_wanted: Callable[[str], bool], name: str) -> str:
    """Who leads in the end. name: who is asked for, "" for anybody else than now.

    Who has more of the log leads, so an election may come out otherwise than was asked for, or be
    needed twice: then it is asked for again, once in an epoch. Raises: OperatorError after a while.
    """
    end = time.monotonic() + HAND_OVER_S
    asked, words = -1, ""
    while time.monotonic() < end:
        answer = _status(path)
        if answer.leader and is_wanted(answer.leader):
            return answer.leader
        if answer.leader and answer.epoch != asked:
            try:
                ask(path, {"op": "cluster_move", "name": name})
                asked = answer.epoch
            except OperatorError as error:
                if not answer.is_etcd_reachable:
                    raise
                words = str(error)
        time.sleep(0.1)
    why = f": {words}" if words else ""
    raise OperatorError(
        f"it has not come about within {HAND_OVER_S:.0f} s{why}; look at `penstock cluster status`"
    )
